// The free editor: any shipped file, edited, given to any command; errors are those of the program, and lead to their line.
import {Stopped} from "./core.js";
import {element, picture, scrolling} from "./dom.js";
import {commandLine} from "./lesson.js";
import {packText, unpackText} from "./share.js";

export const editorLesson = {id: "editor", name: "Your own scenario", title: "A scenario of your own", controls: []};

const first = "scenarios/llama3-8b-dgx-h100.yaml";
// Which files of scenarios/ a command reads, and whether it draws.
const commands = [
  {name: "run", draws: true}, {name: "check"}, {name: "explain"}, {name: "compare"}, {name: "plan"},
  {name: "groups", draws: true}, {name: "reshard", draws: true, folder: "scenarios/reshard/"},
  {name: "balance", draws: true, folder: "scenarios/balance/"},
];
const answersFiles = (command, path) => command.name === "check" ||
  (command.folder ? path.startsWith(command.folder)
                  : !commands.some(({folder}) => folder && path.startsWith(folder)));

// Words as a shell would part them: blanks divide, quotes hold together.
export function wordsOf(text) {
  const words = [];
  let word = null, quote = null;
  for (const letter of text) {
    if (quote) {
      if (letter === quote) quote = null;
      else word += letter;
    } else if (letter === "'" || letter === '"') {
      quote = letter;
      word ??= "";
    } else if (/\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + letter;
    }
  }
  if (word !== null) words.push(word);
  return words;
}

export class EditorView {
  #core; #shipped = ""; #changed;
  #file = element("select", {id: "file"});
  #command = element("select", {id: "command"});
  #options = element("input", {id: "options", type: "text", spellcheck: "false", autocomplete: "off",
                               placeholder: "--set batch.micro=2"});
  #text = element("textarea", {id: "text", spellcheck: "false", rows: 12, wrap: "off", "aria-label": "The scenario"});
  #run = element("button", {type: "submit", class: "main"}, "Run");
  #stop = element("button", {type: "button", hidden: true}, "Stop");
  #results = element("div", {class: "results"});

  // `core` is the editor's own: it may be stopped. `query`: what the link says. `changed`: called when a link would differ.
  constructor(core, query, changed, complain) {
    this.#core = core, this.#changed = changed;
    const field = (label, input) => element("div", {class: "field"}, element("label", {for: input.id}, label), input);
    const form = element("form", {class: "editor"}, field("Start from", this.#file), this.#text,
                         element("div", {class: "line"}, field("Command", this.#command), field("Options", this.#options),
                                 this.#run, this.#stop));
    form.addEventListener("submit", event => {
      event.preventDefault();
      this.#answer();
    });
    this.#text.addEventListener("keydown", event => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#answer();
    });
    this.#file.addEventListener("change", () => this.#open(this.#file.value).then(() => this.#answer()));
    for (const input of [this.#text, this.#command, this.#options]) input.addEventListener("input", changed);
    this.#stop.addEventListener("click", () => core.stop());
    this.root = element("section", {class: "lesson", "data-lesson": "editor"}, element("h1", {}, editorLesson.title),
      element("div", {class: "text"}, element("p", {},
        "Take a scenario, change what you like and run it: text, errors and pictures are those of the program in a terminal. " +
        "Ctrl-Enter runs, too. Long searches may be stopped.")), form, this.#results);
    this.#begin(query, complain).catch(error => this.#failed(error));
  }

  async #begin(query, complain) {
    const paths = await this.#core.list("scenarios");
    this.#file.replaceChildren(...paths.map(path => element("option", {value: path}, path.slice("scenarios/".length))));
    const asked = query.get("file") ?? first;
    if (!paths.includes(asked)) complain(`there is no file '${asked.slice(0, 80)}' among the scenarios`);
    this.#file.value = paths.includes(asked) ? asked : first;
    await this.#open(this.#file.value);
    const command = query.get("command") ?? this.#command.value;
    if ([...this.#command.options].some(({value}) => value === command)) this.#command.value = command;
    else complain(`'${command.slice(0, 40)}' does not read '${this.#file.value}'`);
    this.#options.value = query.get("options") ?? "";
    if (query.has("text"))
      await unpackText(query.get("text")).then(text => { this.#text.value = text; },
                                               () => complain("the text of the scenario in it is damaged; here is the shipped one"));
    await this.#answer();
  }

  async #open(path) {
    this.#shipped = this.#text.value = await this.#core.read(path);
    this.#text.rows = Math.min(28, Math.max(12, this.#shipped.split("\n").length + 2));
    const fitting = commands.filter(command => answersFiles(command, path));
    const before = this.#command.value;
    this.#command.replaceChildren(...fitting.map(({name}) => element("option", {value: name}, name)));
    if (fitting.some(({name}) => name === before)) this.#command.value = before;
  }

  // What a link holds: the text only where it is not the shipped one.
  async query() {
    const query = new URLSearchParams([["lesson", "editor"], ["file", this.#file.value], ["command", this.#command.value]]);
    if (this.#options.value) query.set("options", this.#options.value);
    if (this.#text.value !== this.#shipped) query.set("text", await packText(this.#text.value));
    return query;
  }

  async #answer() {
    const path = this.#file.value, files = {[path]: this.#text.value};
    const command = commands.find(({name}) => name === this.#command.value);
    const words = [command.name, path, ...wordsOf(this.#options.value)];
    this.#changed();
    this.#run.disabled = true, this.#stop.hidden = false;
    this.#results.setAttribute("aria-busy", "true");
    const begin = performance.now();
    try {
      const [answer] = await this.#core.ask([{words, files}]);
      const drawn = command.draws && answer.status < 2
        ? await this.#core.ask([{words: [...words, "--quiet", "--svg", "picture.svg"], files, made: ["picture.svg"]}]) : [];
      this.#show(words, answer, drawn[0]?.made["picture.svg"]);
    } catch (error) {
      this.#failed(error, performance.now() - begin);
    }
    this.#results.removeAttribute("aria-busy");
    this.#run.disabled = false, this.#stop.hidden = true;
  }

  #failed(error, ms = 0) {
    const stopped = error instanceof Stopped;
    this.#results.replaceChildren(element("p", {class: stopped ? "note" : "complaint", role: "alert"},
                                          stopped ? `Stopped after ${(ms / 1000).toFixed(1)} s.` : String(error)));
  }

  #show(words, {status, out, err, ms}, svg) {
    const lines = err.trim() ? err.trim().split("\n").map(line => this.#complaint(line)) : [];
    this.#results.dataset.status = status;
    this.#results.replaceChildren(...[
      element("p", {class: "note"}, element("code", {}, commandLine(words)), ` — exit status ${status}, ${ms.toFixed(0)} ms`),
      lines.length ? element("div", {class: status > 1 ? "complaint" : "warning", role: "alert"}, lines) : null,
      svg ? picture(svg, `Picture of ${words[0]}`) : null,
      out ? scrolling("report", "Report", element("pre", {}, out)).frame : null,
    ].filter(Boolean));
  }

  // Where an error names a place in this text, it leads there.
  #complaint(line) {
    const place = line.startsWith(this.#file.value + ":") && line.match(/:(\d+):(\d+): /);
    if (!place) return element("pre", {}, line);
    return element("pre", {}, element("button", {type: "button", class: "place", onclick: () => this.#goTo(+place[1], +place[2])},
                                      line.slice(0, place.index + place[0].length - 2)),
                   line.slice(place.index + place[0].length - 2));
  }

  #goTo(line, column) {
    const lines = this.#text.value.split("\n");
    const begin = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    this.#text.focus();
    this.#text.setSelectionRange(begin + column - 1, begin + lines[line - 1].length);
    const height = this.#text.scrollHeight / lines.length;
    this.#text.scrollTop = Math.max(0, (line - 6) * height);
  }
}
