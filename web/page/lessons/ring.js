import {element, note, picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, number, rate, seconds, whole} from "../units.js";

const algorithms = ["ring-all-reduce", "ring-reduce-scatter", "ring-all-gather", "tree-all-reduce", "pairwise-all-to-all",
                    "chain-broadcast"];
const asked = (name, ranks, perNode, size) => ({words: ["collective", name, "--ranks", ranks, "--per-node", perNode, "--size",
  size, "--format", "json"]});
const sent = json => json.bytes_sent_per_rank / json.size_bytes;

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
    said.textContent = at === 0 ? "before the first step" : `step ${at} of ${steps}`;
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
    timer = setInterval(forward, matchMedia("(prefers-reduced-motion: reduce)").matches ? 2000 : 900);
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
    n&nbsp;−&nbsp;1 more that copy bring it to all. Whatever n is,
      a rank sends a little less than twice its array: that is why rings
    carry the gradients of data parallelism. Press Play, or move through the steps.</p>`,
  controls: [
    {key: "algorithm", label: "Algorithm", value: "ring-all-reduce", options: algorithms},
    {key: "ranks", label: "Ranks", value: 4, min: 2, max: 8, step: 1},
    {key: "node", label: "Ranks per node, at most", value: "all", steps: ["1", "2", "4", "all"]},
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
             columns: ["Algorithm", "Time", "Bus bandwidth", "Sent by each rank", "Chunks", "Steps"],
             rows: [{cells: [json.algorithm, seconds(json.time_s), rate(json.busbw_bytes_per_s),
               gibibytes(json.bytes_sent_per_rank),
                             whole(json.chunks), whole(json.steps.length)]}]}),
      json.chosen_by_nccl ? note("NCCL would choose this algorithm here.") : note("NCCL would choose another algorithm here."),
    ];
  },
  tasks: [
    {id: "twice", ask: "A ring: with how many ranks does each send at least 1.7 times its array?",
     check: (s, {one: {json}}) => wanted([s.algorithm === "ring-all-reduce", "This is another algorithm."],
                                         [sent(json) >= 1.7, `Each sends ${number(sent(json)).text} times its array.`]),
     hints: ["2 (n − 1)/n of it, for n ranks."],
     why: ({one: {json}}) => `${number(sent(json)).text} times with ${json.ranks}. However many there are, it stays below two.`},
    {id: "halves", ask: "Eight ranks: which sends more, an all-reduce, or a reduce-scatter and then an all-gather?",
     options: ["the all-reduce", "the two", "both the same"],
     commands: () => Object.fromEntries(algorithms.slice(0, 3).map(name => [name, asked(name, "8", "8", "1GiB")])),
     right(answers) {
       const [all, scatter, gather] = algorithms.slice(0, 3).map(name => answers[name].json.bytes_sent_per_rank);
       return all === scatter + gather ? 2 : all > scatter + gather ? 0 : 1;
     },
     hints: ["Watch the steps of the ring: what do the first half and the second do?"],
     why: answers => `${gibibytes(answers["ring-all-reduce"].json.bytes_sent_per_rank).text} either way: they are its two halves.
       ZeRO uses them one by one, so it sends no more.`},
    {id: "small", ask: "Find a size and a layout for which NCCL would choose a tree instead of a ring, and show the tree.",
     check: (s, {one: {json}}) => wanted([s.algorithm === "tree-all-reduce", "Choose the tree."], [json.chosen_by_nccl,
       "Here NCCL would choose another algorithm."]),
     hints: ["A tree has fewer steps, a ring sends less. When do steps matter more?",
       "Small arrays, many ranks, one rank per node."],
     why: ({one: {json}}) => `${json.steps.length} steps: with ${gibibytes(json.size_bytes).text} each step is mostly waiting for
       the first byte.`},
    {id: "node", ask: "A ring of eight ranks, 1 GiB: with four ranks per node instead of all eight in one, it takes …",
     options: ["about as long", "about twice as long", "about eight times as long"],
     commands: () => ({all: asked("ring-all-reduce", "8", "8", "1GiB"), four: asked("ring-all-reduce", "8", "4", "1GiB")}),
     right: ({all, four}) => least([1, 2, 8].map(times => Math.abs(Math.log(four.json.time_s / all.json.time_s / times)))),
     hints: ["NCCL lays several rings, so that each of the four NICs carries one."],
     why: ({all, four}) => `${seconds(all.json.time_s).text} becomes ${seconds(four.json.time_s).text}. A ring is as fast as its
       slowest link, and four NICs together are slower than NVLink.`},
  ],
};
