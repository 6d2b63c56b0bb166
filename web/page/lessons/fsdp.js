import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/llama3-8b-dgx-h100.yaml";
const prefetches = ["0", "1", "2", "4"];
const set = s => ["--set", `cluster.nodes=${s.nodes}`, "--set", `batch.global=${8 * s.nodes}`, "--set",
  `batch.sequence=${s.sequence}`, "--set",
                  "parallelism={zero: 3}", "--set", "framework=titan-2025", "--set", `cluster.links.scale_out.bandwidth=${s.nic}`];
const fsdp = (s, prefetch) => `training.fsdp={prefetch: ${prefetch}, reshard_after_forward: ${s.reshard === "yes"}}`;
const compared = s => ({words: ["compare", scenario, ...set(s), "--set", fsdp(s, "1"), "--vary",
  `training.fsdp.prefetch=${prefetches.join(",")}`, "--format", "json"]});
const rowOf = (answer, prefetch) => answer.json.rows[prefetches.indexOf(prefetch)];
const waits = run => run.breakdown_s.data_comm / run.iteration_s;
const usual = {prefetch: "0", reshard: "yes", nodes: "2", sequence: "8192", nic: "50GB/s"};

export default {
  id: "fsdp",
  name: "FSDP",
  title: "FSDP: gathering parameters just in time",
  text: `<p>ZeRO-3, which PyTorch calls FSDP, holds a share of every layer. Before a layer computes, its parameters are gathered from
    all; afterwards they are dropped. If the next layer is gathered while this one computes (<em>prefetch</em>), nobody waits
    as long as a layer computes for longer than its parameters travel. Keeping parameters between forward and backward saves one of
    two gathers and costs memory. Llama 3 8B, one sequence to a GPU, on DGX H100.</p>`,
  controls: [
    {key: "prefetch", label: "Layers gathered ahead, in the picture", value: "0", steps: prefetches},
    {key: "reshard", label: "Parameters dropped between forward and backward", value: "yes", options: ["yes", "no"]},
    {key: "nodes", label: "Nodes of 8 GPUs", value: "2", steps: ["1", "2", "4", "8", "16"]},
    {key: "sequence", label: "Tokens of a sequence", value: "8192", steps: ["1024", "2048", "4096", "8192"]},
    {key: "nic", label: "Rate of a GPU's NIC", value: "50GB/s", steps: ["6.25GB/s", "12.5GB/s", "25GB/s", "50GB/s", "100GB/s"]},
  ],
  commands: s => ({
    prefetches: compared(s),
    memory: {words: ["run", scenario, ...set(s), "--set", fsdp(s, s.prefetch), "--format", "json", "--svg", "memory.svg",
      "--picture", "memory"],
             made: ["memory.svg"]},
  }),
  show({prefetches: all, memory}, s, choose) {
    const rows = all.json.rows.map((run, i) => ({
      current: prefetches[i] === s.prefetch, pick: () => choose({prefetch: prefetches[i]}),
      cells: [`${prefetches[i]} ahead`,
              ...run.error ? [run.error]
                           : [seconds(run.iteration_s), percent(run.mfu), seconds(run.breakdown_s.data_comm),
                             percent(run.breakdown_s.data_comm / run.iteration_s),
                              gibibytes(run.traffic.per_gpu_bytes.data), gibibytes(run.ranks[0].memory_bytes.parameters),
                                gibibytes(run.peak_memory_bytes.device), yes(run.fits)]]}));
    return [
      table({caption: `One step on ${8 * s.nodes} GPUs`, columns: ["", "Iteration", "MFU", "Waits for parameters and gradients",
        "Share of the step", "Sent",
                                                              "Parameters at the peak", "On the device", "Fits"], rows}),
      picture(memory.made["memory.svg"], `Memory of a GPU; layers gathered ahead: ${s.prefetch}`),
    ];
  },
  tasks: [
    {id: "hide", ask: `With the initial settings (two nodes, 8,192 tokens, 50 GB/s), bring the waiting below 2 % of the step, with as little
     memory as possible.`,
     check: (s, {prefetches: all}) => {
       const run = rowOf(all, s.prefetch), enough = all.json.rows.filter(one => waits(one) < .02);
       return wanted([s.reshard === "yes" && s.nodes === "2" && s.sequence === "8192" && s.nic === "50GB/s",
         "Change the prefetch only."],
                     [waits(run) < .02, `${percent(waits(run)).text} of the step waits.`],
                     [waits(run) >= .02 || enough.every(one => one.peak_memory_bytes.device >= run.peak_memory_bytes.device),
                       "Less memory is enough."]);
     },
     hints: ["The wait is there because a layer asks for its parameters when it needs them."],
     why: ({prefetches: all}, s) => `${s.prefetch} ahead: ${percent(waits(rowOf(all, s.prefetch))).text}. A layer computes for
       longer than the next one travels, so more ahead only takes memory.`},
    {id: "keep", ask: "Keeping parameters between forward and backward: how much of the traffic does it save?",
     options: ["nothing", "about a quarter", "about a half"], commands: () => ({drop: compared(usual), keep: compared({...usual,
       reshard: "no"})}),
     right: ({drop, keep}) => least([1, .75, .5].map(ratio =>
       Math.abs(keep.json.rows[1].traffic.per_gpu_bytes.data / drop.json.rows[1].traffic.per_gpu_bytes.data - ratio))),
     hints: ["Parameters are gathered twice in 16 bits, gradients reduced once in 32."],
     why: ({drop, keep}) => `${gibibytes(drop.json.rows[1].traffic.per_gpu_bytes.data).text} becomes
       ${gibibytes(keep.json.rows[1].traffic.per_gpu_bytes.data).text}, and the device holds
       ${gibibytes(keep.json.rows[1].peak_memory_bytes.device).text} instead of
       ${gibibytes(drop.json.rows[1].peak_memory_bytes.device).text}.`},
    {id: "short", ask: `Two nodes, 50 GB/s, one layer ahead: find sequences with which more than 8 % of the step waits all the
     same.`,
     check: (s, {prefetches: all}) => wanted([s.nodes === "2" && s.nic === "50GB/s", "Keep two nodes and NICs of 50 GB/s."], [s.prefetch === "1",
       "Select one layer ahead."],
                                             [waits(rowOf(all, "1")) > .08, `${percent(waits(rowOf(all, "1"))).text} of the step
                                               waits.`]),
     hints: ["A layer has as many parameters for few tokens as for many."],
     why: (_, s) => `${Number(s.sequence).toLocaleString("en")} tokens are computed before the next layer is there. FSDP wants many
       tokens for each GPU.`},
    {id: "nodes", ask: "From 2 to 16 nodes, the same sequences for each GPU: memory falls. And what a GPU sends in a step …",
     options: ["falls, too", "hardly changes", "is about eight times as much"], commands: () => ({few: compared(usual),
       many: compared({...usual, nodes: "16"})}),
     right({few, many}) {
       const ratio = many.json.rows[1].traffic.per_gpu_bytes.data / few.json.rows[1].traffic.per_gpu_bytes.data;
       return ratio < .8 ? 0 : ratio < 2 ? 1 : 2;
     },
     hints: ["(n − 1)/n of all parameters come from others, for n GPUs."],
     why: ({few, many}) => `${gibibytes(few.json.rows[1].traffic.per_gpu_bytes.data).text} and
       ${gibibytes(many.json.rows[1].traffic.per_gpu_bytes.data).text}; the device holds
       ${gibibytes(few.json.rows[1].peak_memory_bytes.device).text} and
       ${gibibytes(many.json.rows[1].peak_memory_bytes.device).text}.`},
  ],
};
