import {picture, table} from "../dom.js";
import {gibibytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/llama3-8b-dgx-h100.yaml";
const modes = ["none", "selective", "full"];

export default {
  id: "recompute",
  name: "Recomputation",
  title: "Recomputation: time for memory",
  text: `<p>The backward pass needs what the forward pass has computed. Keeping all of it takes memory that grows with the sequence and
    the micro-batch; <em>full</em> recomputation keeps the input of each layer only and does the forward a second time, about a third
    more work; <em>selective</em> repeats what is large and cheap. In the picture activations grow through the forward and are freed
    through the backward; what is made a second time lives for one layer only.</p>`,
  controls: [
    {key: "mode", label: "Recomputation in the picture", value: "selective", options: modes},
    {key: "micro", label: "Sequences at a time", value: "1", steps: ["1", "2", "4"]},
    {key: "sequence", label: "Tokens of a sequence", value: "8192", steps: ["2048", "4096", "8192", "16384", "32768"]},
    {key: "attention", label: "Attention", value: "flash", options: ["flash", "unfused"]},
  ],
  commands(s) {
    const set = ["--set", `batch.micro=${s.micro}`, "--set", `batch.sequence=${s.sequence}`, "--set",
                 `training.attention=${s.attention}`, "--set", "framework=megatron-2024"];
    return {
      modes: {words: ["compare", scenario, ...set, "--vary", `training.recompute=${modes.join(",")}`, "--format", "json"]},
      memory: {words: ["run", scenario, ...set, "--set", `training.recompute=${s.mode}`, "--format", "json", "--svg", "memory.svg",
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
             columns: ["Recomputation", "Iteration", "Repeated work", "MFU", "Activations at the peak", "On the device", "Fits"], rows}),
      picture(memory.made["memory.svg"], `Memory of a GPU over one iteration, recomputation ${s.mode}`),
    ];
  },
};
