import {picture, table} from "../dom.js";
import {gibibytes, gigabytes, number, percent, seconds, whole, yes} from "../units.js";

const scenario = "scenarios/gpt-7.5b-zero-64xv100.yaml";
const perNode = 16;
const paper = "the paper's 16 bytes";

export default {
  id: "zero",
  name: "ZeRO",
  title: "What ZeRO saves, and what it sends",
  text: `<p>Replicas of a network that train together all hold the same parameters, gradients and optimizer states. ZeRO lets each
    hold a share instead: stage 1 of the optimizer states, stage 2 also of the gradients, stage 3 also of the parameters, which are
    then gathered whenever a layer needs them. Stages 1 and 2 send as much as plain data parallelism, about 2&nbsp;Ψ for Ψ
    parameters; stage 3 sends 3&nbsp;Ψ. The model is the one of the paper's first figure, with 7.5 billion parameters.</p>`,
  controls: [
    {key: "stage", label: "Stage in the picture", value: 3, min: 0, max: 3, step: 1},
    {key: "n", label: "GPUs", value: 64, steps: ["16", "32", "64", "128", "256", "512", "1024"]},
    {key: "micro", label: "Sequences per GPU", value: 1, steps: ["1", "2", "4"]},
    {key: "copies", label: "Count", value: paper, options: [paper, "DeepSpeed's copies too"]},
  ],
  commands(s) {
    const set = ["--set", `cluster.nodes=${s.n / perNode}`, "--set", `batch.micro=${s.micro}`, "--set",
                 `batch.global=${s.n * s.micro}`];
    // What DeepSpeed of 2021 holds beside the states: flat gradients, and those that a step scales.
    if (s.copies === paper)
      set.push("--set", "framework.flat_gradient_bytes=0", "--set", "framework.step_gradient_bytes=0");
    return {
      stages: {words: ["compare", scenario, ...set, "--vary", "parallelism.zero=0,1,2,3", "--format", "json"]},
      one: {words: ["run", scenario, ...set, "--set", `parallelism.zero=${s.stage}`, "--format", "json", "--svg", "memory.svg",
                    "--picture", "memory"],
            made: ["memory.svg"]},
    };
  },
  show({stages, one}, s, choose) {
    const rows = stages.json.rows.map(({set, ...run}) => {
      const [rank] = run.ranks, held = rank.memory_bytes, data = run.traffic.data_parallel;
      const states = held.parameters + held.gradients + held.optimizer;
      const stage = String(set["parallelism.zero"]);
      return {current: stage === s.stage, pick: () => choose({stage}),
              cells: [`Stage ${stage}`, gigabytes(held.parameters), gigabytes(held.gradients), gigabytes(held.optimizer),
                      gigabytes(states), gibibytes(run.peak_memory_bytes.device), yes(run.fits), gigabytes(data.bytes),
                      number(data.bytes / (2 * data.parameters)), seconds(run.iteration_s)]};
    });
    return [
      table({caption: `Each of ${s.n} GPUs at its peak`,
             columns: ["", "Parameters", "Gradients", "Optimizer", "All states", "On the device", "Fits", "Sent in a step",
                       "in Ψ of fp16", "Iteration"], rows}),
      picture(one.made["memory.svg"], `Memory of a GPU over one iteration with stage ${s.stage}`),
    ];
  },
};
