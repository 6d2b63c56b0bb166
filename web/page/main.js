// The page: which lesson is shown, links, and the theme.
import {Core} from "./core.js";
import {element} from "./dom.js";
import {EditorView, editorLesson} from "./editor.js";
import {LessonView} from "./lesson.js";
import {lessons} from "./lessons.js";
import {fromHash, hashOf} from "./share.js";
import {score} from "./tasks.js";

const byId = id => document.getElementById(id);
const core = new Core(), workshop = new Core();  // the editor's may be stopped and started anew
const all = [...lessons, editorLesson];
let link = async () => location.hash;  // that of what is shown

function say(text) {
  byId("said").textContent = text;
}

function complain(problems) {
  const message = byId("message");
  message.hidden = problems.length === 0;
  message.replaceChildren(element("p", {}, "This link is not as this page makes them:"),
                          element("ul", {}, problems.map(problem => element("li", {}, problem))),
                          element("button", {type: "button", onclick: () => { message.hidden = true; }}, "Close"));
}

// The address follows what is shown, without a step in the history for every move of a slider.
let written = "";
function write(hash) {
  if (hash === location.hash) return;
  written = hash;
  history.replaceState(null, "", hash);
}

function show() {
  workshop.stop();  // nobody waits any longer for what the editor was asked
  const query = new URLSearchParams(location.hash.slice(1));
  const problems = [];
  let lesson = editorLesson, view;
  if (query.get("lesson") === "editor") {
    view = new EditorView(workshop, query, () => {}, problem => {
      problems.push(problem);
      complain(problems);
    });
    link = async () => "#" + await view.query();
  } else {
    const found = fromHash(location.hash, all);
    lesson = found.lesson;
    problems.push(...found.problems);
    link = async () => hashOf(lesson, found.state);
    view = new LessonView(lesson, core, found.state, () => write(hashOf(lesson, found.state)));
  }
  complain(problems);
  document.title = `${lesson.title} · Rehearsal`;
  for (const anchor of byId("lessons").querySelectorAll("a"))
    if (anchor.dataset.id === lesson.id) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  byId("lesson").replaceChildren(view.root);
}

byId("lessons").append(...all.map(({id, name}) =>
  element("li", {}, element("a", {href: `#lesson=${id}`, "data-id": id}, name, element("span", {class: "solved-count"})))));

function showScore() {
  const of = lesson => [score.solved(lesson), lesson.tasks.length];
  for (const lesson of lessons) {
    const [solved, tasks] = of(lesson), count = document.querySelector(`#lessons a[data-id="${lesson.id}"] .solved-count`);
    count.replaceChildren(...(solved ? [element("span", {"aria-hidden": "true"}, `${solved}/${tasks}`),
                                        element("span", {class: "unseen"}, `, ${solved} of ${tasks} tasks solved`)] : []));
  }
  const [solved, tasks] = lessons.map(of).reduce(([a, b], [c, d]) => [a + c, b + d]);
  const unaided = lessons.map(lesson => score.unaided(lesson)).reduce((sum, one) => sum + one);
  byId("solved").textContent = `${solved} of ${tasks} tasks solved` + (solved ? `, ${unaided} at the first go` : "");
  byId("reset").hidden = solved === 0;
}
showScore();
score.changed(showScore);
byId("reset").addEventListener("click", () => {
  if (!confirm("Forget which tasks are solved?")) return;
  score.reset();
  show();
  say("No task is solved.");
  byId("content").focus({preventScroll: true});
});
window.addEventListener("hashchange", () => {
  if (location.hash === written) return;
  written = "";
  show();
  byId("content").focus({preventScroll: true});
  window.scrollTo(0, 0);
});

byId("share").addEventListener("click", async () => {
  const address = location.href.split("#")[0] + await link();
  history.replaceState(null, "", address);
  written = location.hash;
  try {
    await navigator.clipboard.writeText(address);
    say("The link is copied.");
  } catch {
    say("The link is in the address bar.");
  }
  byId("share").textContent = "Link ready";
  setTimeout(() => { byId("share").textContent = "Copy link"; }, 1500);
});

// A page that is one file on a disk may be refused storage; the theme is then that of the system each time.
function remembered() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
}
setTheme(remembered() ? remembered() === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
byId("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme !== "dark";
  setTheme(dark);
  try {
    localStorage.setItem("theme", dark ? "dark" : "light");
  } catch {
    // not remembered
  }
});

show();
