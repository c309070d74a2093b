// Expected performance from counts: the formulas of drpu.core.performance and drpu.core.budget.
function Expectations(data) {
  "use strict";
  var Z = 1.959963984540054, LEVEL = 0.95;  // limits of figures are at 95 %
  var CELLS = ["truePositives", "misses", "falseAlarms", "trueNegatives"];
  var NAMES = ["accuracy", "precision", "recall", "falsePositiveRate", "flagged", "meanCost"].concat(CELLS);
  var levels = data.logRatio.length;

  // -- limits of a share ------------------------------------------------------------------------

  // Stirling's series, which is exact to twelve digits from 10 on.
  function logGamma(x) {
    if (x < 10) { return logGamma(x + 1) - Math.log(x); }
    var y = 1 / (x * x);
    return (x - 0.5) * Math.log(x) - x + 0.9189385332046727
      + (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x;
  }

  // Continued fraction of the incomplete beta function, by the method of Lentz.
  function betaFraction(a, b, x) {
    var tiny = 1e-300, c = 1, d = 1 - (a + b) * x / (a + 1), m, top, step, f;
    d = 1 / (Math.abs(d) < tiny ? tiny : d);
    f = d;
    for (m = 1; m < 10000; m++) {
      for (var half = 0; half < 2; half++) {
        top = half === 0 ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
          : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + top * d;
        d = 1 / (Math.abs(d) < tiny ? tiny : d);
        c = 1 + top / c;
        c = Math.abs(c) < tiny ? tiny : c;
        step = c * d;
        f *= step;
      }
      if (Math.abs(step - 1) < 1e-15) { break; }
    }
    return f;
  }

  function beta(a, b, x) {
    if (x <= 0 || x >= 1) { return x <= 0 ? 0 : 1; }
    var front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x));
    return x < (a + 1) / (a + b + 2) ? front * betaFraction(a, b, x) / a : 1 - front * betaFraction(b, a, 1 - x) / b;
  }

  function betaInverse(a, b, p) {
    var low = 0, high = 1, middle = 0.5;
    for (var i = 0; i < 200 && high - low > 1e-15 * high; i++) {
      middle = (low + high) / 2;
      if (beta(a, b, middle) < p) { low = middle; } else { high = middle; }
    }
    return middle;
  }

  // Exact confidence limits of a share that was counted in n trials.
  function shareLimits(share, n, level) {
    var hits = share * n, tail = (1 - level) / 2;
    return [hits > 1e-9 ? betaInverse(hits, n - hits + 1, tail) : 0,
      n - hits > 1e-9 ? betaInverse(hits + 1, n - hits, 1 - tail) : 1];
  }

  // -- places in the counts ---------------------------------------------------------------------

  // Counts in a cell or above it, for every cell and for none.
  function above(counts) {
    var sums = new Array(counts.length + 1), total = 0;
    sums[counts.length] = 0;
    for (var i = counts.length - 1; i >= 0; i--) { total += counts[i]; sums[i] = total; }
    return sums;
  }
  function at(values, place) {
    var k = Math.floor(place), t = place - k;
    return t === 0 ? values[k] : (1 - t) * values[k] + t * values[k + 1];
  }
  function share(sums, place) { return at(sums, place) / sums[0]; }

  // First level whose value lies above x. Where the page carries some levels only, between two of them.
  function firstAbove(values, x) {
    var low = 0, high = values.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (values[middle] > x) { high = middle; } else { low = middle + 1; }
    }
    if (data.exact || low === 0 || low === values.length) { return low; }
    return low - 1 + (x - values[low - 1]) / (values[low] - values[low - 1]);
  }

  var positive = above(data.positive), unlabeled = above(data.unlabeled);
  var newCounts = data.newCounts === null ? null : above(data.newCounts);
  var folds = data.folds === null ? null : data.folds.map(function (fold) {
    return { ratio: fold.ratio, positive: above(fold.positive), unlabeled: above(fold.unlabeled) };
  });
  var whole = folds === null ? null : ["positive", "unlabeled"].map(function (name) {
    return folds[0][name].map(function (_, i) {
      return folds.reduce(function (sum, fold) { return sum + fold[name][i]; }, 0);
    });
  });

  // -- rates of a threshold ---------------------------------------------------------------------

  function ratioThreshold(q, c) {
    var pi = data.trainPrior.value;
    if (q <= 0) { return Infinity; }
    if (q >= 1) { return -Infinity; }
    if (pi === 1) { return q > c ? 1 - Math.pow(2, -53) : 1; }
    var against = c * (1 - q), level = (1 - c) * q * (1 - pi) + against * pi;
    return level === 0 ? Infinity : against / level;
  }

  function clip(x) { return Math.min(1, Math.max(0, x)); }
  function noise(part, n) {
    var cautious = (part * n + 0.5) / (n + 1);
    return cautious * (1 - cautious) / n;
  }

  // Shares flagged out of fold and in fold, and where each fold's decision starts.
  function judged(ratio) {
    var out = [0, 0], inside = [0, 0], cells = [];
    folds.forEach(function (fold) {
      var cell = firstAbove(fold.ratio, ratio) + 1;
      [fold.positive, fold.unlabeled].forEach(function (sums, i) {
        out[i] += at(sums, cell);
        inside[i] += (at(whole[i], cell) - at(sums, cell)) / (whole[i][0] - sums[0]);
      });
      cells.push(cell);
    });
    return { cells: cells, moved: [0, 1].map(function (i) {
      return out[i] / whole[i][0] - inside[i] / folds.length;
    }) };
  }

  function rates(threshold) {
    if (!isFinite(threshold)) {
      var rate = threshold < 0 ? 1 : 0;
      return { level: threshold < 0 ? -1 : levels, recall: rate, limits: [rate, rate], unlabeled: rate,
        wrong: rate, reach: 0, slope: 0, parts: [], models: 1 };
    }
    var level = firstAbove(data.logRatio, Math.log(threshold)), cell = level + 1, cells = [cell];
    var recall = share(positive, cell), flagged = share(unlabeled, cell), pi = data.unlabeledPrior.value;
    if (folds !== null) {
      var found = judged(threshold);
      recall = clip(recall + found.moved[0]);
      flagged = clip(flagged + found.moved[1]);
      cells = found.cells;
    }
    recall = Math.max(recall, 0.5 / data.nPositive);
    var odds = pi < 1 ? pi / (1 - pi) : 0, raw = rawWrong(flagged, recall, pi);
    var ofRecall = odds * odds * noise(recall, data.nPositive);
    var all = noise(flagged, data.nUnlabeled) * (1 + odds) * (1 + odds) + ofRecall;
    var smooth = at(data.plateau, cell), doubt = Math.pow(Math.max(2 * smooth, 0.5 / data.nUnlabeled), 2);
    var weight = doubt / (doubt + all);
    return {
      level: level, recall: recall, limits: shareLimits(recall, data.nPositive, LEVEL), unlabeled: flagged,
      wrong: clip(weight * raw + (1 - weight) * smooth),
      reach: Z * Math.sqrt(weight * all - weight * weight * ofRecall), slope: -weight * odds,
      parts: cells.map(function (c) { return [share(positive, c), at(data.plateau, c)]; }), models: data.models
    };
  }
  function rawWrong(flagged, recall, pi) { return pi < 1 ? (flagged - pi * recall) / (1 - pi) : flagged; }

  // -- figures ----------------------------------------------------------------------------------

  function figures(q, recall, wrong, c) {
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

  // Part of the errors that the use of all folds for a label may remove.
  function gain(errors) { return 0.15 + 0.35 / (1 + errors / 0.02); }

  // Rates that the limits of the counts allow, one at a time.
  function moved(r) {
    var out = r.limits.map(function (recall) {
      return [recall, clip(r.wrong + r.slope * (recall - r.recall))];
    });
    out.push([r.recall, clip(r.wrong - r.reach)], [r.recall, clip(r.wrong + r.reach)]);
    if (r.models > 1) {
      out.push([r.recall + gain(1 - r.recall) * (1 - r.recall), r.wrong * (1 - gain(r.wrong))]);
    }
    return out;
  }

  // Squared reach of each figure that comes from the threshold: a jackknife over the folds.
  function spread(r, q, c) {
    var each = r.parts.map(function (part) { return figures(q, part[0], part[1], c); }), out = {};
    NAMES.forEach(function (name) {
      var mean = 0, squares = 0;
      each.forEach(function (one) { mean += one[name] / each.length; });
      each.forEach(function (one) { squares += Math.pow(one[name] - mean, 2) / each.length; });
      out[name] = each.length < 2 ? 0 : (each.length - 1) * squares * Z * Z;
    });
    return out;
  }

  // Variances of the figures of a batch.
  function batchNoise(now, q, c, rows) {
    var missed = q * (1 - now.recall), wrong = (1 - q) * now.falsePositiveRate;
    var out = {
      accuracy: now.accuracy * (1 - now.accuracy),
      precision: now.precision * (1 - now.precision) / Math.max(now.flagged, 1 / rows),
      recall: now.recall * (1 - now.recall) / Math.max(q, 1 / rows),
      falsePositiveRate: now.falsePositiveRate * (1 - now.falsePositiveRate) / Math.max(1 - q, 1 / rows),
      flagged: now.flagged * (1 - now.flagged),
      meanCost: (1 - c) * (1 - c) * missed + c * c * wrong - now.meanCost * now.meanCost
    };
    CELLS.forEach(function (name) { out[name] = now[name] * (1 - now[name]); });
    NAMES.forEach(function (name) { out[name] = Math.max(out[name], 0) / rows; });
    return out;
  }

  // Figures with their limits at a prior that has limits itself; rows where it is that of a batch.
  function expect(prior, c, rows) {
    var threshold = ratioThreshold(prior.value, c), r = rates(threshold), q = prior.value;
    var middle = figures(q, r.recall, r.wrong, c), reach = spread(r, q, c), corners = [];
    [data.unlabeledPrior.low, data.unlabeledPrior.high].forEach(function (pi) {
      var change = rawWrong(r.unlabeled, r.recall, pi) - rawWrong(r.unlabeled, r.recall, data.unlabeledPrior.value);
      [prior.low, prior.high].forEach(function (end) {
        corners.push(figures(end, r.recall, clip(r.wrong + change), c));
      });
    });
    var others = moved(r).map(function (pair) { return figures(q, pair[0], pair[1], c); });
    var batch = rows === null ? null : batchNoise(middle, q, c, rows), out = {};
    NAMES.forEach(function (name) {
      var value = middle[name], low = 0, high = 0;
      corners.forEach(function (one) {
        low = Math.min(low, one[name] - value);
        high = Math.max(high, one[name] - value);
      });
      var common = reach[name] + (batch === null ? 0 : batch[name] * Z * Z);
      low = low * low + common;
      high = high * high + common;
      others.forEach(function (one) {
        var change = one[name] - value;
        if (change < 0) { low += change * change; } else { high += change * change; }
      });
      out[name] = [value, clip(value - Math.sqrt(low)), clip(value + Math.sqrt(high))];
    });
    return { threshold: threshold, level: r.level, figures: out };
  }

  // -- a number of rows to check ----------------------------------------------------------------

  // Share of the rows above each level, the top first: counted, or expected at a prior.
  function depths(q, counted) {
    var out = [0], pi = data.unlabeledPrior.value;
    for (var k = levels - 1; k >= -1; k--) {
      var b = k < 0 ? 1 : share(positive, k + 1), a = k < 0 ? 1 : share(unlabeled, k + 1);
      var depth = q * b + (1 - q) * (pi < 1 ? clip((a - pi * b) / (1 - pi)) : a);
      if (counted) { depth = k < 0 ? 1 : share(newCounts, k + 1); }
      out.push(Math.max(out[out.length - 1], depth));
    }
    return out;
  }

  // Threshold between the last row that is checked and the next one.
  function cutBetweenRows(checked) {
    var last = rowAt(checked), next = checked < data.rows ? rowAt(checked + 1) : last - 1;
    return Math.exp((last + next) / 2 + data.tieBreak);
  }
  function rowAt(place) {
    var places = data.newRows.place, values = data.newRows.logRatio, k = 0;
    while (places[k] < place) { k++; }
    if (places[k] === place) { return values[k]; }
    return values[k - 1] + (values[k] - values[k - 1]) * (place - places[k - 1]) / (places[k] - places[k - 1]);
  }
  function cutBetweenLevels(depth, part) {
    var k = 0, values = data.logRatio;
    while (k < levels && depth[levels - k] > part) { k++; }
    if (k === levels) { return Math.exp(values[levels - 1] + data.tieBreak); }
    return Math.exp((k > 0 ? values[k - 1] + values[k] : 2 * values[0] - 1) / 2 + data.tieBreak);
  }

  // How many of the new rows have a ratio above the threshold.
  function flaggedRows(threshold) {
    if (!isFinite(threshold)) { return threshold < 0 ? data.rows : 0; }
    var places = data.newRows.place, values = data.newRows.logRatio, x = Math.log(threshold), k = 0;
    while (k < values.length && values[k] > x) { k++; }
    if (k === 0) { return 0; }
    if (k === values.length || places[k] === places[k - 1] + 1) { return places[k - 1]; }
    var part = (values[k - 1] - x) / (values[k - 1] - values[k]);
    return Math.floor(places[k - 1] + part * (places[k] - places[k - 1]));
  }

  function atBudget(checked, prior, counted) {
    var part = checked / data.rows, depth = depths(prior.value, counted), j = 0;
    while (j + 1 < depth.length && depth[j + 1] <= part) { j++; }
    function found(i) { return i === 0 ? 0 : i > levels ? 1 : share(positive, levels - i + 1); }
    var recall = found(j);
    if (j + 1 < depth.length) {
      recall += (found(j + 1) - recall) * (part - depth[j]) / (depth[j + 1] - depth[j]);
    }
    // No more positives can be found than rows are checked.
    function cap(value, q) { return q > 0 ? Math.min(value, part / q) : value; }
    function precision(q, value) { return Math.min(1, q * value / part); }
    var ends = shareLimits(recall, data.nPositive, prior.level);
    recall = cap(recall, prior.value);
    var low = cap(ends[0], prior.high), high = cap(ends[1], prior.low);
    return {
      threshold: counted ? cutBetweenRows(checked) : cutBetweenLevels(depth, part),
      recall: [recall, low, high],
      precision: [precision(prior.value, recall), precision(prior.low, low), precision(prior.high, high)],
      lift: [recall / part, low / part, Math.min(high / part, 1 / Math.max(part, prior.low, 1e-12))]
    };
  }

  return { expect: expect, atBudget: atBudget, flaggedRows: flaggedRows, shareLimits: shareLimits };
}
