// What a lesson asks, and what has been solved. A task: {id, ask, hints: [text], why} with one of
//   check(settings, answers)   of the settings that are shown: true, or a sentence on what is missing (`wanted`)
//   options, right(answers)    a choice: texts, and the index of the right one, which is computed from answers, too: those of
//                              its own `commands` (as those of a lesson), or of the lesson
// `why` is said once it is solved: a text, or a function of the answers and settings. Texts may hold markup.
import {element} from "./dom.js";

// Of [holds, sentence]: true if all hold, else the sentences of the others.
export function wanted(...conditions) {
  const missing = conditions.filter(([holds]) => !holds).map(([, sentence]) => sentence);
  return missing.length === 0 || missing.join(" ");
}
// The index of the least (or, of `x => -x`, the most).
export const least = (list, by = one => one) => list.map(by).reduce((best, one, i, all) => one < all[best] ? i : best, 0);

// What was solved, by lesson and task: {solved, hints (shown), wrong (choices)}. Where a page is refused storage it lasts as long
// as the page.
const kKey = "tasks";
function load() {
  try {
    return JSON.parse(localStorage.getItem(kKey)) ?? {};
  } catch {
    return {};
  }
}
let kept = load();
const listeners = [];
function save() {
  try {
    localStorage.setItem(kKey, JSON.stringify(kept));
  } catch {
    // not remembered
  }
  for (const listener of listeners) listener();
}

export const score = {
  of: (lesson, task) => ({solved: false, hints: 0, wrong: 0, ...kept[lesson.id]?.[task.id]}),
  set(lesson, task, change) {
    kept = {...kept, [lesson.id]: {...kept[lesson.id], [task.id]: {...this.of(lesson, task), ...change}}};
    save();
  },
  solved(lesson) {
    return (lesson.tasks ?? []).filter(task => this.of(lesson, task).solved).length;
  },
  // Without a hint and a wrong choice.
  unaided(lesson) {
    return (lesson.tasks ?? []).map(task => this.of(lesson, task)).filter(({solved, hints, wrong}) => solved && hints
      + wrong === 0).length;
  },
  reset() {
    kept = {};
    save();
  },
  changed(listener) {
    listeners.push(listener);
  },
};

function markup(tag, attributes, html) {
  const made = element(tag, attributes);
  made.innerHTML = html;
  return made;
}

export class TasksView {
  #lesson; #ask; #at; #settings = null; #answers = null; #said = ""; #chosen = null;
  #numbers = element("div", {class: "numbers", role: "group", "aria-label": "Tasks of this lesson"});
  #body = element("div", {class: "task"});
  #state = element("div", {class: "state", role: "status"});
  #buttons = element("div", {class: "line"});

  // `ask`: commands by name to answers by name.
  constructor(lesson, ask) {
    this.#lesson = lesson, this.#ask = ask;
    const open = lesson.tasks.findIndex(task => !score.of(lesson, task).solved);
    this.root = element("section", {class: "tasks", "aria-label": "Tasks"}, this.#numbers, this.#body, this.#state, this.#buttons);
    this.#show(Math.max(open, 0));
  }

  get #task() {
    return this.#lesson.tasks[this.#at];
  }
  get #record() {
    return score.of(this.#lesson, this.#task);
  }

  // The lesson has answered its present settings; `answers` is null where the program refused them.
  answered(settings, answers) {
    this.#settings = settings, this.#answers = answers;
    this.#check();
  }

  #check() {
    const task = this.#task;
    if (this.#record.solved) {
      if (task.check && this.#answers) this.#say();
      return;
    }
    if (!task.check || !this.#settings) return;
    const found = this.#answers ? task.check(this.#settings, this.#answers) : "The program refuses these settings.";
    if (found === true) this.#solve(this.#answers);
    else this.#say(`Not yet. ${found}`);
  }

  async #choose(index, button) {
    const task = this.#task;
    if (this.#record.solved) return;
    this.#say("The program is asked.");
    const answers = task.commands ? await this.#ask(task.commands(this.#settings)) : this.#answers;
    if (task !== this.#task || !answers) return;
    if (index === task.right(answers, this.#settings)) return this.#solve(answers);
    button.disabled = true;
    score.set(this.#lesson, task, {wrong: this.#record.wrong + 1});
    this.#say("Not that one.");
    this.#body.querySelector(".options button:not(:disabled)")?.focus();
  }

  #solve(answers) {
    const task = this.#task, why = typeof task.why === "function" ? task.why(answers, this.#settings) : task.why;
    const focused = this.#body.contains(document.activeElement);
    score.set(this.#lesson, task, {solved: true, why});
    this.#show(this.#at);
    if (focused) this.#buttons.querySelector("button")?.focus();
  }

  #say(text = "") {
    const {solved, why} = this.#record;
    const html = solved ? `<strong>Solved.</strong> ${why}` : text;
    if (html === this.#said) return;
    this.#said = html;
    this.#state.innerHTML = html;
    this.#state.classList.toggle("solved", solved);
  }

  #show(at) {
    this.#at = at;
    const {tasks} = this.#lesson, task = this.#task, {solved, hints} = this.#record;
    this.#numbers.replaceChildren(element("h2", {}, "Tasks"), ...tasks.map((one, i) => {
      const done = score.of(this.#lesson, one).solved;
      return element("button", {type: "button", "aria-current": i === at ? "step" : null, "data-task": one.id,
                                "aria-label": `Task ${i + 1}${done ? ", solved" : ""}`,
                                onclick: () => {
                                  this.#show(i);
                                  this.#check();
                                  this.#numbers.querySelectorAll("button")[i].focus();
                                }}, done ? `${i + 1} ✓` : `${i + 1}`);
    }));
    const options = task.options?.map((text, i) => {
      const button = markup("button", {type: "button", disabled: solved}, text);
      button.addEventListener("click", () => this.#choose(i, button));
      return element("li", {}, button);
    });
    this.#body.replaceChildren(...[
      markup("p", {class: "ask"}, task.ask),
      options ? element("ul", {class: "options"}, options) : null,
      ...task.hints.slice(0, hints).map(text => markup("p", {class: "hint"}, `Hint: ${text}`)),
    ].filter(Boolean));
    const left = task.hints.length - hints;
    const next = tasks.findIndex((one, i) => i !== at && !score.of(this.#lesson, one).solved);
    const button = solved ? next >= 0 && element("button", {type: "button", class: "main", onclick: () => {
                              this.#show(next);
                              this.#check();
                              this.#numbers.querySelectorAll("button")[next].focus();
                            }}, "Next task")
                          : left > 0 && element("button", {type: "button", onclick: () => this.#hint()},
                                                hints === 0 ? "Hint" : "Another hint");
    this.#buttons.replaceChildren(...[button].filter(Boolean));
    this.#said = null;
    this.#say();
  }

  #hint() {
    const said = this.#said, task = this.#task;
    const disabled = [...this.#body.querySelectorAll(".options button")].map(button => button.disabled);
    score.set(this.#lesson, task, {hints: this.#record.hints + 1});
    this.#show(this.#at);
    this.#body.querySelectorAll(".options button").forEach((button, i) => { button.disabled = disabled[i]; });
    this.#say(said ?? "");
    const last = [...this.#body.querySelectorAll(".hint")].at(-1);
    last.tabIndex = -1;
    (this.#buttons.querySelector("button") ?? last).focus();
  }
}
