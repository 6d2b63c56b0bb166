import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/llama3-8b-dgx-h100.yaml";
const modes = ["none", "selective", "full"];

const setOf = s => ["--set", `batch.micro=${s.micro}`, "--set", `batch.sequence=${s.sequence}`, "--set",
  `training.attention=${s.attention}`, "--set",
                    "framework=megatron-2024"];
const compared = s => ({words: ["compare", scenario, ...setOf(s), "--vary", `training.recompute=${modes.join(",")}`, "--format",
  "json"]});
const runOf = (answer, mode) => answer.json.rows[modes.indexOf(mode)];
const usual = {micro: "1", sequence: "8192", attention: "flash"};

export default {
  id: "recompute",
  name: "Recomputation",
  title: "Recomputation: time for memory",
  text: `<p>The backward pass needs what the forward pass has computed. Keeping all of it takes memory that grows with the sequence and
    the micro-batch; <em>full</em> recomputation keeps the input of each layer only and does the forward a second time,
      about a third
    more work; <em>selective</em> repeats what is large and cheap. In the picture activations grow through the forward and are freed
    through the backward; what is made a second time lives for one layer only.</p>`,
  controls: [
    {key: "mode", label: "Recomputation in the picture", value: "selective", options: modes},
    {key: "micro", label: "Sequences at a time", value: "1", steps: ["1", "2", "4"]},
    {key: "sequence", label: "Tokens of a sequence", value: "8192", steps: ["2048", "4096", "8192", "16384", "32768"]},
    {key: "attention", label: "Attention", value: "flash", options: ["flash", "unfused"]},
  ],
  commands(s) {
    return {
      modes: compared(s),
      memory: {words: ["run", scenario, ...setOf(s), "--set", `training.recompute=${s.mode}`, "--format", "json", "--svg",
        "memory.svg",
                    "--picture", "memory"],
               made: ["memory.svg"]},
    };
  },
  show({modes: all, memory}, s, choose) {
    const rows = all.json.rows.map(run => {
      const mode = run.set["training.recompute"];
      const held = run.ranks?.[0].memory_bytes;
      return {current: mode === s.mode, pick: () => choose({mode}),
              cells: run.error ? [mode, run.error]
                               : [mode, seconds(run.iteration_s), seconds(run.breakdown_s.recompute), percent(run.mfu),
                                  gibibytes(held.activations + held.recomputed),
                                  gibibytes(run.peak_memory_bytes.device), yes(run.fits)]};
    });
    return [
      table({caption: "One step of Llama 3 8B on a DGX H100",
             columns: ["Recomputation", "Iteration", "Repeated work", "MFU", "Activations at the peak", "On the device", "Fits"],
               rows}),
      picture(memory.made["memory.svg"], `Memory of a GPU over one iteration, recomputation ${s.mode}`),
    ];
  },
  tasks: [
    {id: "long", ask: "Train sequences of 32,768 tokens, one at a time, with flash attention.",
     check: (s, {modes: all}) => wanted([s.sequence === "32768", `A sequence has ${Number(s.sequence).toLocaleString("en")}
       tokens.`], [s.micro === "1" && s.attention === "flash", "One at a time, with flash."],
                                        [runOf(all, s.mode).fits, `${s.mode}: the device would have to hold
                                          ${gibibytes(runOf(all, s.mode).peak_memory_bytes.device).text}.`]),
     hints: ["Which row fits the device?"],
     why: ({modes: all}, s) => `${gibibytes(runOf(all, s.mode).peak_memory_bytes.device).text} instead of
       ${gibibytes(runOf(all, "none").peak_memory_bytes.device).text}, for
       ${seconds(runOf(all, s.mode).breakdown_s.recompute).text} of repeated work.`},
    {id: "price", ask: "How much longer does a step take with full recomputation than with none (8,192 tokens, flash)?",
     options: ["a tenth", "a third", "half as long again", "twice as long"], commands: () => ({all: compared(usual)}),
     right: ({all}) => least([1.1, 4 / 3, 1.5, 2].map(ratio => Math.abs(Math.log(runOf(all, "full").iteration_s / runOf(all,
       "none").iteration_s / ratio)))),
     hints: ["A backward takes twice as long as a forward. Now there are two forwards."],
     why: ({all}) => `${seconds(runOf(all, "none").iteration_s).text} becomes ${seconds(runOf(all, "full").iteration_s).text},
       ${percent(runOf(all, "full").iteration_s / runOf(all, "none").iteration_s - 1).text} more: a forward is a third of forward
       and backward, and the head is not repeated.`},
    {id: "cheap", ask: "Unfused attention, 8,192 tokens, one sequence at a time: choose the quickest that fits.",
     check: (s, {modes: all}) => {
       const fitting = all.json.rows.filter(run => run.fits), chosen = runOf(all, s.mode);
       return wanted([s.attention === "unfused", "Attention is flash."], [s.sequence === "8192" && s.micro === "1",
         "One sequence of 8,192 tokens."],
                     [chosen.fits, `${s.mode} does not fit.`], [!chosen.fits || fitting.every(run =>
                       run.iteration_s >= chosen.iteration_s), "Another one is quicker."]);
     },
     hints: ["What is large and cheap in unfused attention? The scores: tokens times tokens."],
     why: ({modes: all}, s) => `${s.mode}: ${gibibytes(runOf(all, "none").peak_memory_bytes.device).text} becomes
       ${gibibytes(runOf(all, s.mode).peak_memory_bytes.device).text}. Scores are large, and quickly computed again.`},
    {id: "flash", ask: "With flash attention and 8,192 tokens: how much of the device's memory does <em>selective</em> save?",
     options: ["nothing", "about a tenth", "about a half"], commands: () => ({all: compared(usual)}),
     right: ({all}) => least([0, .1, .5].map(share => Math.abs(1 - runOf(all, "selective").peak_memory_bytes.device / runOf(all,
       "none").peak_memory_bytes.device - share))),
     hints: ["Flash attention never keeps the scores."],
     why: ({all}) => `${gibibytes(runOf(all, "none").peak_memory_bytes.device).text} and
       ${gibibytes(runOf(all, "selective").peak_memory_bytes.device).text}: there are no scores to save, only
       ${seconds(runOf(all, "selective").breakdown_s.recompute).text} to lose.`},
  ],
};
