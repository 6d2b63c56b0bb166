import {picture, table} from "../dom.js";
import {gibibytes, gigabytes, percent, seconds, yes} from "../units.js";

const scenario = "scenarios/gpt-10b-offload-1xv100.yaml";
const places = ["device", "host", "nvme"];

export default {
  id: "offload",
  name: "Offload",
  title: "Offload: memory beside the GPU",
  text: `<p>What a GPU does not need at once may stay in the memory of its host, or on a disk. ZeRO-Offload keeps gradients and
    optimizer states there and lets the CPU update: 10 billion parameters train on one V100. The price is the wire to the host and
    the speed of its memory: the more a step computes for each byte that moves, the smaller the part of it that waits. That part is
    the <em>efficiency</em>: what the step would take without waiting, over what it takes.</p>`,
  controls: [
    {key: "optimizer", label: "Optimizer states and gradients", value: "host", options: places},
    {key: "wire", label: "Wire to the host", value: "12GB/s",
     steps: ["2GB/s", "4GB/s", "8GB/s", "12GB/s", "25GB/s", "50GB/s", "100GB/s"]},
    {key: "memory", label: "Memory of the host", value: "200GB/s",
     steps: ["25GB/s", "50GB/s", "100GB/s", "200GB/s", "400GB/s", "800GB/s", "1600GB/s"]},
    {key: "steps", label: "Micro-batches of 4 sequences in a step", value: "1", steps: ["1", "2", "4", "8", "16", "32"]},
  ],
  commands(s) {
    const where = place => `training.offload={optimizer: ${place}, gradients: ${place === "nvme" ? "host" : place}}`;
    const set = ["--set", `cluster.host.pcie.bandwidth=${s.wire}`, "--set", `cluster.host.memory_bandwidth=${s.memory}`];
    return {
      batches: {words: ["compare", scenario, ...set, "--set", where(s.optimizer), "--vary", "batch.global=4,8,16,32,64,128",
                        "--format", "json"]},
      memory: {words: ["run", scenario, ...set, "--set", where(s.optimizer), "--set", `batch.global=${4 * s.steps}`, "--format",
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
                                  gigabytes(run.traffic.per_gpu_bytes.offload_in + run.traffic.per_gpu_bytes.offload_out),
                                  gibibytes(run.tiers.device.peak_bytes), gibibytes(run.tiers.host?.peak_bytes ?? 0),
                                  gibibytes(run.tiers.nvme?.peak_bytes ?? 0), yes(run.fits)]};
    });
    return [
      table({caption: "One step of a GPT of 10 billion parameters on one V100 of 32 GB",
             columns: ["Micro-batches", "Iteration", "Waits for the host", "Efficiency", "Moved", "On the device", "On the host",
                       "On disks", "Fits"], rows}),
      picture(memory.made["memory.svg"], "Memory of the GPU, its host and its disks over one iteration"),
    ];
  },
};
