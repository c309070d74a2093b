(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("counts").textContent);
  var now = { prior: data.prior.value, cost: data.cost, miss: data.miss, budget: data.budget };

  // -- decisions ------------------------------------------------------------------------------

  function ratioThreshold(pi, q, c) {
    if (q <= 0) { return Infinity; }
    if (q >= 1) { return -Infinity; }
    var against = c * (1 - q), level = (1 - c) * q * (1 - pi) + against * pi;
    return level === 0 ? (pi === 1 ? 1 : Infinity) : against / level;
  }

  // First level whose ratio lies above the threshold; ratios rise with the score.
  function firstAbove(threshold) {
    var low = 0, high = data.ratio.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (data.ratio[middle] > threshold) { high = middle; } else { low = middle + 1; }
    }
    return low;
  }

  function figures(q, c, recall, wrong) {
    var flagged = q * recall + (1 - q) * wrong;
    return {
      recall: recall, falsePositiveRate: wrong, flagged: flagged,
      precision: flagged > 0 ? q * recall / flagged : 1,
      accuracy: q * recall + (1 - q) * (1 - wrong),
      meanCost: (1 - c) * q * (1 - recall) + c * (1 - q) * wrong,
      truePositives: q * recall, misses: q * (1 - recall),
      falseAlarms: (1 - q) * wrong, trueNegatives: (1 - q) * (1 - wrong)
    };
  }

  // A value between the knots, by the log of the threshold.
  function between(values, threshold) {
    var at = data.knots.logRatio, x = Math.log(threshold), i = 1;
    if (x <= at[0]) { return values[0]; }
    if (x >= at[at.length - 1]) { return values[values.length - 1]; }
    while (at[i] < x) { i++; }
    return values[i - 1] + (values[i] - values[i - 1]) * (x - at[i - 1]) / (at[i] - at[i - 1]);
  }

  // Recall and false-positive rate at a threshold: as counted, moved to what other counts would show.
  function rate(name, end, threshold, k) {
    if (k < 0) { return 1; }
    if (threshold === Infinity) { return 0; }
    return Math.min(1, Math.max(0, data[name][k] + between(data.knots[name + end], threshold)));
  }

  function outlook(q, c) {
    var threshold = ratioThreshold(data.trainPrior, q, c);
    var k = threshold === -Infinity ? -1 : firstAbove(threshold);
    var out = figures(q, c, rate("recall", "", threshold, k), rate("wrong", "", threshold, k));
    out.level = k;
    out.threshold = threshold;
    return out;
  }

  function asFound() { return now.prior === data.prior.value && now.cost === data.cost; }

  // Limits of each figure: as computed with the page, or the corners of what is left open elsewhere.
  function limits(q, c, threshold, k) {
    if (asFound()) { return data.found; }
    var recalls = [rate("recall", "Low", threshold, k), rate("recall", "High", threshold, k)];
    var wrongs = [rate("wrong", "Low", threshold, k), rate("wrong", "High", threshold, k)];
    var out = {};
    recalls.forEach(function (recall) {
      wrongs.forEach(function (wrong) {
        var corner = figures(q, c, recall, wrong);
        Object.keys(corner).forEach(function (name) {
          var seen = out[name] || [Infinity, -Infinity];
          out[name] = [Math.min(seen[0], corner[name]), Math.max(seen[1], corner[name])];
        });
      });
    });
    return out;
  }

  // What the best rows hold, if no more than a share of them can be looked at.
  function atDepth(share, q) {
    var counted = data.newShare !== null && q === data.prior.value, last = data.recall.length - 1;
    function depth(k) {
      return k < 0 ? 1 : counted ? data.newShare[k] : q * data.recall[k] + (1 - q) * data.wrong[k];
    }
    var k = 0;
    while (k < last && depth(k) > share) { k++; }
    var wide = depth(k - 1) - depth(k), t = wide > 0 ? Math.min(1, Math.max(0, (share - depth(k)) / wide)) : 0;
    function mixed(values, all) { return (1 - t) * values[k] + t * (k > 0 ? values[k - 1] : all); }
    var ends = counted ? [data.prior.low, data.prior.high] : [q, q];
    // No more positives can be found than rows are looked at.
    function cap(found, prior) { return prior > 0 ? Math.min(found, share / prior) : found; }
    var recall = cap(mixed(data.recall, 1), q), low = cap(mixed(data.recallLow, 1), ends[1]);
    var high = cap(mixed(data.recallHigh, 1), ends[0]);
    function precision(prior, found) { return Math.min(1, prior * found / share); }
    return {
      recall: recall, recallRange: [low, high], precision: precision(q, recall),
      precisionRange: [precision(ends[0], low), precision(ends[1], high)]
    };
  }

  // -- words ----------------------------------------------------------------------------------

  function percent(x) {
    if (!(x > 0 && x < 0.01)) { return (100 * x).toFixed(1) + "%"; }
    return (100 * x).toFixed(Math.min(1 - Math.floor(Math.log10(100 * x)), 6)) + "%";
  }
  function number(x) {
    if (x === Infinity) { return "none"; }
    if (x === -Infinity) { return "all"; }
    return String(Number(x.toPrecision(3)));
  }
  function amount(x) { return x >= 1000 ? Math.round(x).toLocaleString("en") : number(x); }
  function whole(x) { return Math.round(x).toLocaleString("en"); }
  function range(pair, form) { return form(pair[0]) + " to " + form(pair[1]); }
  function byId(name) { return document.getElementById(name); }

  // Whole rows that add up: the largest remainders are rounded up.
  function wholeRows(shares, rows) {
    var floors = shares.map(function (share) { return Math.floor(share * rows); });
    var left = rows - floors.reduce(function (a, b) { return a + b; }, 0);
    shares.map(function (share, i) { return [share * rows - floors[i], i]; })
      .sort(function (a, b) { return b[0] - a[0]; })
      .slice(0, left).forEach(function (pair) { floors[pair[1]]++; });
    return floors;
  }

  // -- drawing --------------------------------------------------------------------------------

  function place(chart, axis, value) {
    var parts = byId(chart).getAttribute("data-" + axis).split(" ").map(Number);
    var share = (Math.min(Math.max(value, parts[0]), parts[1]) - parts[0]) / (parts[1] - parts[0]);
    return (parts[2] + share * (parts[3] - parts[2])).toFixed(1);
  }
  function moveRule(name, chart, value) {
    var x = place(chart, "x", value);
    byId(name).setAttribute("x1", x);
    byId(name).setAttribute("x2", x);
  }
  function moveDot(name, chart, x, y) {
    byId(name).setAttribute("cx", place(chart, "x", x));
    byId(name).setAttribute("cy", place(chart, "y", y));
  }
  function moveMarks(out) {
    var edge = byId("scores").getAttribute("data-x").split(" ").map(Number);
    var cut = out.level < 0 ? edge[0] : out.level >= data.levels.length ? edge[1] : data.levels[out.level];
    moveRule("scores-cut", "scores", cut);
    moveDot("roc-cut", "roc", out.falsePositiveRate, out.recall);
    moveDot("gain-cut", "gain", out.flagged, out.recall);
    moveRule("outlook-cut", "outlook", now.prior);
  }

  // -- what is shown --------------------------------------------------------------------------

  var forms = {
    threshold: number, meanCost: number, flagged: percent, precision: percent, accuracy: percent,
    recall: percent, falsePositiveRate: percent
  };
  var cells = ["truePositives", "misses", "falseAlarms", "trueNegatives"];

  function fill(name, text, value) {
    byId("out-" + name).textContent = text;
    if (value !== undefined) { byId("out-" + name).setAttribute("data-value", String(value)); }
  }

  function showBill(out, ends) {
    var falseAlarm = now.miss * now.cost / (1 - now.cost), unit = data.rows * (falseAlarm + now.miss);
    fill("bill", amount(unit * out.meanCost), unit * out.meanCost);
    byId("range-bill").textContent = range([unit * ends.meanCost[0], unit * ends.meanCost[1]], amount);
  }

  function showBudget() {
    var found = atDepth(now.budget / data.rows, now.prior);
    fill("budgetPrecision", percent(found.precision), found.precision);
    fill("budgetRecall", percent(found.recall), found.recall);
    fill("budgetFound", whole(now.budget * found.precision), now.budget * found.precision);
    byId("range-budgetPrecision").textContent = range(found.precisionRange, percent);
    byId("range-budgetRecall").textContent = range(found.recallRange, percent);
    byId("range-budgetFound").textContent = range(
      [now.budget * found.precisionRange[0], now.budget * found.precisionRange[1]], whole
    );
  }

  function showWords(out) {
    var times = now.cost / (1 - now.cost), more = number(times >= 1 ? times : 1 / times);
    byId("cost-words").textContent = more === "1" ? "a false alarm is as bad as a miss"
      : times > 1 ? "a false alarm is " + more + " times as bad as a miss"
      : "a miss is " + more + " times as bad as a false alarm";
    byId("said").textContent = "With " + percent(now.prior) + " positives and cost " + number(now.cost) + ", "
      + percent(out.flagged) + " of rows are flagged; " + percent(out.precision)
      + " of them are expected to be positive, and " + percent(out.recall) + " of the positives are found.";
  }

  function show() {
    var out = outlook(now.prior, now.cost), ends = limits(now.prior, now.cost, out.threshold, out.level);
    Object.keys(forms).forEach(function (name) {
      fill(name, forms[name](out[name]), out[name]);
      var beside = byId("range-" + name);
      if (beside !== null) { beside.textContent = range(ends[name], forms[name]); }
    });
    var rows = wholeRows(cells.map(function (name) { return out[name]; }), data.rows);
    cells.forEach(function (name, i) { fill(name, rows[i].toLocaleString("en"), out[name]); });
    if (data.newShare !== null) {
      var counted = out.level < 0 ? 1 : data.newShare[out.level];
      var flagged = asFound() ? data.flagged : Math.round(counted * data.rows);
      fill("reallyFlagged", flagged.toLocaleString("en"), flagged);
    }
    showBill(out, ends);
    showBudget();
    showWords(out);
    moveMarks(out);
  }

  // -- controls -------------------------------------------------------------------------------

  var rules = {
    prior: { words: "The share of positives must lie between 0 and 1",
      fits: function (x) { return x >= 0 && x <= 1; } },
    cost: { words: "The cost must lie between 0 and 1, without the ends",
      fits: function (x) { return x > 0 && x < 1; } },
    falseAlarm: { words: "An amount must be above 0", fits: function (x) { return x > 0 && isFinite(x); } },
    miss: { words: "An amount must be above 0", fits: function (x) { return x > 0 && isFinite(x); } },
    budget: { words: "The rows to look at must be a whole number from 1 to " + data.rows.toLocaleString("en"),
      fits: function (x) { return x >= 1 && x <= data.rows && Math.floor(x) === x; } }
  };

  function write(id, value, from) {
    if (from === id) { return; }
    byId(id).value = value;
    byId(id).removeAttribute("aria-invalid");
  }

  function refresh(from) {
    var slider = byId("prior");
    if (now.prior > Number(slider.max)) { slider.max = "1"; slider.step = "0.001"; }
    write("prior", now.prior, from);
    write("prior-number", Number(now.prior.toPrecision(4)), from);
    write("cost", now.cost, from);
    write("cost-number", Number(now.cost.toPrecision(4)), from);
    write("false-alarm", Number((now.miss * now.cost / (1 - now.cost)).toPrecision(4)), from);
    write("miss", Number(now.miss.toPrecision(4)), from);
    write("budget", now.budget, from);
    slider.setAttribute("aria-valuetext", percent(now.prior));
    byId("cost").setAttribute("aria-valuetext", number(now.cost));
    show();
  }

  function take(name, value, from) {
    var amounts = { falseAlarm: now.miss * now.cost / (1 - now.cost), miss: now.miss };
    if (name in amounts) {
      amounts[name] = value;
      now.miss = amounts.miss;
      now.cost = amounts.falseAlarm / (amounts.falseAlarm + amounts.miss);
    } else {
      now[name] = value;
    }
    refresh(from);
  }

  function listen(id, name) {
    byId(id).addEventListener("input", function () {
      if (this.value === "") { return; }  // somebody is still typing
      var value = Number(this.value), fits = rules[name].fits(value);
      this.setAttribute("aria-invalid", String(!fits));
      byId("refused").textContent = fits ? "" : rules[name].words + ", got " + this.value + ": nothing was changed.";
      if (fits) { take(name, value, id); }
    });
  }

  [["prior", "prior"], ["prior-number", "prior"], ["cost", "cost"], ["cost-number", "cost"],
    ["false-alarm", "falseAlarm"], ["miss", "miss"], ["budget", "budget"]].forEach(function (pair) {
    listen(pair[0], pair[1]);
  });

  function goTo(prior) {
    byId("refused").textContent = "";
    now.prior = prior;
    now.cost = data.cost;
    now.miss = data.miss;
    refresh("");
  }
  byId("as-found").addEventListener("click", function () { goTo(data.prior.value); });
  byId("as-trained").addEventListener("click", function () { goTo(data.trainPrior); });
  show();
}());
