(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("counts").textContent);
  var now = { prior: data.prior.value, cost: data.cost, miss: data.miss, budget: data.budget };

  // -- decisions ------------------------------------------------------------------------------

  var figures = Expectations(data);

  function asFound() { return now.prior === data.prior.value && now.cost === data.cost; }

  // The prior with its limits where it was estimated; a number where somebody chose it.
  function priorNow() {
    if (now.prior === data.prior.value) { return data.prior; }
    if (now.prior === data.trainPrior.value) { return data.trainPrior; }
    return { value: now.prior, low: now.prior, high: now.prior, level: 0.95 };
  }

  function outlook() {
    var batch = now.prior === data.prior.value ? data.batch : null;
    var out = figures.expect(priorNow(), now.cost, batch), q = now.prior;
    if (!asFound()) { return out; }
    // With an audit, figures are measured on its answers.
    Object.keys(data.found).forEach(function (name) { out.figures[name] = data.found[name]; });
    if (data.threshold !== null) { out.threshold = data.threshold; }
    var recall = data.found.recall[0], wrong = data.found.falsePositiveRate[0];
    holding("truePositives", q * recall);
    holding("misses", q * (1 - recall));
    holding("falseAlarms", (1 - q) * wrong);
    holding("trueNegatives", (1 - q) * (1 - wrong));
    return out;

    function holding(name, value) {
      var old = out.figures[name];
      out.figures[name] = [value, Math.min(value, old[1]), Math.max(value, old[2])];
    }
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
  function range(figure, form) { return form(figure[1]) + " to " + form(figure[2]); }
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
    var level = Math.ceil(out.level);
    var cut = level < 0 ? edge[0] : level >= data.levels.length ? edge[1] : data.levels[level];
    moveRule("scores-cut", "scores", cut);
    moveDot("roc-cut", "roc", out.figures.falsePositiveRate[0], out.figures.recall[0]);
    moveDot("gain-cut", "gain", out.figures.flagged[0], out.figures.recall[0]);
    moveRule("outlook-cut", "outlook", now.prior);
  }

  // -- what is shown --------------------------------------------------------------------------

  var forms = {
    meanCost: number, flagged: percent, precision: percent, accuracy: percent, recall: percent,
    falsePositiveRate: percent
  };

  var cells = ["truePositives", "misses", "falseAlarms", "trueNegatives"];

  function fill(name, text, value) {
    byId("out-" + name).textContent = text;
    if (value !== undefined) { byId("out-" + name).setAttribute("data-value", String(value)); }
  }
  function fillRange(name, figure, form) {
    fill(name, form(figure[0]), figure[0]);
    byId("range-" + name).textContent = range(figure, form);
    byId("range-" + name).setAttribute("data-low", String(figure[1]));
    byId("range-" + name).setAttribute("data-high", String(figure[2]));
  }
  function times(figure, factor) { return figure.map(function (x) { return factor * x; }); }

  function showBill(out) {
    var falseAlarm = now.miss * now.cost / (1 - now.cost);
    fillRange("bill", times(out.figures.meanCost, data.rows * (falseAlarm + now.miss)), amount);
  }

  function showBudget() {
    var counted = data.newRows !== null && now.prior === data.prior.value;
    var found = figures.atBudget(now.budget, priorNow(), counted);
    fill("budgetThreshold", number(found.threshold), found.threshold);
    fillRange("budgetFound", times(found.precision, now.budget), whole);
    fillRange("budgetPrecision", found.precision, percent);
    fillRange("budgetRecall", found.recall, percent);
    fillRange("budgetLift", found.lift, number);
    moveDot("gain-checked", "gain", now.budget / data.rows, found.recall[0]);
  }

  function showWords(out) {
    var times = now.cost / (1 - now.cost), more = number(times >= 1 ? times : 1 / times);
    byId("cost-words").textContent = more === "1" ? "a false alarm is as bad as a miss"
      : times > 1 ? "a false alarm is " + more + " times as bad as a miss"
      : "a miss is " + more + " times as bad as a false alarm";
    byId("said").textContent = "With " + percent(now.prior) + " positives and cost " + number(now.cost) + ", "
      + percent(out.figures.flagged[0]) + " of rows are flagged; " + percent(out.figures.precision[0])
      + " of them are expected to be positive, and " + percent(out.figures.recall[0])
      + " of the positives are found.";
  }

  function showReallyFlagged(out) {
    var flagged = figures.flaggedRows(out.threshold);
    var some = data.newRows.place.length < data.rows && !asFound();
    if (asFound()) { flagged = data.flagged; }
    fill("reallyFlagged", (some ? "about " : "") + flagged.toLocaleString("en"), flagged);
  }

  function show() {
    var out = outlook();
    fill("threshold", number(out.threshold), out.threshold);
    Object.keys(forms).forEach(function (name) { fillRange(name, out.figures[name], forms[name]); });
    var rows = wholeRows(cells.map(function (name) { return out.figures[name][0]; }), data.rows);
    cells.forEach(function (name, i) {
      var rowsRange = times(out.figures[name], data.rows);
      fill(name, rows[i].toLocaleString("en"), out.figures[name][0]);
      byId("range-" + name).textContent = range([0, Math.min(rowsRange[1], rows[i]), Math.max(rowsRange[2], rows[i])], whole);
    });
    if (data.newRows !== null) { showReallyFlagged(out); }
    showBill(out);
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
    budget: { words: "The rows to check must be a whole number from 1 to " + data.rows.toLocaleString("en"),
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
  byId("as-trained").addEventListener("click", function () { goTo(data.trainPrior.value); });
  show();
}());
