import {picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/gpt-10b-offload-1xv100.yaml";
const places = ["device", "host", "nvme"];

const where = place => `training.offload={optimizer: ${place}, gradients: ${place === "nvme" ? "host" : place}}`;
const setOf = s => ["--set", `cluster.host.pcie.bandwidth=${s.wire}`, "--set", `cluster.host.memory_bandwidth=${s.memory}`,
  "--set", where(s.optimizer)];
const compared = s => ({words: ["compare", scenario, ...setOf(s), "--vary", "batch.global=4,8,16,32,64,128", "--format", "json"]});
const efficient = json => json.offload_efficiency?.simulated ?? null;
const usual = {optimizer: "host", wire: "12GB/s", memory: "200GB/s"};

export default {
  id: "offload",
  name: "Offload",
  title: "Offload: memory beside the GPU",
  text: `<p>What a GPU does not need at once may stay in the memory of its host, or on a disk. ZeRO-Offload keeps gradients and
    optimizer states there and lets the CPU update: 10 billion parameters train on one V100. The price is the link to the host and
    the speed of its memory: the more a step computes for each byte that moves, the smaller the part of it that waits. The
    <em>efficiency</em> is what the step would take without waiting, over what it takes.</p>`,
  controls: [
    {key: "optimizer", label: "Optimizer states and gradients", value: "host", options: places},
    {key: "wire", label: "Link to the host (PCIe)", value: "12GB/s",
     steps: ["2GB/s", "4GB/s", "8GB/s", "12GB/s", "25GB/s", "50GB/s", "100GB/s"]},
    {key: "memory", label: "Host memory bandwidth", value: "200GB/s",
     steps: ["25GB/s", "50GB/s", "100GB/s", "200GB/s", "400GB/s", "800GB/s", "1600GB/s"]},
    {key: "steps", label: "Micro-batches of 4 sequences in a step", value: "1", steps: ["1", "2", "4", "8", "16", "32"]},
  ],
  commands(s) {
    return {
      batches: compared(s),
      memory: {words: ["run", scenario, ...setOf(s), "--set", `batch.global=${4 * s.steps}`, "--format",
                       "json", "--svg", "memory.svg", "--picture", "memory"], made: ["memory.svg"]},
    };
  },
  show({batches, memory}, s, choose) {
    const rows = batches.json.rows.map(run => {
      const steps = String(run.set["batch.global"] / 4);
      return {current: steps === s.steps, pick: () => choose({steps}),
              cells: run.error ? [steps, run.error]
                               : [steps, seconds(run.iteration_s), seconds(run.breakdown_s.offload),
                                  percent(run.offload_efficiency?.simulated ?? null),
                                  gibibytes(run.traffic.per_gpu_bytes.offload_in + run.traffic.per_gpu_bytes.offload_out),
                                  gibibytes(run.tiers.device.peak_bytes), gibibytes(run.tiers.host?.peak_bytes ?? 0),
                                  gibibytes(run.tiers.nvme?.peak_bytes ?? 0), yes(run.fits)]};
    });
    return [
      table({caption: "One step of a GPT of 10 billion parameters on one V100 of 32 GiB",
             columns: ["Micro-batches", "Iteration", "Waits for the host", "Efficiency", "Moved", "On the device", "On the host",
                       "On disks", "Fits"], rows}),
      picture(memory.made["memory.svg"], "Memory of the GPU, its host and its disks over one iteration"),
    ];
  },
  tasks: [
    {id: "efficiency", ask: "States on the host, link and host memory at their initial rates: reach an efficiency of 80 %.",
     check: (s, {memory: {json}}) => wanted([s.optimizer === "host" && s.wire === "12GB/s" && s.memory === "200GB/s",
       "Set link and host memory back to their initial rates."],
                                            [efficient(json) >= .8, `It is ${percent(efficient(json)).text}.`]),
     hints: ["The update takes as long for a step of one micro-batch as for one of many."],
     why: ({memory: {json}}, s) => `${s.steps} micro-batches: ${percent(efficient(json)).text}. The host updates once a step, so
       large batches hide it.`},
    {id: "bottleneck", ask: `One micro-batch in a step: what helps more, a link of 25 GB/s instead of 12, or host memory of 400 GB/s
     instead of 200?`,
     options: ["the link", "the host memory"], commands: () => ({wire: compared({...usual, wire: "25GB/s"}), memory: compared({...usual,
       memory: "400GB/s"})}),
     right: ({wire, memory}) => least([wire, memory].map(answer => answer.json.rows[0].iteration_s)),
     hints: ["The CPU reads and writes 12 bytes of states and more for each parameter; 4 travel."],
     why: ({wire, memory}) => `${seconds(wire.json.rows[0].iteration_s).text} with the link,
       ${seconds(memory.json.rows[0].iteration_s).text} with the memory: Adam on the host is bound by its memory.`},
    {id: "disk", ask: "The host may hold at most 30 GiB. Still reach an efficiency of 75 %, with link and host memory at their initial rates.",
     check: (s, {memory: {json}}) => wanted([s.wire === "12GB/s" && s.memory === "200GB/s",
       "Set link and host memory back to their initial rates."], [s.optimizer !== "device" && json.fits, "This does not fit."],
                                            [(json.tiers.host?.peak_bytes ?? 0) <= 30 * 2 ** 30, `The host holds
                                              ${gibibytes(json.tiers.host?.peak_bytes).text}.`],
                                            [efficient(json) >= .75, `Efficiency is ${percent(efficient(json)).text}.`]),
     hints: ["Disks are slower, but there is a third place.", "And more micro-batches."],
     why: ({memory: {json}}) => `${gibibytes(json.tiers.nvme.peak_bytes).text} are on disks, and still
       ${percent(efficient(json)).text}: they are read and written once a step.`},
    {id: "without", ask: "Without offload, how many times the memory of this GPU would be needed?",
     options: ["about twice", "about four times", "about seven times"], commands: () => ({all: compared({...usual,
       optimizer: "device"})}),
     right: ({all}) => least([2, 4, 7].map(times =>
       Math.abs(Math.log(all.json.rows[0].tiers.device.peak_bytes / all.json.rows[0].tiers.device.capacity_bytes / times)))),
     hints: ["10 billion parameters, 16 bytes each, and DeepSpeed's copies."],
     why: ({all}) => `${gibibytes(all.json.rows[0].tiers.device.peak_bytes).text} on a device of
       ${gibibytes(all.json.rows[0].tiers.device.capacity_bytes).text}.`},
  ],
};
