// One lesson on the page. A lesson says what may be changed and which command lines answer it:
//   {id, name (short), title, text (HTML), controls, tasks (tasks.js), commands(state), show(answers, state, choose)}
// With `partial`, what is right is shown beside what is wrong; `json` is then null where a command failed.
// `commands` gives {name: {words, files, made}}; `show` gets {name: answer}, with `json` where the command was asked for JSON,
// and returns elements. `choose({key: value})` changes settings from inside a picture or a table.
import {element} from "./dom.js";
import {form} from "./controls.js";
import {TasksView} from "./tasks.js";

const kScrolls = ".picture, .rows";
const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
export const commandLine = words => ["rehearse", ...words].map(quoted).join(" ");

function terminal(commands) {
  const files = Object.entries(Object.assign({}, ...commands.map(command => command.files ?? {})));
  return element("details", {class: "terminal"}, element("summary", {}, "The same in a terminal"),
                 files.map(([path, text]) => [element("p", {}, `File ${path}:`), element("pre", {}, text)]).flat(),
                 element("pre", {}, commands.map(({words}) => commandLine(words)).join("\n")));
}

function complaints(answers) {
  const texts = new Set(answers.filter(({status}) => status > 1).map(({err}) => err.trim()));
  if (texts.size === 0) return null;
  return element("div", {class: "complaint", role: "alert"}, element("p", {}, "The program says:"),
                 [...texts].map(text => element("pre", {}, text)));
}

export class LessonView {
  #lesson; #core; #state; #form; #changed; #tasks;
  #busy = false; #again = false; #since = 0;
  #open = false;  // whether the command lines are unfolded
  #results = element("div", {class: "results"});

  // `state`: text by key, changed in place; `changed` is called after each change.
  constructor(lesson, core, state, changed) {
    this.#lesson = lesson, this.#core = core, this.#state = state, this.#changed = changed;
    this.#form = form(lesson.controls, state, () => this.#update());
    const text = element("div", {class: "text"});
    text.innerHTML = lesson.text;
    this.#tasks = new TasksView(lesson, async commands => (await this.#ask(commands)).byName);
    this.root = element("section", {class: "lesson", "data-lesson": lesson.id}, element("h1", {}, lesson.title), text,
                        this.#tasks.root, this.#form.form, this.#results);
    this.#update();
  }

  #choose = change => {
    Object.assign(this.#state, change);
    this.#form.set();
    this.#update();
  };

  // While one answer is under way the newest state waits, and states between are never asked.
  async #update() {
    this.#changed();
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    this.#results.setAttribute("aria-busy", "true");
    do {
      this.#again = false;
      this.#since = performance.now();
      await this.#answer({...this.#state});
    } while (this.#again);
    this.#busy = false;
    this.#results.removeAttribute("aria-busy");
  }

  // Commands by name to answers by name, with what is wrong.
  async #ask(named) {
    const entries = Object.entries(named);
    const answers = await this.#core.ask(entries.map(([, command]) => command));
    const byName = Object.fromEntries(entries.map(([name, {words}], i) => {
      const json = words.includes("json") && answers[i].status < 2 ? JSON.parse(answers[i].out) : null;
      return [name, {...answers[i], json}];
    }));
    return {byName, wrong: complaints(answers)};
  }

  async #answer(state) {
    const named = this.#lesson.commands(state), commands = Object.values(named);
    let shown, solvable = null;
    try {
      const {byName, wrong} = await this.#ask(named);
      if (!wrong || this.#lesson.partial) solvable = byName;
      shown = [wrong, solvable && this.#lesson.show(byName, state, this.#choose)].flat();
    } catch (error) {
      shown = element("div", {class: "complaint", role: "alert"}, element("pre", {}, String(error)));
    }
    const lines = terminal(commands);
    lines.open = this.#open;
    lines.addEventListener("toggle", () => { this.#open = lines.open; });
    const scrolled = [...this.#results.querySelectorAll(kScrolls)].map(({scrollLeft}) => scrollLeft);
    this.#results.replaceChildren(...[shown].flat().filter(Boolean), lines);
    this.#results.querySelectorAll(kScrolls).forEach((frame, i) => { if (scrolled[i]) frame.scrollLeft = scrolled[i]; });
    this.#results.getBoundingClientRect();  // laid out: what is left is to paint
    this.#results.dataset.ms = (performance.now() - this.#since).toFixed(1);
    this.#tasks.answered(state, solvable);
    this.#results.dataset.commands = JSON.stringify(commands);
  }
}
