import {readable} from "../controls.js";
import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/llama3-8b-dgx-h100.yaml";
const degrees = ["1", "2", "4", "8"];
const layout = degree => `{context: ${degree}, zero: 1}`;
const set = s => ["--set", "batch.global=8", "--set", `batch.sequence=${s.sequence}`, "--set", "training.recompute=full", "--set",
                  `training.context=${s.way}`, "--set", `training.context_balance=${s.balance === "yes"}`, "--set",
                  `cluster.links.scale_up.bandwidth=${s.wire}`];
const compared = s => ({words: ["compare", scenario, ...set(s), "--vary", `parallelism=${degrees.map(layout).join(",")}`,
  "--format", "json"]});
const usual = {degree: "8", sequence: "65536", way: "ring", balance: "yes", wire: "450GB/s"};
const at = (answer, degree) => answer.json.rows[degrees.indexOf(degree)];

export default {
  id: "context",
  name: "Context parallelism",
  title: "Context parallelism: one sequence on several GPUs",
  text: `<p>A long sequence fills a GPU with activations, and no batch can be smaller than one sequence. Context parallelism cuts
    the sequence itself: every GPU has a part of the tokens, and only attention needs to see the rest. Keys and values travel
    around a <em>ring</em>, are <em>gathered</em>, or heads are cut instead of tokens (<em>all-to-all</em>). With a causal mask
    the last tokens have the most work, so each GPU may take a piece from either end. Here Llama 3 8B trains on one DGX H100.</p>`,
  controls: [
    {key: "degree", label: "GPUs that share a sequence, in the picture", value: "8", steps: degrees},
    {key: "sequence", label: "Tokens of a sequence", value: "65536", steps: ["8192", "16384", "32768", "65536", "131072",
      "262144"]},
    {key: "way", label: "Attention across GPUs", value: "ring", options: ["ring", "all-gather", "all-to-all"]},
    {key: "balance", label: "Balanced: a piece from either end", value: "yes", options: ["yes", "no"]},
    {key: "wire", label: "NVLink, one way (H100: 450)", value: "450GB/s", steps: ["12.5GB/s", "25GB/s", "50GB/s", "100GB/s",
      "450GB/s"]},
  ],
  commands: s => ({
    degrees: compared(s),
    memory: {words: ["run", scenario, ...set(s), "--set", `parallelism=${layout(s.degree)}`, "--format", "json", "--svg",
      "memory.svg",
                     "--picture", "memory"], made: ["memory.svg"]},
  }),
  show({degrees: all, memory}, s, choose) {
    const rows = all.json.rows.map((run, i) => ({
      current: degrees[i] === s.degree, pick: () => choose({degree: degrees[i]}),
      cells: [`${degrees[i]} GPU${i ? "s" : ""}`,
              ...run.error ? [run.error]
                           : [seconds(run.iteration_s), percent(run.mfu), seconds(run.breakdown_s.context_comm),
                              gibibytes(run.traffic.per_gpu_bytes.context), gibibytes(run.ranks[0].memory_bytes.activations),
                              gibibytes(run.peak_memory_bytes.device), yes(run.fits)]],
    }));
    return [
      table({caption: "One step of eight sequences, by how many GPUs share one",
             columns: ["", "Iteration", "MFU", "Waits for keys and values", "Sent for attention", "Activations at the peak",
               "On the device", "Fits"], rows}),
      picture(memory.made["memory.svg"], `Memory of a GPU when ${s.degree} share a sequence`),
    ];
  },
  tasks: [
    {id: "fit", ask: "Train sequences of 131,072 tokens with as few GPUs per sequence as possible.",
     check: (s, {degrees: all}) => {
       const fewest = all.json.rows.findIndex(run => run.fits), run = at(all, s.degree);
       return wanted([s.sequence === "131072", `A sequence has ${Number(s.sequence).toLocaleString("en")} tokens.`],
                     [run.fits, `With ${s.degree} the device would have to hold ${gibibytes(run.peak_memory_bytes?.device).text}.`],
                     [!run.fits || degrees[fewest] === s.degree, "Fewer GPUs are enough."]);
     },
     hints: ["The column “Fits” has an answer for every degree."],
     why: ({degrees: all}, s) => `${s.degree} GPUs: ${gibibytes(at(all, s.degree).peak_memory_bytes.device).text} on each.
       Activations shrink with the tokens of a GPU; the states do not.`},
    {id: "mask", ask: `Ring, eight GPUs, 65,536 tokens: how much longer is the step if each GPU takes one piece in order, without
     balance?`,
     options: ["as long: all have as many tokens", "a quarter to a half longer", "twice as long or more"],
     commands: () => ({even: compared(usual), uneven: compared({...usual, balance: "no"})}),
     right: ({even, uneven}) => {
       const ratio = at(uneven, "8").iteration_s / at(even, "8").iteration_s;
       return ratio < 1.1 ? 0 : ratio < 1.75 ? 1 : 2;
     },
     hints: ["The GPU with the last tokens attends to all, the first to an eighth; but attention is not all of the step."],
     why: ({even, uneven}) => `${seconds(at(even, "8").iteration_s).text} becomes ${seconds(at(uneven, "8").iteration_s).text}: in
       each turn of the ring somebody has the whole block.`},
    {id: "bytes", ask: "Which method sends the fewest bytes for Llama 3 8B (32 heads, 8 of them for keys and values) on eight GPUs?",
     options: ["ring", "all-gather", "all-to-all"],
     commands: () => Object.fromEntries(["ring", "all-gather", "all-to-all"].map(way => [way, compared({...usual, way})])),
     right: answers => least(["ring", "all-gather", "all-to-all"].map(way => at(answers[way], "8").traffic.per_gpu_bytes.context)),
     hints: ["A ring hands on what everybody has; an all-to-all sends each token to one place."],
     why: answers => ["ring", "all-gather", "all-to-all"].map(way => `${way}:
       ${gibibytes(at(answers[way], "8").traffic.per_gpu_bytes.context).text}`).join(", ") +
       ". The price of all-to-all: it cannot go beyond the number of heads."},
    {id: "wire", ask: `Make NVLink as slow as 25 GB/s, keep eight GPUs to a sequence, and bring the waiting for keys and values
     below 10 % of the step.`,
     check: (s, {degrees: all}) => {
       const run = at(all, s.degree), share = run.error ? 1 : run.breakdown_s.context_comm / run.iteration_s;
       return wanted([s.wire === "25GB/s", `NVLink has ${readable(s.wire)}.`], [s.degree === "8", `${s.degree} GPUs share a sequence.`],
                     [share < .1, `${percent(share).text} of the step waits.`]);
     },
     hints: ["Attention grows with the square of the tokens, what is sent only with the tokens."],
     why: (_, s) => `With ${Number(s.sequence).toLocaleString("en")} tokens there is enough attention to hide what travels. Long
       sequences bear slow wires.`},
  ],
};
