import {picture, table} from "../dom.js";
import {number, percent, seconds} from "../units.js";

// Those that are found at once.
const names = ["gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "1f1b-v", "zb-h1", "zb-h2", "zb-auto", "zb-v", "v-half",
               "v-min", "dualpipe", "dualpipev", "chimera", "hanayo"];
const limits = ["none", ...Array.from({length: 31}, (_, i) => String(i + 2))];

// Stages of a rank divide its work: a rank does as much in every row of the table.
const chunks = name => ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2", "zb-auto", "dualpipe", "chimera"].includes(name) ? 1 : 2;

function words(name, s, ...more) {
  const part = (value, unit) => `${Number(value) / chunks(name)}${unit}`;
  const line = ["schedule", name, "--pipeline", s.p, "--microbatches", s.m, "--forward", part(s.f, "ms"), "--backward",
                part(s.b, "ms"), "--weight", part(s.w, "ms"), "--transfer", `${s.transfer}ms`,
                "--activation", String(1 / chunks(name))];
  if (s.limit !== "none") line.push("--memory-limit", s.limit);
  return [...line, ...more];
}

function one(name, s, file) {
  return {words: words(name, s, "--format", "json", "--svg", file), made: [file]};
}

const facts = json => `${json.schedule}: ${seconds(json.cost_s).text}, bubble ${percent(json.bubble_rate).text}`;

export default {
  id: "schedules",
  name: "Pipeline schedules",
  title: "Pipeline schedules side by side",
  text: `<p>A pipeline cuts the layers of a network into stages, one per rank, and a batch into micro-batches. Each rank works
    in the order that its schedule says: forward (F), the gradient of the input (I), the gradient of the weights (W). Where it has
    to wait there is a <em>bubble</em>. A schedule that holds fewer micro-batches needs less memory; one that puts off W can fill
    bubbles with it. Each row is a rank, time runs to the right, the number in a box is its micro-batch.</p>`,
  controls: [
    {key: "left", label: "First schedule", value: "1f1b", options: names},
    {key: "right", label: "Second schedule", value: "zb-h1", options: names},
    {key: "p", label: "Pipeline ranks", value: 4, min: 2, max: 16, step: 1},
    {key: "m", label: "Micro-batches", value: 8, min: 1, max: 64, step: 1},
    {key: "f", label: "Forward", value: 10, min: 1, max: 30, step: 1, unit: "ms"},
    {key: "b", label: "Gradient of the input", value: 10, min: 1, max: 30, step: 1, unit: "ms"},
    {key: "w", label: "Gradient of the weights", value: 10, min: 1, max: 30, step: 1, unit: "ms"},
    {key: "transfer", label: "Transfer between ranks", value: 0, min: 0, max: 10, step: 0.5, unit: "ms"},
    {key: "limit", label: "Memory limit (micro-batches)", value: "none", steps: limits},
  ],
  partial: true,
  commands: s => s.left === s.right ? {left: one(s.left, s, "left.svg")}
                                    : {left: one(s.left, s, "left.svg"), right: one(s.right, s, "right.svg")},
  show({left, right}, s) {
    const row = ({json}) => ({cells: [json.schedule, seconds(json.cost_s), percent(json.bubble_rate),
                                      number(Math.max(...json.peak_memory)), seconds(json.lower_bound_s)]});
    const found = [["left.svg", left], ["right.svg", right]].filter(([, answer]) => answer?.json);
    return [
      ...found.map(([file, {made, json}]) => picture(made[file], facts(json))),
      found.length ? table({caption: "What each takes",
                            columns: ["Schedule", "Time", "Bubble", "Most held by a rank (micro-batches)", "No order is faster than"],
                            rows: found.map(([, answer]) => row(answer))}) : null,
    ];
  },
};
