import {readable} from "../controls.js";
import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/llama3-8b-dgx-h100.yaml";
const degrees = ["1", "2", "4", "8"];
const setOf = s => ["--set", `cluster.links.scale_up.bandwidth=${s.wire}`, "--set", `batch.micro=${s.micro}`];
const compared = s => ({words: ["compare", scenario, ...setOf(s), "--vary", `parallelism=${degrees.map(layout).join(",")}`,
  "--format", "json"]});
const rowOf = (answer, degree) => answer.json.rows[degrees.indexOf(degree)];
const waits = (answer, degree) => rowOf(answer, degree).breakdown_s.tensor_comm / rowOf(answer, degree).iteration_s;
const layout = degree => `{tensor: ${degree}, sequence: ${degree !== "1"}, zero: 1}`;

export default {
  id: "tensor",
  name: "Tensor parallelism",
  title: "Tensor parallelism and the wire",
  text: `<p>Tensor parallelism cuts every matrix of a layer over GPUs: each holds and computes a part, and twice in the forward and
    twice in the backward of every layer they add up what they have. That saves memory, and it lies on the critical path: what is
    sent grows with the tokens, and the time with the slowest wire between the GPUs. Make NVLink as slow as a network card and see
    what is left. Here Llama 3 8B trains on one DGX H100 (8 GPUs); those that tensor parallelism leaves are replicas.</p>`,
  controls: [
    {key: "degree", label: "Tensor-parallel GPUs in the pictures", value: "2", steps: degrees},
    {key: "wire", label: "NVLink, one way (H100: 450)", value: "450GB/s",
     steps: ["12.5GB/s", "25GB/s", "50GB/s", "100GB/s", "150GB/s", "300GB/s", "450GB/s", "900GB/s"]},
    {key: "micro", label: "Sequences at a time", value: "1", steps: ["1", "2", "4", "8"]},
  ],
  commands(s) {
    const here = [scenario, ...setOf(s), "--set", `parallelism=${layout(s.degree)}`];
    return {
      degrees: compared(s),
      groups: {words: ["groups", ...here, "--svg", "groups.svg"], made: ["groups.svg"]},
      memory: {words: ["run", ...here, "--format", "json", "--svg", "memory.svg", "--picture", "memory"], made: ["memory.svg"]},
    };
  },
  show({degrees: all, groups, memory}, s, choose) {
    const rows = all.json.rows.map((run, i) => ({
      current: degrees[i] === s.degree, pick: () => choose({degree: degrees[i]}),
      cells: run.error ? [`${degrees[i]} GPUs`, run.error]
                       : [`${degrees[i]} GPU${i ? "s" : ""}`, seconds(run.iteration_s), percent(run.mfu),
                          seconds(run.breakdown_s.compute), seconds(run.breakdown_s.tensor_comm),
                          percent(run.breakdown_s.tensor_comm / run.iteration_s), seconds(run.breakdown_s.data_comm),
                          gibibytes(run.peak_memory_bytes.device), yes(run.fits)],
    }));
    return [
      table({caption: "One step, by how many GPUs share each layer",
             columns: ["", "Iteration", "MFU", "Computing", "Waits for tensor parallelism", "Share of the step",
                       "Waits for gradients", "On the device", "Fits"], rows}),
      picture(groups.made["groups.svg"], "Who shares a layer with whom, and who is whose replica"),
      picture(memory.made["memory.svg"], `Memory of a GPU when ${s.degree} share each layer`),
    ];
  },
  tasks: [
    {id: "fit", ask: "Four sequences at a time: share each layer among as few GPUs as possible.",
     check: (s, {degrees: all}) => wanted([s.micro === "4", `Sequences at a time: ${s.micro}.`],
                                          [rowOf(all, s.degree).fits, `With ${s.degree} the device would hold
                                            ${gibibytes(rowOf(all, s.degree).peak_memory_bytes.device).text}.`],
                                          [degrees[all.json.rows.findIndex(run => run.fits)] === s.degree || !rowOf(all,
                                            s.degree).fits, "Fewer are enough."]),
     hints: ["The column “Fits” says it for every number of GPUs."],
     why: ({degrees: all}, s) => `${s.degree} GPUs: ${gibibytes(rowOf(all, s.degree).peak_memory_bytes.device).text}. Twice as many
       would fit, too, and take ${seconds(rowOf(all, String(2 * s.degree)).iteration_s).text} instead of
       ${seconds(rowOf(all, s.degree).iteration_s).text}.`},
    {id: "half", ask: "How slow must NVLink be before two GPUs to a layer wait for half of the step? One sequence at a time.",
     check: (s, {degrees: all}) => wanted([s.micro === "1", `Sequences at a time: ${s.micro}.`], [waits(all, "2") > .5, `They wait
       for ${percent(waits(all, "2")).text}.`]),
     hints: ["The row “2 GPUs”, the column “Share of the step”.", "It is about as fast as a network card of 200 Gb/s."],
     why: ({degrees: all}, s) => `At ${readable(s.wire)} they wait for ${percent(waits(all, "2")).text}: tensor parallelism stays inside a
       node.`},
    {id: "slow", ask: "NVLink has 25 GB/s. Which number of GPUs to a layer is the fastest that fits?",
     options: degrees.map(degree => degree === "1" ? "one" : degree), commands: () => ({all: compared({wire: "25GB/s",
       micro: "1"})}),
     right: ({all}) => least(all.json.rows, run => run.fits ? run.iteration_s : Infinity),
     hints: ["First find the ones that fit."],
     why: ({all}) => all.json.rows.map((run, i) => `${degrees[i]}:
       ${seconds(run.iteration_s).text}${run.fits ? "" : " (does not fit)"}`).join(", ") + "."},
    {id: "tokens", ask: `Eight GPUs to a layer, NVLink at 450 GB/s: from one to eight sequences at a time, the share of the step
     that waits …`,
     options: ["falls to less than half", "stays about the same", "more than doubles"],
     commands: () => ({one: compared({wire: "450GB/s", micro: "1"}), eight: compared({wire: "450GB/s", micro: "8"})}),
     right: ({one, eight}) => least([1 / 3, 1, 3].map(ratio => Math.abs(Math.log(waits(eight, "8") / waits(one, "8") / ratio)))),
     hints: ["What is computed grows with the tokens. And what is sent?"],
     why: ({one, eight}) => `${percent(waits(one, "8")).text} and ${percent(waits(eight, "8")).text}: both computing and messages
       grow with the tokens.`},
  ],
};
