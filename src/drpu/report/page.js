// The what-if explorer: looks rates up in the tables that drpu.report.whatif made, and puts figures together.
function Explorer(data) {
  "use strict";
  var Z2 = 3.841458820694124;  // limits of figures are at 95 %
  var NAMES = ["accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost"];

  function clip(x) { return Math.min(1, Math.max(0, x)); }

  // How many of the ascending values are at most x.
  function countUpTo(values, x) {
    var low = 0, high = values.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (values[middle] <= x) { low = middle + 1; } else { high = middle; }
    }
    return low;
  }
  function between(a, b, t) { return t === 0 ? a : t === 1 ? b : a + t * (b - a); }
  function interpolate(x, at, values) {
    var i = countUpTo(at, x);
    if (i === 0 || i === at.length) { return values[i === 0 ? 0 : i - 1]; }
    return between(values[i - 1], values[i], (x - at[i - 1]) / (at[i] - at[i - 1]));
  }

  // -- decisions ------------------------------------------------------------------------------

  function logit(x) { return Math.log(x / (1 - x)); }

  // Ratio above which rows are flagged: by the prior at which labels are made, or by the map of answers.
  function threshold(prior, c) {
    var pi = data.trainPrior, q = prior.labelsAt, against = c * (1 - q), level = (1 - c) * q * (1 - pi) + against * pi;
    if (prior.map !== null) {
      var intercept = prior.map.intercept + logit(Math.min(1 - 1e-9, Math.max(1e-9, q)));
      var z = (logit(c) - intercept) / prior.map.slope, most = prior.map.farthest;
      if (z < -most || z >= most) { return z < 0 ? -Infinity : Infinity; }
      return 1 / (1 + Math.exp(-z)) / Math.max(pi, 1e-12);
    }
    if (q <= 0 || q >= 1) { return q <= 0 ? Infinity : -Infinity; }
    if (pi === 1) { return q > c ? 1 - Math.pow(2, -53) : 1; }
    return level === 0 ? Infinity : against / level;
  }

  // Score, recall, false-positive rate, its values at the limits of the training prior, and alternatives.
  function ratesAt(ratio) {
    var x = ratio > 0 ? Math.log(ratio) : -Infinity;
    var steps = data.steps, i = countUpTo(steps.at, x), row = steps.after[i];
    if (!isFinite(x)) { return row.map(function (_, k) { return k === 0 ? row[0] : x > 0 ? 0 : 1; }); }
    if (steps.before === null || i === 0 || i === steps.at.length) { return row; }
    var part = (x - steps.at[i - 1]) / (steps.at[i] - steps.at[i - 1]);
    return row.map(function (x, k) { return between(x, steps.before[i][k], part); });
  }

  // The figures in the order of NAMES.
  function figures(q, recall, wrong, c) {
    var flagged = q * recall + (1 - q) * wrong;
    return [q * recall + (1 - q) * (1 - wrong), flagged > 0 ? q * recall / flagged : NaN, recall, wrong, flagged,
      (1 - c) * q * (1 - recall) + c * (1 - q) * wrong];
  }

  // Variances of the figures of a batch.
  function batchNoise(f, q, c, rows) {
    var missed = q * (1 - f[2]), wrong = (1 - q) * f[3], least = 1 / rows;
    return [f[0] * (1 - f[0]), f[1] * (1 - f[1]) / Math.max(f[4], least), f[2] * (1 - f[2]) / Math.max(q, least),
      f[3] * (1 - f[3]) / Math.max(1 - q, least), f[4] * (1 - f[4]),
      (1 - c) * (1 - c) * missed + c * c * wrong - f[5] * f[5]
    ].map(function (variance) { return Math.max(variance, 0) / rows; });
  }

  // The same after answers, from recalls and false-positive rates at the limits of the map.
  function mapped(prior, c, row) {
    var ends = [prior.value, prior.low, prior.high], points = [];
    for (var k = 1; k < row.length; k += 2) { points.push(figures(ends[(k - 1) / 2 % 3], row[k], row[k + 1], c)); }
    var batch = prior.batch === null ? null : batchNoise(points[0], prior.value, c, prior.batch);
    return points[0].map(function (value, i) {
      var changes = points.map(function (one) { return isNaN(one[i]) ? 0 : one[i] - value; });
      var common = (NAMES[i] === "flagged" ? data.labelNoise * data.labelNoise : 0) + (batch === null ? 0 : batch[i]);
      var ends = [Math.min, Math.max].map(function (pick) { return Math.sqrt(Math.pow(pick.apply(null, changes), 2) + common * Z2); });
      return [value, clip(value - ends[0]), clip(value + ends[1])];
    });
  }

  // Each figure as [value, low, high]: deviations from all sources are added in squares.
  function withLimits(prior, c, row) {
    if (data.labelNoise !== null) { return mapped(prior, c, row); }
    var q = prior.value, middle = figures(q, row[1], row[2], c), pairs = [];
    for (var k = 5; k < row.length; k += 2) { pairs.push(figures(q, row[k], row[k + 1], c)); }
    var moved = pairs.slice(0, 5), folds = pairs.slice(5), corners = [];
    [row[3], row[4]].forEach(function (wrong) {
      [prior.low, prior.high].forEach(function (end) { corners.push(figures(end, row[1], wrong, c)); });
    });
    var batch = prior.batch === null ? null : batchNoise(middle, q, c, prior.batch);
    return middle.map(function (value, i) {
      function square(x) { return x * x; }
      function change(one) { return isNaN(one[i]) ? 0 : one[i] - value; }
      var least = Math.min.apply(null, corners.map(change).concat(0)), most = Math.max.apply(null, corners.map(change).concat(0));
      var mean = folds.reduce(function (sum, one) { return sum + one[i] / folds.length; }, 0);
      var common = folds.reduce(function (sum, one) { return sum + square(one[i] - mean) / folds.length; }, 0) * (folds.length - 1) * Z2;
      if (folds.length === 0) { common = 0; }
      if (batch !== null) { common += batch[i] * Z2; }
      var low = square(least) + common, high = square(most) + common;
      moved.map(change).forEach(function (x) { if (x < 0) { low += x * x; } else { high += x * x; } });
      return [value, clip(value - Math.sqrt(low)), clip(value + Math.sqrt(high))];
    });
  }

  // The prior with its limits, if it is one of the known ones; otherwise a number that somebody chose.
  function priorOf(state) {
    if (state.known !== null) { return data.known[state.known]; }
    return { value: state.prior, low: state.prior, high: state.prior, labelsAt: state.prior, map: data.known[0].map, level: "0.95", rows: data.rows, batch: null };
  }

  function expect(state) {
    var prior = priorOf(state), ratio = threshold(prior, state.cost), row = ratesAt(ratio), out = {};
    var first = state.known === 0 && state.cost === data.cost;
    var found = first ? data.found.figures.map(function (figure) {
      return figure.map(function (x) { return x === null ? NaN : x; });
    }) : withLimits(prior, state.cost, row);
    NAMES.forEach(function (name, i) { out[name] = found[i]; });
    return {
      figures: out, rows: prior.rows, score: row[0], cells: cells(prior, out.recall, out.false_positive_rate),
      threshold: first && data.found.threshold !== null ? data.found.threshold : ratio,
      flaggedRows: first ? data.found.flagged : state.known !== null && state.known > 1 ? null : flaggedRows(ratio)
    };
  }

  // Shares of the rows in the four cells of the confusion table, from the ends of prior and rate.
  function cells(prior, recall, wrong) {
    function rest(x) { return [1 - x[0], 1 - x[2], 1 - x[1]]; }
    function times(x, y) { return x.map(function (part, i) { return part * y[i]; }); }
    var positive = [prior.value, prior.low, prior.high];
    return { truePositives: times(positive, recall), misses: times(positive, rest(recall)),
      falseAlarms: times(rest(positive), wrong), trueNegatives: times(rest(positive), rest(wrong)) };
  }

  // How many of the new rows are flagged.
  function flaggedRows(ratio) {
    if (data.newRows === null || !(ratio > 0 && isFinite(ratio))) { return ratio > 0 ? 0 : data.rows; }
    var rank = data.newRows.rank, values = data.newRows.logRatio, x = Math.log(ratio) + 1e-9, k = 0;
    while (k < values.length && values[k] > x) { k++; }
    if (k === 0 || k === values.length || rank[k] === rank[k - 1] + 1) { return k === 0 ? 0 : rank[k - 1]; }
    return Math.floor(between(rank[k - 1], rank[k], (values[k - 1] - x) / (values[k - 1] - values[k])));
  }

  // -- a number of rows to check ----------------------------------------------------------------

  // Share of the rows above each level, the highest first: counted, or expected at a prior.
  function depths(state, q) {
    var gain = data.gain, deepest = 0;
    return gain.positive.map(function (b, k) {
      var depth = state.known === 0 && gain.newRows !== null ? gain.newRows[k] : q * b + (1 - q) * gain.negative[k];
      deepest = Math.max(deepest, depth);
      return deepest;
    });
  }

  // Threshold between the last row that is checked and the next one, or between two levels.
  function budgetThreshold(state, depth, part) {
    var values = data.gain.logRatio, j = countUpTo(depth, part), n = values.length;
    if (state.known === 0 && data.newRows !== null) {
      var row = function (place) { return interpolate(place, data.newRows.rank, data.newRows.logRatio); };
      return Math.exp((row(state.budget) + (state.budget < data.rows ? row(state.budget + 1) : row(state.budget) - 1)) / 2);
    }
    return Math.exp(j === 0 ? values[0] : (values[j - 1] + (j < n ? values[j] : values[j - 1] - 1)) / 2);
  }

  function atBudget(state) {
    var prior = priorOf(state), part = Math.min(1, state.budget / prior.rows), depth = depths(state, prior.value);
    var limits = data.shareLimits[prior.level], recall = interpolate(part, [0].concat(depth, 1), [0].concat(data.gain.positive, 1));
    var ends = [recall].concat(["low", "high"].map(function (end) {
      if (data.labelNoise === null) { return interpolate(recall, limits.at, limits[end]); }
      return interpolate(part, [0].concat(depth, 1), [0].concat(data.gain[end], 1));
    }));
    var priors = [prior.value, prior.low, prior.high], against = [prior.value, prior.high, prior.low];
    // No more positives can be found than rows are checked.
    ends = ends.map(function (x, i) { return against[i] > 0 ? Math.min(x, part / against[i]) : x; });
    var lift = ends.map(function (x) { return x / part; });
    lift[2] = Math.min(lift[2], 1 / Math.max(part, prior.low, 1e-12));
    return {
      share: part, recall: ends, lift: lift, threshold: budgetThreshold(state, depth, part),
      precision: ends.map(function (x, i) { return Math.min(1, priors[i] * x / part); })
    };
  }

  return { expect: expect, atBudget: atBudget };
}

// The controls and the numbers of the page.
function startPage(data) {
  "use strict";
  var explorer = Explorer(data);
  var now = { known: 0, prior: data.known[0].value, cost: data.cost, miss: data.miss, budget: data.budget };

  // -- numbers as text ------------------------------------------------------------------------

  function percent(x) {
    if (isNaN(x)) { return "cannot be computed"; }
    if (!(x > 0 && x < 0.01)) { return (100 * x).toFixed(1) + "%"; }
    return (100 * x).toFixed(Math.min(1 - Math.floor(Math.log10(100 * x)), 6)) + "%";
  }
  function number(x) {
    if (!isFinite(x)) { return x > 0 ? "none" : "all"; }
    return String(Number(x.toPrecision(3)));
  }
  function whole(x) { return Math.round(x).toLocaleString("en"); }
  function amount(x) { return x >= 1000 ? whole(x) : number(x); }
  function byId(name) { return document.getElementById(name); }
  function times(figure, factor) { return figure.map(function (x) { return factor * x; }); }

  // Whole rows that add up: the largest remainders are rounded up.
  function wholeRows(shares, rows) {
    var floors = shares.map(function (share) { return Math.floor(share * rows); });
    var left = rows - floors.reduce(function (a, b) { return a + b; }, 0);
    shares.map(function (share, i) { return [share * rows - floors[i], i]; })
      .sort(function (a, b) { return b[0] - a[0]; })
      .slice(0, left).forEach(function (pair) { floors[pair[1]]++; });
    return floors;
  }

  // -- marks in figures -----------------------------------------------------------------------

  var drawn = {};  // where Python drew each mark

  function place(chart, axis, value) {
    var parts = byId(chart).getAttribute("data-" + axis).split(" ").map(Number);
    var share = (Math.min(Math.max(value, parts[0]), parts[1]) - parts[0]) / (parts[1] - parts[0]);
    return parts[2] + share * (parts[3] - parts[2]);
  }
  function move(chart, mark, x, y) {
    var id = chart + "-" + mark, at = [place(chart, "x", x), y === null ? 0 : place(chart, "y", y)];
    if (!(id in drawn)) { drawn[id] = at; }
    byId(id).setAttribute("transform", "translate(" + (at[0] - drawn[id][0]) + " " + (at[1] - drawn[id][1]) + ")");
  }

  // -- what is shown --------------------------------------------------------------------------

  function fill(name, text, value) {
    byId("out-" + name).textContent = text;
    byId("out-" + name).setAttribute("data-value", String(value));
  }
  function fillRange(name, figure, form) {
    fill(name, form(figure[0]), figure[0]);
    byId("range-" + name).textContent = isNaN(figure[0]) ? "" : form(figure[1]) + " to " + form(figure[2]);
    byId("range-" + name).setAttribute("data-low", String(figure[1]));
    byId("range-" + name).setAttribute("data-high", String(figure[2]));
  }

  function showDecision() {
    var out = explorer.expect(now), figures = out.figures, cells = Object.keys(out.cells);
    fill("threshold", number(out.threshold), out.threshold);
    Object.keys(figures).forEach(function (name) { fillRange(name, figures[name], name === "cost" ? number : percent); });
    var rows = wholeRows(cells.map(function (name) { return out.cells[name][0]; }), out.rows);
    document.querySelectorAll(".rows-shown").forEach(function (span) { span.textContent = whole(out.rows); });
    cells.forEach(function (name, i) {
      var ends = times(out.cells[name], out.rows);
      fillRange(name, [rows[i], Math.min(ends[1], rows[i]), Math.max(ends[2], rows[i])], whole);
    });
    fillRange("bill", times(figures.cost, out.rows * now.miss / (1 - now.cost)), amount);
    if (data.newRows !== null && out.flaggedRows === null) {
      fill("reallyFlagged", "–", "");
    } else if (data.newRows !== null) {
      var about = data.newRows.rank.length < data.rows && out.flaggedRows !== data.found.flagged ? "about " : "";
      fill("reallyFlagged", about + whole(out.flaggedRows), out.flaggedRows);
    }
    move("scores", "cut", out.score, null);
    move("outlook", "cut", now.prior, null);
    move("precision", "cut", figures.recall[0], isNaN(figures.precision[0]) ? 1 : figures.precision[0]);
    move("roc", "cut", figures.false_positive_rate[0], figures.recall[0]);
    move("gain", "cut", figures.flagged[0], figures.recall[0]);
    byId("said").textContent = "With " + percent(now.prior) + " positives and cost " + number(now.cost) + ", "
      + percent(figures.flagged[0]) + " of rows are flagged; " + (isNaN(figures.precision[0]) ? "" :
        percent(figures.precision[0]) + " of them are expected to be positive, and ")
      + percent(figures.recall[0]) + " of the positives are found.";
  }

  function showBudget() {
    var found = explorer.atBudget(now);
    fill("budgetThreshold", number(found.threshold), found.threshold);
    fillRange("budgetFound", times(found.precision, now.budget), whole);
    fillRange("budgetPrecision", found.precision, percent);
    fillRange("budgetRecall", found.recall, percent);
    fillRange("budgetLift", found.lift, number);
    move("gain", "checked", found.share, found.recall[0]);
  }

  function showCost() {
    var ratio = now.cost / (1 - now.cost), more = number(Math.max(ratio, 1 / ratio));
    byId("cost-words").textContent = more === "1" ? "a false alarm is as bad as a miss"
      : ratio > 1 ? "a false alarm is " + more + " times as bad as a miss"
      : "a miss is " + more + " times as bad as a false alarm";
  }

  // -- controls -------------------------------------------------------------------------------

  function aboveZero(x) { return x > 0 && isFinite(x); }
  var controls = {
    prior: { ids: ["prior", "prior-number"], rule: "The share of positives must lie between 0 and 1",
      fits: function (x) { return x >= 0 && x <= 1; }, take: function (x) { now.prior = x; now.known = null; if (byId("period") !== null) { byId("period").value = ""; } } },
    cost: { ids: ["cost", "cost-number"], rule: "The cost must lie between 0 and 1, without the ends",
      fits: function (x) { return x > 0 && x < 1; }, take: function (x) { now.cost = x; } },
    falseAlarm: { ids: ["false-alarm"], rule: "An amount must be above 0", fits: aboveZero,
      take: function (x) { now.cost = x / (x + now.miss); } },
    miss: { ids: ["miss"], rule: "An amount must be above 0", fits: aboveZero,
      take: function (x) { var alarm = falseAlarm(); now.miss = x; now.cost = alarm / (alarm + x); } },
    budget: { ids: ["budget"], rule: "The rows to check must be a whole number from 1 to " + data.rows.toLocaleString("en"),
      fits: function (x) { return x >= 1 && x <= data.rows && Math.floor(x) === x; }, take: function (x) { now.budget = x; } }
  };
  function falseAlarm() { return now.miss * now.cost / (1 - now.cost); }
  function short(x) { return Number(x.toPrecision(4)); }

  function refresh(from) {
    var slider = byId("prior");
    if (now.prior > Number(slider.max)) { slider.max = "1"; slider.step = "0.001"; }
    var values = { prior: now.prior, "prior-number": short(now.prior), cost: now.cost, "cost-number": short(now.cost),
      "false-alarm": short(falseAlarm()), miss: short(now.miss), budget: now.budget };
    Object.keys(values).forEach(function (id) {
      if (id === from) { return; }
      byId(id).value = values[id];
      byId(id).removeAttribute("aria-invalid");
    });
    slider.setAttribute("aria-valuetext", percent(now.prior));
    byId("cost").setAttribute("aria-valuetext", number(now.cost));
    showCost();
    showDecision();
    showBudget();
  }

  Object.keys(controls).forEach(function (name) {
    var control = controls[name];
    control.ids.forEach(function (id) {
      byId(id).addEventListener("input", function () {
        if (this.value === "") { return; }  // somebody is still typing
        var value = Number(this.value), fits = control.fits(value);
        this.setAttribute("aria-invalid", String(!fits));
        byId("refused").textContent = fits ? "" : control.rule + ", got " + this.value + ": nothing was changed.";
        if (fits) { control.take(value); refresh(id); }
      });
    });
  });

  function goTo(known) {
    byId("refused").textContent = "";
    if (byId("period") !== null) { byId("period").value = String(known); }
    now.known = known;
    now.prior = data.known[known].value;
    now.cost = data.cost;
    now.miss = data.miss;
    refresh("");
  }
  byId("as-found").addEventListener("click", function () { goTo(0); });
  byId("as-trained").addEventListener("click", function () { goTo(1); });
  if (byId("period") !== null) {
    byId("period").addEventListener("change", function () { goTo(Number(this.value)); });
  }
  refresh("prior-number");
}

if (typeof document !== "undefined") { startPage(JSON.parse(document.getElementById("tables").textContent)); }
