"use strict";
// The rows of a plan, one after the other. Answers stay in this browser until they are saved.
(function () {
  const plan = JSON.parse(document.getElementById("plan").textContent);
  const element = (name) => document.getElementById(name);
  const SKIPPED = "skip";
  const replies = {}; // by the place of a row in the plan: "yes", "no" or "skip"
  let place = 0;
  let isKept = true;

  function restore() {
    plan.answers.forEach((answer, k) => {
      if (answer !== null) replies[k] = answer ? "yes" : "no";
    });
    try {
      const kept = JSON.parse(localStorage.getItem(plan.key) || "{}");
      for (const k of Object.keys(kept)) {
        if (k in plan.rows && ["yes", "no", SKIPPED].includes(kept[k])) replies[k] = kept[k];
      }
    } catch (error) {
      isKept = false;
    }
    const last = Math.max(-1, ...Object.keys(replies).map(Number));
    for (let k = 0; k < last; k++) replies[k] = replies[k] || SKIPPED;
    place = last + 1;
  }

  function keep() {
    try {
      localStorage.setItem(plan.key, JSON.stringify(replies));
    } catch (error) {
      isKept = false;
    }
  }

  const count = (kind) => Object.values(replies).filter((reply) => reply === kind).length;
  const nAnswers = () => count("yes") + count("no");

  function reply(kind) {
    if (place >= plan.rows.length) return;
    replies[place] = kind;
    keep();
    do place += 1; while (place in replies);
    show();
    window.scrollTo(0, 0);
  }

  function move(step) {
    const target = place + step;
    const isAsked = step < 0 || place in replies;
    if (target < 0 || target > plan.rows.length || !isAsked) return;
    place = target;
    show();
  }

  function addText(parent, tag, text) {
    const child = document.createElement(tag);
    child.textContent = text;
    parent.appendChild(child);
  }

  function showRow() {
    const isLast = place >= plan.rows.length;
    element("where").textContent = isLast
      ? "All planned rows were shown."
      : `Is this row positive? (row ${plan.rows[place]})`;
    const list = element("values");
    list.replaceChildren();
    const values = isLast ? [] : plan.values[place];
    values.forEach((value, k) => {
      addText(list, "dt", plan.names[k]);
      addText(list, "dd", value);
    });
    const opinion = isLast || !plan.opinions ? "" : plan.opinions[place];
    element("opinion").hidden = !opinion;
    element("opinion").textContent = opinion ? `drpu: ${opinion}` : "";
  }

  function show() {
    const n = nAnswers();
    const skipped = count(SKIPPED);
    const isLast = place >= plan.rows.length;
    const current = replies[place];
    showRow();
    const counted = n > plan.goal ? `${n} answers` : `${n} of ${plan.goal} answers`;
    element("progress").textContent = counted + (skipped ? `, ${skipped} skipped` : "");
    element("bar").value = Math.min(n / plan.goal, 1);
    element("earlier").textContent = current ? `Your reply was ${current}.` : "";
    for (const kind of ["yes", "no", SKIPPED]) {
      element(kind).setAttribute("aria-pressed", String(current === kind));
      element(kind).disabled = isLast;
    }
    element("back").disabled = place === 0;
    element("next").disabled = !(place in replies);
    element("save").disabled = n === 0;
    const isEnough = n >= plan.goal;
    element("save").classList.toggle("ready", isEnough);
    element("enough").hidden = !isEnough && !isLast;
    element("enough").textContent = isEnough
      ? "These answers are enough: save them. More answers narrow the interval further."
      : "No planned row is left: save the answers.";
    if (!isKept) {
      element("kept").textContent =
        "This browser keeps no answers: save them before you close the page.";
    }
  }

  // The same table as the command line writes: a line of each planned row, with its answer.
  function table() {
    const lines = plan.lines.map((line, k) => {
      const answer = replies[k] === "yes" || replies[k] === "no" ? plan.words[replies[k]] : "";
      return line + (answer && `"${answer}"`);
    });
    return [plan.head, ...lines, ""].join("\n");
  }

  function save() {
    const file = new Blob([table()], { type: "text/csv" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = plan.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    element("kept").textContent = `${nAnswers()} answers were saved as ${plan.file}.`;
  }

  const keys = {
    y: () => reply("yes"), n: () => reply("no"), s: () => reply(SKIPPED),
    arrowleft: () => move(-1), arrowright: () => move(1),
  };
  element("yes").addEventListener("click", keys.y);
  element("no").addEventListener("click", keys.n);
  element("skip").addEventListener("click", keys.s);
  element("back").addEventListener("click", keys.arrowleft);
  element("next").addEventListener("click", keys.arrowright);
  element("save").addEventListener("click", save);
  document.addEventListener("keydown", (event) => {
    const action = keys[event.key.toLowerCase()];
    if (!action || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    event.preventDefault();
    action();
  });
  restore();
  show();
})();
