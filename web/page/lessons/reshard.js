import {note, picture, table} from "../dom.js";
import {gibibytes, rate, seconds, whole} from "../units.js";

const specs = ["RRR", "S0RR", "S1RR", "RS0R", "RS1R", "S01RR", "RS01R", "S0S1R", "S1S0R"];
const meshes = ["[1, 4]", "[2, 2]", "[2, 4]", "[4, 2]", "[3, 4]"];
const strategies = ["send-recv", "local-allgather", "global-allgather", "broadcast", "auto"];
const planners = ["naive", "normal", "load-balance", "greedy", "dfs", "best"];
const file = "resharding.yaml";

const text = s => `name: from ${s.from} to ${s.to}
source: {mesh: ${s.source}, spec: ${s.from}}
destination: {mesh: ${s.destination}, spec: ${s.to}}
tensor: {shape: [1024, 1024, 512], dtype: fp32}
nic: ${s.nic}
link: {nic: 10Gb/s, nvlink: 150GB/s, latency: 5us}
chunks: 100
`;

export default {
  id: "reshard",
  name: "Resharding",
  title: "Resharding between two meshes",
  text: `<p>Where one stage of a pipeline is cut in another way than the next, what it hands over has to be cut anew: pieces that some
    hosts hold go to others, and every host has a NIC that does one thing at a time. R means that a dimension of the tensor is whole
    everywhere, S0 and S1 that it is cut over the rows (hosts) or the columns (GPUs of a host) of the mesh. Who of several holders
    sends, and in which order, decides how long it takes; the bound is what the busiest NIC has to carry in any case.</p>`,
  controls: [
    {key: "source", label: "Mesh that sends", value: "[2, 4]", options: meshes},
    {key: "from", label: "Cut there", value: "RS01R", options: specs},
    {key: "destination", label: "Mesh that receives", value: "[2, 4]", options: meshes},
    {key: "to", label: "Cut here", value: "S01RR", options: specs},
    {key: "strategy", label: "Strategy", value: "broadcast", options: strategies},
    {key: "planner", label: "Planner", value: "best", options: planners},
    {key: "nic", label: "A NIC for each", value: "host", options: ["host", "gpu"]},
  ],
  commands(s) {
    const files = {[file]: text(s)};
    const asked = (planner, ...more) => ["reshard", file, "--set", `strategy=${s.strategy}`, "--set", `planner=${planner}`,
                                         "--format", "json", ...more];
    return {
      plan: {words: asked(s.planner, "--svg", "plan.svg"), made: ["plan.svg"], files},
      naive: {words: asked("naive"), files},
    };
  },
  show({plan, naive}) {
    const row = ({json}, name) => ({cells: [name, seconds(json.time_s), rate(json.effective_bandwidth_bytes_per_s),
                                            whole(json.makespan), whole(json.lower_bound), whole(json.tasks.length)]});
    return [
      picture(plan.made["plan.svg"], "What every NIC does; the number is that of the piece"),
      table({caption: "The plan",
             columns: ["Planner", "Time", "Bandwidth", "Elements over the busiest NIC", "No plan is below", "Pieces"],
             rows: [row(plan, plan.json.planner), ...(plan.json.planner === "naive" ? [] : [row(naive, "naive")])]}),
      ...(plan.json.warnings ?? []).map(note),
    ];
  },
};
