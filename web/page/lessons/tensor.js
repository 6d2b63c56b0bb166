import {picture, table} from "../dom.js";
import {gibibytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/llama3-8b-dgx-h100.yaml";
const degrees = ["1", "2", "4", "8"];
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
    const set = ["--set", `cluster.links.scale_up.bandwidth=${s.wire}`, "--set", `batch.micro=${s.micro}`];
    const here = [scenario, ...set, "--set", `parallelism=${layout(s.degree)}`];
    return {
      degrees: {words: ["compare", scenario, ...set, "--vary", `parallelism=${degrees.map(layout).join(",")}`, "--format", "json"]},
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
             columns: ["", "Iteration", "MFU", "Computing", "Waits for tensor parallelism", "of the step",
                       "Waits for gradients", "On the device", "Fits"], rows}),
      picture(groups.made["groups.svg"], "Who shares a layer with whom, and who is whose replica"),
      picture(memory.made["memory.svg"], `Memory of a GPU when ${s.degree} share each layer`),
    ];
  },
};
