import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, number, percent, seconds, whole, yes} from "../units.js";

const scenario = "scenarios/gpt-7.5b-zero-64xv100.yaml";
const perNode = 16;
const paper = "the paper's 16 bytes";
const usual = {n: "64", micro: "1", copies: paper};

function setOf(s) {
  const set = ["--set", `cluster.nodes=${s.n / perNode}`, "--set", `batch.micro=${s.micro}`, "--set",
    `batch.global=${s.n * s.micro}`];
  // What DeepSpeed of 2021 holds beside the states: flat gradients, and those that a step scales.
  if (s.copies === paper) set.push("--set", "framework.flat_gradient_bytes=0", "--set", "framework.step_gradient_bytes=0");
  return set;
}
const compared = s => ({words: ["compare", scenario, ...setOf(s), "--vary", "parallelism.zero=0,1,2,3", "--format", "json"]});
const statesIn = ({parameters, gradients, optimizer}) => parameters + gradients + optimizer;
const statesOf = (answer, stage) => statesIn(answer.json.rows[Number(stage)].ranks[0].memory_bytes);

export default {
  id: "zero",
  name: "ZeRO",
  title: "What ZeRO saves, and what it sends",
  text: `<p>Replicas of a network that train together all hold the same parameters, gradients and optimizer states. ZeRO lets each
    hold a share instead: stage 1 of the optimizer states, stage 2 also of the gradients, stage 3 also of the parameters, which are
    then gathered whenever a layer needs them. Stages 1 and 2 send as much as plain data parallelism, about 2&nbsp;Ψ for Ψ
    parameters; stage 3 sends 3&nbsp;Ψ. The model is the one of the paper's first figure, with 7.5 billion parameters;
    the paper counts in GB, this page in GiB, of 1.07 GB each.</p>`,
  controls: [
    {key: "stage", label: "ZeRO stage in the picture", value: 3, min: 0, max: 3, step: 1},
    {key: "n", label: "GPUs", value: 64, steps: ["16", "32", "64", "128", "256", "512", "1024"]},
    {key: "micro", label: "Sequences per GPU", value: 1, steps: ["1", "2", "4"]},
    {key: "copies", label: "What counts as states", value: paper, options: [paper, "DeepSpeed's copies too"]},
  ],
  commands: s => ({
    stages: compared(s),
    one: {words: ["run", scenario, ...setOf(s), "--set", `parallelism.zero=${s.stage}`, "--format", "json", "--svg", "memory.svg",
                  "--picture", "memory"],
          made: ["memory.svg"]},
  }),
  show({stages, one}, s, choose) {
    const rows = stages.json.rows.map(({set, ...run}) => {
      const [rank] = run.ranks, held = rank.memory_bytes, data = run.traffic.data_parallel;
      const states = statesIn(held);
      const stage = String(set["parallelism.zero"]);
      return {current: stage === s.stage, pick: () => choose({stage}),
              cells: [`Stage ${stage}`, gibibytes(held.parameters), gibibytes(held.gradients), gibibytes(held.optimizer),
                      gibibytes(states), gibibytes(run.peak_memory_bytes.device), yes(run.fits), gibibytes(data.bytes),
                      number(data.bytes / (2 * data.parameters)), seconds(run.iteration_s)]};
    });
    return [
      table({caption: `Each of ${s.n} GPUs at its peak`,
             columns: ["", "Parameters", "Gradients", "Optimizer", "All states", "On the device", "Fits", "Sent in a step",
                       "in Ψ of fp16", "Iteration"], rows}),
      picture(one.made["memory.svg"], `Memory of a GPU over one iteration with stage ${s.stage}`),
    ];
  },
  tasks: [
    {id: "share", ask: "Stage 3: bring the states of a GPU below half a GiB.",
     check: (s, {stages}) => wanted([s.stage === "3", `The picture shows stage ${s.stage}.`], [statesOf(stages, s.stage) < 2 ** 29,
       `It holds ${gibibytes(statesOf(stages, s.stage)).text}.`]),
     hints: ["What is shared among more GPUs is less for each."],
     why: ({stages}, s) => `${gibibytes(statesOf(stages, 3)).text}: 16 bytes for each of 7.5 billion parameters, over ${s.n}
       GPUs.`},
    {id: "lowest", ask: "64 GPUs and no more: which is the lowest stage whose states take 20 GiB or less? Select it.",
     check: (s, {stages}) => wanted([Number(s.n) <= 64, `There are ${s.n} GPUs.`],
                                    [statesOf(stages, s.stage) <= 20 * 2 ** 30, `Stage ${s.stage} takes
                                      ${gibibytes(statesOf(stages, s.stage)).text}.`],
                                    [s.stage === "0" || statesOf(stages, Number(s.stage) - 1) > 20 * 2 ** 30, "A lower one would do."]),
     hints: ["The column “All states” has the answer."],
     why: ({stages}, s) => `Stage ${s.stage}: ${gibibytes(statesOf(stages, s.stage)).text}. Each stage costs something, so take the
       lowest that fits.`},
    {id: "traffic", ask: "Which sends more in a step of 64 GPUs: stage 1 or stage 3, and how much more?",
     options: ["both the same", "stage 3: half as much again", "stage 3: twice as much", "stage 1"], commands: () =>
       ({all: compared(usual)}),
     right({all}) {
       const [one, three] = [1, 3].map(stage => all.json.rows[stage].traffic.data_parallel.bytes);
       return three < one ? 3 : least([1, 1.5, 2].map(ratio => Math.abs(three / one - ratio)));
     },
     hints: ["Count what travels: gradients are reduced, parameters are gathered. Stage 3 gathers once more, for the backward."],
     why: ({all}) => [1, 3].map(stage => `stage ${stage}:
       ${gibibytes(all.json.rows[stage].traffic.data_parallel.bytes).text}`).join(", ") + ". The memory of the parameters costs one more gather."},
    {id: "left", ask: "Stage 2 on 1,024 GPUs: what makes up most of the states that are left?",
     options: ["parameters", "gradients", "optimizer states"], commands: () => ({all: compared({...usual, n: "1024"})}),
     right: ({all}) => least(["parameters", "gradients", "optimizer"].map(key => -all.json.rows[2].ranks[0].memory_bytes[key])),
     hints: ["Which of the three is not yet shared?"],
     why: ({all}) => `${gibibytes(all.json.rows[2].ranks[0].memory_bytes.parameters).text} of ${gibibytes(statesOf(all, 2)).text}:
       no number of GPUs makes stage 2 smaller than the parameters.`},
  ],
};
