import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
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

const shortW = ["1f1b", "zb-h1", "zb-h2", "zb-auto"];
const usual = {p: "4", m: "8", f: "10", b: "10", w: "10", transfer: "0", limit: "none"};
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
      found.length ? table({caption: "Time and memory of each",
                            columns: ["Schedule", "Time", "Bubble", "Peak memory of a rank (micro-batches)",
                              "Lower bound of the time"],
                            rows: found.map(([, answer]) => row(answer))}) : null,
    ];
  },
  tasks: [
    {id: "gpipe", ask: "Choose GPipe as the first schedule and bring its bubble down to 10 %, with four ranks and equal times.",
     check: (s, {left}) => wanted([s.left === "gpipe", "The first schedule is not GPipe."], [s.p === "4", `There are ${s.p} ranks.`],
                                  [s.f === s.b && s.b === s.w && s.transfer === "0", "The times are not equal."],
                                  [left.json?.bubble_rate <= .1, `Its bubble is ${percent(left.json?.bubble_rate).text}.`]),
     hints: [`The bubble does not depend on how long a micro-batch takes, but on how many there are.`,
       "(K − 1)/(K + M − 1) for K ranks and M micro-batches."],
     why: ({left: {json}}) => `${json.microbatches} micro-batches: filling and draining takes as long as three of them, however
       many there are. The price: rank 0 holds all ${Math.max(...json.peak_memory)} at once.`},
    {id: "memory", ask: `Keep GPipe first, with 16 micro-batches or more. Find a second schedule whose bubble is no larger, and
     which holds no more micro-batches than there are ranks.`,
     check: (s, {left, right}) => wanted([s.left === "gpipe" && right, "Compare GPipe with another."], [Number(s.m) >= 16, `There
       are ${s.m} micro-batches.`],
                                         [right?.json?.bubble_rate <= left.json?.bubble_rate + 1e-9, `The second has a bubble of
                                           ${percent(right?.json?.bubble_rate).text}.`],
                                         [Math.max(...right?.json?.peak_memory ?? [Infinity]) <= s.p, "It holds more than that."]),
     hints: ["A backward pass frees what its forward pass has kept: run it as early as possible."],
     why: ({right: {json}}) => `${json.schedule} holds ${Math.max(...json.peak_memory)}: that is why nobody uses GPipe.`},
    {id: "short", ask: `Four ranks, eight micro-batches; now the gradient of the weights takes 2 ms, the others 10 ms. Which has
     the smallest bubble?`,
     options: shortW, commands: () => Object.fromEntries(shortW.map(name => [name, one(name, {...usual, w: "2"}, "one.svg")])),
     right: answers => least(shortW.map(name => answers[name].json.bubble_rate)),
     hints: ["What zero-bubble schedules fill holes with is W.", "Set the times and try them as the second schedule."],
     why: answers => shortW.map(name => `${name}: ${percent(answers[name].json.bubble_rate).text}`).join(", ")
       + ". A schedule that may hold more micro-batches starts more of them before the first backward."},
    {id: "none", ask: `Find a schedule without any bubble that holds no more than 1F1B does: as many micro-batches as there are
     ranks, at least four.`,
     check: (s, {left, right}) => {
       const fits = [left, right].map(answer => answer?.json).filter(Boolean).map(json =>
         json.bubble_rate < 1e-6 && Math.max(...json.peak_memory) <= Number(s.p) + 1e-9);
       return wanted([Number(s.p) >= 4, `There are ${s.p} ranks.`], [fits.some(Boolean), "Neither schedule does."]);
     },
     hints: ["Let every rank have two stages, one on the way down and one on the way back: a V.", "All three times must be equal."],
     why: `In a V the first rank also has the last stage, so a micro-batch comes back to where it began: all ranks hold as much,
       and W fills every hole.`},
  ],
};
