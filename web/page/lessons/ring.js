import {element, note, picture, table} from "../dom.js";
import {gibibytes, rate, seconds, whole} from "../units.js";

const algorithms = ["ring-all-reduce", "ring-reduce-scatter", "ring-all-gather", "tree-all-reduce", "pairwise-all-to-all",
                    "chain-broadcast"];
const quiet = matchMedia("(prefers-reduced-motion: reduce)");

// The picture holds every step as a group of its own; those to come are faint.
function player(frame, steps) {
  const groups = [...frame.querySelectorAll("[data-step]")];
  let at = steps, timer = null;
  const slider = element("input", {type: "range", id: "step", min: 0, max: steps, step: 1, value: steps});
  const said = element("output", {for: "step"});
  const play = element("button", {type: "button"}, "Play");
  const show = () => {
    groups.forEach(group => group.classList.toggle("to-come", Number(group.dataset.step) > at));
    groups.forEach(group => group.classList.toggle("now", Number(group.dataset.step) === at));
    slider.value = at;
    said.textContent = at === 0 ? "at first" : `step ${at} of ${steps}`;
    slider.setAttribute("aria-valuetext", said.textContent);
  };
  const pause = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const forward = () => {
    if (!frame.isConnected || at >= steps) return pause();
    at++;
    show();
  };
  play.addEventListener("click", () => {
    if (timer) return pause();
    if (at >= steps) at = 0;
    show();
    play.textContent = "Pause";
    timer = setInterval(forward, quiet.matches ? 2000 : 900);
  });
  slider.addEventListener("input", () => {
    pause();
    at = slider.valueAsNumber;
    show();
  });
  show();
  return element("div", {class: "player"}, play, element("label", {for: "step"}, "Step"), slider, said);
}

export default {
  id: "ring",
  name: "All-reduce",
  title: "A ring all-reduce, step by step",
  text: `<p>Each rank has an array of its own, and all want the sum. Cut it into as many chunks as there are ranks and let every rank
    send one chunk to its neighbour at a time: after n&nbsp;−&nbsp;1 steps that add, each has one chunk of the sum, and
    n&nbsp;−&nbsp;1 more that copy bring it to all. Whatever n is, a rank sends a little less than twice its array: that is why rings
    carry the gradients of data parallelism. Press Play, or move through the steps.</p>`,
  controls: [
    {key: "algorithm", label: "Algorithm", value: "ring-all-reduce", options: algorithms},
    {key: "ranks", label: "Ranks", value: 4, min: 2, max: 8, step: 1},
    {key: "node", label: "Of them in a node, at most", value: "all", steps: ["1", "2", "4", "all"]},
    {key: "size", label: "Size of the array", value: "1GiB", steps: ["1KiB", "32KiB", "1MiB", "32MiB", "256MiB", "1GiB", "8GiB"]},
  ],
  commands(s) {
    // As many as divide the ranks.
    let perNode = Math.min(Number(s.node), Number(s.ranks));
    while (s.ranks % perNode > 0) perNode--;
    const node = s.node === "all" ? [] : ["--per-node", String(perNode)];
    const words = ["collective", s.algorithm, "--ranks", s.ranks, ...node, "--size", s.size];
    return {one: {words: [...words, "--format", "json", "--svg", "steps.svg"], made: ["steps.svg"]}};
  },
  show({one: {json, made}}) {
    const drawn = picture(made["steps.svg"], `${json.algorithm}: who sends what to whom`);
    drawn.querySelector("figcaption").after(player(drawn, json.steps.length));
    return [
      drawn,
      table({caption: `On ${json.cluster}`,
             columns: ["Algorithm", "Time", "Bandwidth on the bus", "Each rank sends", "Chunks", "Steps"],
             rows: [{cells: [json.algorithm, seconds(json.time_s), rate(json.busbw_bytes_per_s), gibibytes(json.bytes_sent_per_rank),
                             whole(json.chunks), whole(json.steps.length)]}]}),
      json.chosen_by_nccl ? note("NCCL would choose this one here.") : note("NCCL would choose another one here."),
    ];
  },
};
