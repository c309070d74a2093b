"use strict";

// The what-if explorer: looks rates up in the tables of drpu.report.data and computes figures.
function Explorer(data) {
  const Z2 = 3.841458820694124;  // limits of figures are at 95 %
  const NAMES = ["accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost"];
  const HALVES = 5;  // numbers of a step before the halves of its rate of false positives
  const ALTERNATIVES = 5;  // to the rates of a step, before those of the folds

  const clip = (x) => Math.min(1, Math.max(0, x));
  const square = (x) => x * x;
  const logit = (x) => Math.log(x / (1 - x));

  // How many of the ascending values are at most x.
  function countUpTo(values, x) {
    let low = 0;
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= x) { low = middle + 1; } else { high = middle; }
    }
    return low;
  }

  function between(a, b, part) {
    if (part === 0) { return a; }
    if (part === 1) { return b; }
    return a + part * (b - a);
  }

  function interpolate(x, places, values) {
    const i = countUpTo(places, x);
    if (i === 0) { return values[0]; }
    if (i === places.length) { return values[i - 1]; }
    const part = (x - places[i - 1]) / (places[i] - places[i - 1]);
    return between(values[i - 1], values[i], part);
  }

  // -- decisions ------------------------------------------------------------------------------

  // Ratio above which rows are flagged: by the map of answers, or where the mean probability over
  // all nodes exceeds the cost.
  function threshold(prior, cost) {
    if (prior.map !== null) { return mapThreshold(prior, cost); }
    if (prior.nodes.length === 1) { return nodeThreshold(prior.nodes[0], cost); }
    let low = 0;
    let high = 1 / Math.max(data.trainPrior, 1e-12);
    if (meanPosterior(low, prior.nodes) > cost) { return -Infinity; }
    if (meanPosterior(high, prior.nodes) <= cost) { return Infinity; }
    for (;;) {
      const middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) { return low; }  // neighbours among the numbers
      if (meanPosterior(middle, prior.nodes) > cost) { high = middle; } else { low = middle; }
    }
  }

  // The threshold of a single node: a weight, a training prior and a test prior.
  function nodeThreshold([, pi, q], cost) {
    if (q <= 0) { return Infinity; }
    if (q >= 1) { return -Infinity; }
    if (pi === 1) { return q > cost ? 1 - Math.pow(2, -53) : 1; }
    const against = cost * (1 - q);
    const level = (1 - cost) * q * (1 - pi) + against * pi;
    return level === 0 ? Infinity : against / level;
  }

  // Probability of a row with a ratio, averaged over the priors that are possible.
  function meanPosterior(ratio, nodes) {
    let sum = 0;
    for (const [weight, pi, q] of nodes) {
      const positive = q * (1 - pi) * Math.min(ratio, 1 / Math.max(pi, 1e-300));
      const mass = positive + (1 - q) * (1 - Math.min(pi * ratio, 1));
      sum += weight * (mass > 0 ? positive / mass : q);
    }
    return sum;
  }

  function mapThreshold(prior, cost) {
    const q = Math.min(1 - 1e-9, Math.max(1e-9, prior.labelsAt));
    const intercept = prior.map.intercept + logit(q);
    const z = (logit(cost) - intercept) / prior.map.slope;
    if (z < -prior.map.farthest) { return -Infinity; }
    if (z >= prior.map.farthest) { return Infinity; }
    return 1 / (1 + Math.exp(-z)) / Math.max(data.trainPrior, 1e-12);
  }

  // Score, recall, false-positive rate, its values at the limits of the training prior, its means
  // in either half of its distribution, the share of unlabeled rows that is flagged, and
  // alternatives.
  function ratesAbove(ratio) {
    const steps = data.steps;
    const x = ratio > 0 ? Math.log(ratio) : -Infinity;
    const i = countUpTo(steps.at, x);
    const row = steps.after[i];
    if (!isFinite(x)) {
      const rate = x > 0 ? 0 : 1;
      return [row[0]].concat(row.slice(1).map(() => rate));
    }
    if (steps.before === null || i === 0 || i === steps.at.length) { return row; }
    const part = (x - steps.at[i - 1]) / (steps.at[i] - steps.at[i - 1]);
    return row.map((rate, k) => between(rate, steps.before[i][k], part));
  }

  // The figures in the order of NAMES.
  function figuresOf(q, recall, wrong, cost) {
    const flagged = q * recall + (1 - q) * wrong;
    const accuracy = q * recall + (1 - q) * (1 - wrong);
    const precision = flagged > 0 ? q * recall / flagged : NaN;
    const meanCost = (1 - cost) * q * (1 - recall) + cost * (1 - q) * wrong;
    return [accuracy, precision, recall, wrong, flagged, meanCost];
  }

  // Variances of the figures of a batch; zeros if the prior is not that of a batch.
  function batchNoise(figures, prior, cost) {
    const rows = prior.batch;
    if (rows === null) { return figures.map(() => 0); }
    const [accuracy, precision, recall, wrong, flagged, meanCost] = figures;
    const q = prior.value;
    const least = 1 / rows;
    const variances = [
      accuracy * (1 - accuracy),
      precision * (1 - precision) / Math.max(flagged, least),
      recall * (1 - recall) / Math.max(q, least),
      wrong * (1 - wrong) / Math.max(1 - q, least),
      flagged * (1 - flagged),
      square(1 - cost) * q * (1 - recall) + square(cost) * (1 - q) * wrong - square(meanCost)
    ];
    return variances.map((variance) => Math.max(variance, 0) / rows);
  }

  // Differences of the i-th figure from its value; 0 where it cannot be computed.
  function changes(points, i, value) {
    return points.map((point) => isNaN(point[i]) ? 0 : point[i] - value);
  }

  // Each figure as [value, low, high] after answers, from the rates at the limits of the map.
  function limitsOfMap(prior, cost, row) {
    const priors = [prior.value, prior.low, prior.high];
    const points = [];
    for (let k = 1; k < row.length; k += 2) {
      points.push(figuresOf(priors[(k - 1) / 2 % 3], row[k], row[k + 1], cost));
    }
    const noise = batchNoise(points[0], prior, cost);
    return points[0].map((value, i) => {
      const labelNoise = NAMES[i] === "flagged" ? square(data.labelNoise) : 0;
      const common = (labelNoise + noise[i]) * Z2;
      const moves = changes(points, i, value);
      const down = Math.sqrt(square(Math.min(...moves)) + common);
      const up = Math.sqrt(square(Math.max(...moves)) + common);
      return [value, clip(value - down), clip(value + up)];
    });
  }

  // Means of the figures over the possible training priors and both halves of what the
  // false-positive rate may be at each.
  function meanFigures(prior, cost, row) {
    const recall = row[1];
    const priors = data.possiblePriors;
    const growth = (1 - prior.value) / Math.max(1 - data.unlabeledPrior, 1e-12);
    const possible = [];
    priors.forEach((pi, k) => {
      const moved = Math.min(Math.max(1 - growth * (1 - pi), prior.low), prior.high);
      const q = priors.length > 1 ? moved : prior.value;
      for (const wrong of row.slice(HALVES + 2 * k, HALVES + 2 * k + 2)) {
        possible.push(figuresOf(q, recall, wrong, cost));
      }
    });
    const sums = possible.reduce((sum, figures) => sum.map((x, i) => x + figures[i]));
    return sums.map((sum) => sum / possible.length);
  }

  // Each figure as [value, low, high]: deviations from all sources are added in squares.
  function withLimits(prior, cost, row) {
    if (data.labelNoise !== null) { return limitsOfMap(prior, cost, row); }
    const [, recall, wrong, wrongAtLow, wrongAtHigh] = row;
    const atMean = figuresOf(prior.value, recall, wrong, cost);
    const figures = meanFigures(prior, cost, row);
    const corners = [];
    for (const rate of [wrongAtLow, wrongAtHigh]) {
      for (const end of [prior.low, prior.high]) {
        corners.push(figuresOf(end, recall, rate, cost));
      }
    }
    const points = [];
    for (let k = HALVES + 2 * data.possiblePriors.length; k < row.length; k += 2) {
      points.push(figuresOf(prior.value, row[k], row[k + 1], cost));
    }
    const alternatives = points.slice(0, ALTERNATIVES);
    const folds = points.slice(ALTERNATIVES);
    const noise = batchNoise(atMean, prior, cost);
    return figures.map((value, i) => {
      const common = (spreadOfFolds(folds, i) + noise[i]) * Z2;
      const moves = changes(corners, i, atMean[i]).concat(0);
      let down = square(Math.min(...moves)) + common;
      let up = square(Math.max(...moves)) + common;
      for (const move of changes(alternatives, i, atMean[i])) {
        if (move < 0) { down += square(move); } else { up += square(move); }
      }
      return [value, clip(value - Math.sqrt(down)), clip(value + Math.sqrt(up))];
    });
  }

  // Jackknife variance of the i-th figure.
  function spreadOfFolds(folds, i) {
    const n = folds.length;
    if (n === 0) { return 0; }
    const mean = folds.reduce((sum, fold) => sum + fold[i] / n, 0);
    return (n - 1) * folds.reduce((sum, fold) => sum + square(fold[i] - mean) / n, 0);
  }

  // A known prior with its limits, or a number that somebody chose.
  function priorOf(state) {
    if (state.known !== null) { return data.known[state.known]; }
    return {
      value: state.prior, low: state.prior, high: state.prior, labelsAt: state.prior,
      nodes: data.trainNodes.map(([weight, pi]) => [weight, pi, state.prior]),
      map: data.known[0].map, level: "0.95", rows: data.rows, batch: null
    };
  }

  function expect(state) {
    const prior = priorOf(state);
    const ratio = threshold(prior, state.cost);
    const row = ratesAbove(ratio);
    const asFound = state.known === 0 && state.cost === data.cost;
    const numbers = asFound ? figuresFound() : withLimits(prior, state.cost, row);
    const figures = {};
    NAMES.forEach((name, i) => { figures[name] = numbers[i]; });
    const expected = {
      figures: figures,
      rows: prior.rows,
      score: row[0],
      cells: cellsOf(prior, figures.recall, figures.false_positive_rate),
      threshold: ratio,
      flaggedRows: flaggedRows(ratio)
    };
    if (asFound) {
      expected.flaggedRows = data.found.flagged;
      if (data.found.threshold !== null) { expected.threshold = data.found.threshold; }
    } else if (state.known > 1) {
      expected.flaggedRows = null;  // the rows of a period were not counted one by one
    }
    return expected;
  }

  // The figures that Python computed; JSON has null for NaN.
  function figuresFound() {
    return data.found.figures.map((figure) => figure.map((x) => x === null ? NaN : x));
  }

  // Shares of the rows in the four cells of the confusion table, from the ends of prior and rate.
  function cellsOf(prior, recall, wrong) {
    const rest = ([value, low, high]) => [1 - value, 1 - high, 1 - low];
    const times = (x, y) => x.map((part, i) => part * y[i]);
    const positive = [prior.value, prior.low, prior.high];
    const negative = rest(positive);
    return {
      truePositives: times(positive, recall),
      misses: times(positive, rest(recall)),
      falseAlarms: times(negative, wrong),
      trueNegatives: times(negative, rest(wrong))
    };
  }

  // How many of the new rows are flagged.
  function flaggedRows(ratio) {
    if (!(ratio > 0)) { return data.rows; }
    if (data.newRows === null || !isFinite(ratio)) { return 0; }
    const rank = data.newRows.rank;
    const values = data.newRows.logRatio;
    const x = Math.log(ratio) + 1e-9;
    let k = 0;
    while (k < values.length && values[k] > x) { k++; }
    if (k === 0) { return 0; }
    if (k === values.length || rank[k] === rank[k - 1] + 1) { return rank[k - 1]; }
    const part = (values[k - 1] - x) / (values[k - 1] - values[k]);
    return Math.floor(between(rank[k - 1], rank[k], part));
  }

  // -- a number of rows to check ----------------------------------------------------------------

  // Share of the rows above each level, the highest first: counted, or expected at a prior.
  function depthsOf(state, q) {
    const gain = data.gain;
    const counted = state.known === 0 && gain.newRows !== null;
    let deepest = 0;
    return gain.positive.map((positive, k) => {
      const depth = counted ? gain.newRows[k] : q * positive + (1 - q) * gain.negative[k];
      deepest = Math.max(deepest, depth);
      return deepest;
    });
  }

  // Threshold between the last row that is checked and the next one, or between two levels.
  function budgetThreshold(state, depths, part) {
    if (state.known === 0 && data.newRows !== null) {
      const logRatio = (place) => interpolate(place, data.newRows.rank, data.newRows.logRatio);
      const last = logRatio(state.budget);
      const next = state.budget < data.rows ? logRatio(state.budget + 1) : last - 1;
      return Math.exp((last + next) / 2);
    }
    const values = data.gain.logRatio;
    const j = countUpTo(depths, part);
    if (j === 0) { return Math.exp(values[0]); }
    const next = j < values.length ? values[j] : values[j - 1] - 1;
    return Math.exp((values[j - 1] + next) / 2);
  }

  function atBudget(state) {
    const prior = priorOf(state);
    const part = Math.min(1, state.budget / prior.rows);
    const depths = depthsOf(state, prior.value);
    const onCurve = (shares) => interpolate(part, [0].concat(depths, 1), [0].concat(shares, 1));
    const value = onCurve(data.gain.positive);
    let low, high;
    if (data.labelNoise === null) {
      const limits = data.shareLimits[prior.level];
      low = interpolate(value, limits.at, limits.low);
      high = interpolate(value, limits.at, limits.high);
    } else {
      low = onCurve(data.gain.low);
      high = onCurve(data.gain.high);
    }
    // No more positives can be found than rows are checked.
    const possible = (recall, q) => q > 0 ? Math.min(recall, part / q) : recall;
    const recall = [
      possible(value, prior.value), possible(low, prior.high), possible(high, prior.low)
    ];
    const priors = [prior.value, prior.low, prior.high];
    const lift = recall.map((x) => x / part);
    lift[2] = Math.min(lift[2], 1 / Math.max(part, prior.low, 1e-12));
    return {
      share: part,
      recall: recall,
      lift: lift,
      precision: recall.map((x, i) => Math.min(1, priors[i] * x / part)),
      threshold: budgetThreshold(state, depths, part)
    };
  }

  return { expect: expect, atBudget: atBudget };
}

// The controls and the numbers of the page.
function startPage(data) {
  const explorer = Explorer(data);
  const now = {
    known: 0, prior: data.known[0].value, cost: data.cost, miss: data.miss, budget: data.budget
  };
  const byId = (name) => document.getElementById(name);

  // -- numbers as text ------------------------------------------------------------------------

  function percent(x) {
    if (isNaN(x)) { return "cannot be computed"; }
    if (!(x > 0 && x < 0.01)) { return (100 * x).toFixed(1) + "%"; }
    const decimals = Math.min(1 - Math.floor(Math.log10(100 * x)), 6);
    return (100 * x).toFixed(decimals) + "%";
  }
  function number(x) {
    if (!isFinite(x)) { return x > 0 ? "none" : "all"; }
    return String(Number(x.toPrecision(3)));
  }
  const whole = (x) => Math.round(x).toLocaleString("en");
  const amount = (x) => x >= 1000 ? whole(x) : number(x);
  const short = (x) => Number(x.toPrecision(4));
  const rangeText = (figure, form) => form(figure[1]) + " to " + form(figure[2]);
  const isWide = (figure, form) => form === percent && figure[2] - figure[1] > data.wideRange;
  function shareText(figure) {
    return isWide(figure, percent) ? rangeText(figure, percent) : percent(figure[0]);
  }
  const times = (figure, factor) => figure.map((x) => factor * x);

  // Whole rows that add up: the largest remainders are rounded up.
  function wholeRows(shares, rows) {
    const counts = shares.map((share) => Math.floor(share * rows));
    const left = rows - counts.reduce((a, b) => a + b, 0);
    const remainders = shares.map((share, i) => [share * rows - counts[i], i]);
    remainders.sort((a, b) => b[0] - a[0]);
    for (const [, i] of remainders.slice(0, left)) { counts[i]++; }
    return counts;
  }

  // -- marks in figures -----------------------------------------------------------------------

  const drawn = {};  // where Python drew each mark

  function place(figure, axis, value) {
    const ends = byId(figure).getAttribute("data-" + axis).split(" ");
    const [first, last, start, end] = ends.map(Number);
    const inside = Math.min(Math.max(value, first), last);
    return start + (inside - first) / (last - first) * (end - start);
  }

  function moveMarks(expected, checked) {
    const figures = expected.figures;
    const markPlaces = {  // the numbers that a mark of a figure can follow
      score: expected.score,
      prior: now.prior,
      flagged: figures.flagged[0],
      recall: figures.recall[0],
      false_positive_rate: figures.false_positive_rate[0],
      checked: checked.share
    };
    for (const mark of data.marks) {
      const id = mark.figure + "-" + mark.name;
      const x = place(mark.figure, "x", markPlaces[mark.x]);
      const y = mark.y === null ? 0 : place(mark.figure, "y", markPlaces[mark.y]);
      if (!(id in drawn)) { drawn[id] = [x, y]; }
      const move = "translate(" + (x - drawn[id][0]) + " " + (y - drawn[id][1]) + ")";
      byId(id).setAttribute("transform", move);
    }
  }

  // -- what is shown --------------------------------------------------------------------------

  function fill(name, text, value) {
    byId("out-" + name).textContent = text;
    byId("out-" + name).setAttribute("data-value", String(value));
  }

  // A number and its range; where the range of a share is wide, the range alone.
  function fillRange(name, figure, form, wide = isWide(figure, form)) {
    const [value, low, high] = figure;
    const range = byId("range-" + name);
    fill(name, wide ? rangeText(figure, form) : form(value), value);
    range.textContent = isNaN(value) || wide ? "" : rangeText(figure, form);
    range.setAttribute("data-low", String(low));
    range.setAttribute("data-high", String(high));
  }

  function showDecision(expected) {
    const figures = expected.figures;
    fill("threshold", number(expected.threshold), expected.threshold);
    for (const name of Object.keys(figures)) {
      fillRange(name, figures[name], name === "cost" ? number : percent);
    }
    const bill = times(figures.cost, expected.rows * now.miss / (1 - now.cost));
    fillRange("bill", bill, amount);
    for (const span of document.querySelectorAll(".rows-shown")) {
      span.textContent = whole(expected.rows);
    }
    showCells(expected);
    if (data.newRows !== null) { showFlagged(expected.flaggedRows); }
    showSentence(figures);
  }

  function showCells(expected) {
    const names = Object.keys(expected.cells);
    const rows = wholeRows(names.map((name) => expected.cells[name][0]), expected.rows);
    names.forEach((name, i) => {
      const [, low, high] = times(expected.cells[name], expected.rows);
      const figure = [rows[i], Math.min(low, rows[i]), Math.max(high, rows[i])];
      fillRange(name, figure, whole, isWide(expected.cells[name], percent));
    });
  }

  function showFlagged(rows) {
    if (rows === null) {
      fill("reallyFlagged", "–", "");
      return;
    }
    const counted = data.newRows.rank.length === data.rows || rows === data.found.flagged;
    fill("reallyFlagged", (counted ? "" : "about ") + whole(rows), rows);
  }

  function showSentence(figures) {
    let sentence = "With " + percent(now.prior) + " positives and cost " + number(now.cost) + ", "
      + shareText(figures.flagged) + " of rows are flagged; ";
    if (!isNaN(figures.precision[0])) {
      sentence += shareText(figures.precision) + " of them are expected to be positive, and ";
    }
    sentence += shareText(figures.recall) + " of the positives are found.";
    byId("said").textContent = sentence;
  }

  function showBudget(checked) {
    fill("budgetThreshold", number(checked.threshold), checked.threshold);
    const wide = isWide(checked.precision, percent);
    fillRange("budgetFound", times(checked.precision, now.budget), whole, wide);
    fillRange("budgetPrecision", checked.precision, percent);
    fillRange("budgetRecall", checked.recall, percent);
    fillRange("budgetLift", checked.lift, number);
  }

  function costWords() {
    const ratio = now.cost / (1 - now.cost);
    const factor = number(Math.max(ratio, 1 / ratio));
    if (factor === "1") { return "a false alarm is as bad as a miss"; }
    if (ratio > 1) { return "a false alarm is " + factor + " times as bad as a miss"; }
    return "a miss is " + factor + " times as bad as a false alarm";
  }

  // -- controls -------------------------------------------------------------------------------

  const aboveZero = (x) => x > 0 && isFinite(x);
  const falseAlarm = () => now.miss * now.cost / (1 - now.cost);
  function choosePeriod(value) {
    if (byId("period") !== null) { byId("period").value = value; }
  }

  const controls = [
    {
      ids: ["prior", "prior-number"],
      rule: "The share of positives must lie between 0 and 1",
      fits: (x) => x >= 0 && x <= 1,
      take: (x) => { now.prior = x; now.known = null; choosePeriod(""); }
    },
    {
      ids: ["cost", "cost-number"],
      rule: "The cost must lie between 0 and 1, without the ends",
      fits: (x) => x > 0 && x < 1,
      take: (x) => { now.cost = x; }
    },
    {
      ids: ["false-alarm"],
      rule: "An amount must be above 0",
      fits: aboveZero,
      take: (x) => { now.cost = x / (x + now.miss); }
    },
    {
      ids: ["miss"],
      rule: "An amount must be above 0",
      fits: aboveZero,
      take: (x) => { now.cost = falseAlarm() / (falseAlarm() + x); now.miss = x; }
    },
    {
      ids: ["budget"],
      rule: "The rows to check must be a whole number from 1 to " + whole(data.rows),
      fits: (x) => x >= 1 && x <= data.rows && Number.isInteger(x),
      take: (x) => { now.budget = x; }
    }
  ];

  // Write the state into all controls except the one that was changed, and show the numbers.
  function refresh(changed) {
    const slider = byId("prior");
    if (now.prior > Number(slider.max)) {
      slider.max = "1";
      slider.step = "0.001";
    }
    const values = {
      prior: now.prior, "prior-number": short(now.prior),
      cost: now.cost, "cost-number": short(now.cost),
      "false-alarm": short(falseAlarm()), miss: short(now.miss), budget: now.budget
    };
    for (const id of Object.keys(values)) {
      if (id === changed) { continue; }
      byId(id).value = values[id];
      byId(id).removeAttribute("aria-invalid");
    }
    slider.setAttribute("aria-valuetext", percent(now.prior));
    byId("cost").setAttribute("aria-valuetext", number(now.cost));
    byId("cost-words").textContent = costWords();
    const expected = explorer.expect(now);
    const checked = explorer.atBudget(now);
    showDecision(expected);
    showBudget(checked);
    moveMarks(expected, checked);
  }

  function listen(id, control) {
    const box = byId(id);
    box.addEventListener("input", () => {
      if (box.value === "") { return; }  // somebody is still typing
      const value = Number(box.value);
      const fits = control.fits(value);
      box.setAttribute("aria-invalid", String(!fits));
      byId("refused").textContent = "";
      if (fits) {
        control.take(value);
        refresh(id);
      } else {
        const got = ", got " + box.value + ": nothing was changed.";
        byId("refused").textContent = control.rule + got;
      }
    });
  }
  for (const control of controls) {
    for (const id of control.ids) { listen(id, control); }
  }

  function goTo(known) {
    byId("refused").textContent = "";
    choosePeriod(String(known));
    now.known = known;
    now.prior = data.known[known].value;
    now.cost = data.cost;
    now.miss = data.miss;
    refresh("");
  }
  byId("as-found").addEventListener("click", () => goTo(0));
  byId("as-trained").addEventListener("click", () => goTo(1));
  if (byId("period") !== null) {
    byId("period").addEventListener("change", () => goTo(Number(byId("period").value)));
  }
  refresh("prior-number");
}

if (typeof document !== "undefined") {
  startPage(JSON.parse(document.getElementById("tables").textContent));
}
