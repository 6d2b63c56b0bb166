import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {percent, seconds} from "../units.js";

const file = "trace.yaml", ranks = 8, layers = [2, 3, 3, 3, 3, 3, 3, 2];
const kinds = ["first", "second", "third"];
// What is wrong in each trace. The command line does not say it.
const wrong = {
  first: {faults: "faults: [{gpu: 5, slowdown: 1.4}]\n", layers},
  second: {faults: "", layers: [2, 3, 5, 2, 3, 3, 2, 2]},
  third: {faults: "faults: [{nvlink: 3, rate: 0.002}]\n", layers},
};
// A layer may go from a rank to rank 0.
const dealt = s => wrong[s.kind].layers.map((count, rank) => s.from === "none" ? count : rank === 0 ? count + 1
  : count - (rank === Number(s.from)));
const text = s => `version: 1
name: the ${s.kind} trace
model: {family: gpt, layers: 22, hidden: 2304, heads: 24, vocabulary: 32000, sequence: 1024}
cluster: {use: dgx-a100-80g, nodes: 1}
parallelism: {pipeline: ${ranks}}
partition: {layers: [${dealt(s).join(", ")}]}
batch: {global: ${6 * s.m}, micro: 6}
training: {precision: fp16, attention: unfused}
framework: megatron-2022
${wrong[s.kind].faults}`;
const asked = s => ({words: ["run", file, "--format", "json"], files: {[file]: text(s)}});
const untouched = (kind, m = "8") => ({kind, m, from: "none"});
const idle = ["bubble", "pipeline_comm", "data_comm"];
const busiest = ({json}) => least(json.ranks, rank => -rank.busy_s);

export default {
  id: "trace",
  name: "Reading a trace",
  title: "Reading a trace: who is slow, and who waits?",
  text: `<p>A profiler shows when every rank works, not why it waits. Three traces of one training have a fault each, of three kinds:
    find them. A rank that works all the time while others have gaps is where to look. A rank with gaps waits for somebody, and is seldom
    to blame. Whether a rank has too much work or works too slowly is seen in its boxes: compare a box with that of a neighbour,
    and with the layers that it has. Eight A100 in a pipeline with 1F1B.</p>`,
  controls: [
    {key: "kind", label: "Trace", value: "first", options: kinds},
    {key: "m", label: "Micro-batches", value: "8", steps: ["2", "4", "8", "16", "24"]},
    {key: "from", label: "A layer goes to rank 0 from rank", value: "none", steps: ["none", "1", "2", "3", "4", "5", "6", "7"]},
  ],
  commands: s => ({
    trace: {words: [...asked(s).words, "--svg", "timeline.svg", "--picture", "timeline"], made: ["timeline.svg"],
      files: asked(s).files},
    before: asked({...s, from: "none"}),
  }),
  show({trace: {json, made}}, s) {
    const rows = json.ranks.map((rank, i) => ({cells: [`Rank ${rank.rank}`, String(dealt(s)[i]), seconds(rank.busy_s),
                                                       percent(1 - rank.busy_s / json.iteration_s)]}));
    const {bubble, pipeline_comm: sends, data_comm: gradients} = json.breakdown_s;
    return [
      picture(made["timeline.svg"], `The ${s.kind} trace: ${seconds(json.iteration_s).text}`),
      table({caption: "Ranks", columns: ["", "Layers", "Busy", "Idle"], rows}),
      table({caption: "The rank that ends last", columns: ["", "Step", "Waits for others", "Waits for messages",
        "Waits for gradients"],
             rows: [{cells: ["", seconds(json.iteration_s), seconds(bubble), seconds(sends), seconds(gradients)]}]}),
    ];
  },
  tasks: [
    {id: "slow", ask: "The first trace: which rank holds up the others?",
     options: ["rank 0", "rank 2", "rank 5", "rank 7"], commands: () => ({one: asked(untouched("first"))}),
     right: ({one}) => [0, 2, 5, 7].indexOf(busiest(one)),
     hints: ["Not the rank with the longest gaps."],
     why: ({one}) => `Rank ${busiest(one)} works for ${seconds(one.json.ranks[busiest(one)].busy_s).text} of
       ${seconds(one.json.iteration_s).text}, longer than any other. All others wait for it.`},
    {id: "idle", ask: "The first trace: what does rank 0 wait for most?",
     options: ["others, which compute", "messages under way", "the gradients of replicas"], commands: () =>
       ({one: asked(untouched("first"))}),
     right: ({one}) => least(idle.map(key => -one.json.breakdown_s[key])),
     hints: ["The second table adds it up."],
     why: ({one}) => `${seconds(one.json.breakdown_s.bubble).text} in which others compute,
       ${seconds(one.json.breakdown_s.pipeline_comm).text} for messages. A network twice as fast would not help.`},
    {id: "mend", ask: `Mend the first trace without another GPU: move a layer so that its step is a tenth shorter. Eight
     micro-batches.`,
     check: (s, {trace, before}) => wanted([s.kind === "first", "This is not the first trace."], [s.m === "8", `There are ${s.m}
       micro-batches.`],
                                           [trace.json.iteration_s <= .9 * before.json.iteration_s,
                                            `The step takes ${seconds(trace.json.iteration_s).text}; it took
                                              ${seconds(before.json.iteration_s).text}.`]),
     hints: ["A slow rank with fewer layers is no longer slow.", "Take it from rank 5."],
     why: ({trace, before}) => `${seconds(before.json.iteration_s).text} becomes ${seconds(trace.json.iteration_s).text}. Rank 0 had
       time: embedding and two layers are less than three.`},
    {id: "work", ask: "The second trace: the rank that works longest has a sound GPU. What is wrong?",
     options: ["it has more layers than others", "its GPU is slow", "its link is slow"], commands: () =>
       ({one: asked(untouched("second"))}),
     right({one: {json}}) {
       const each = json.ranks.map((rank, i) => rank.busy_s / wrong.second.layers[i]), rank = busiest({json});
       const middle = [...each].sort((a, b) => a - b)[ranks / 2];
       return each[rank] < 1.15 * middle ? 0 : 1;
     },
     hints: ["Divide what a rank works by its layers."],
     why: ({one}) => `Rank ${busiest(one)} has ${wrong.second.layers[busiest(one)]} layers, and each takes as long as elsewhere.
       Balance the stages before you blame a machine.`},
    {id: "link", ask: `The third trace: all ranks work about as long as they should, and still the step is longer than in a sound
     one. What is wrong?`,
     options: ["rank 3 computes slowly", "what goes to and from rank 3 takes long", "there are too few micro-batches"],
     commands: () => ({one: asked(untouched("third")), more: asked(untouched("third", "16"))}),
     right: ({one}) => busiest(one) === 3 ? 0 : one.json.faults.cost_s > .1 * one.json.faults.without_s ? 1 : 2,
     hints: ["Look at the first boxes: where does the staircase have a longer step?"],
     why: ({one}) => `NVLink of GPU 3 has a small part of its rate: the step takes ${seconds(one.json.iteration_s).text} in place
       of ${seconds(one.json.faults.without_s).text}, though no rank computes longer.`},
  ],
};
