import {note, picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, number, percent, rate, seconds, whole} from "../units.js";

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

const asked = (s, planner, ...more) => ({words: ["reshard", file, "--set", `strategy=${s.strategy}`, "--set", `planner=${planner}`,
  "--format", "json", ...more],
                                         files: {[file]: text(s)}});
const elements = 1024 * 1024 * 512;
const usual = {source: "[2, 4]", from: "RS01R", destination: "[2, 4]", to: "S01RR", strategy: "broadcast", nic: "host"};

export default {
  id: "reshard",
  name: "Resharding",
  title: "Resharding between two meshes",
  text: `<p>Where one stage of a pipeline is cut in another way than the next, what it hands over has to be cut anew: pieces that some
    hosts hold go to others, and every host has a NIC that does one thing at a time. R means that a dimension of the tensor is whole
    everywhere, S0 and S1 that it is cut over the rows (hosts) or the columns (GPUs of a host) of the mesh. Who of several holders
    sends, and in which order, decides how long it takes; the bound is what the busiest NIC has to carry in any case.</p>`,
  controls: [
    {key: "source", label: "Source mesh", value: "[2, 4]", options: meshes},
    {key: "from", label: "Source layout", value: "RS01R", options: specs},
    {key: "destination", label: "Destination mesh", value: "[2, 4]", options: meshes},
    {key: "to", label: "Destination layout", value: "S01RR", options: specs},
    {key: "strategy", label: "Strategy", value: "broadcast", options: strategies},
    {key: "planner", label: "Planner", value: "best", options: planners},
    {key: "nic", label: "One NIC for each", value: "host", options: ["host", "gpu"]},
  ],
  commands: s => ({plan: {...asked(s, s.planner, "--svg", "plan.svg"), made: ["plan.svg"]}, naive: asked(s, "naive")}),
  show({plan, naive}) {
    const row = ({json}, name) => ({cells: [name, seconds(json.time_s), rate(json.effective_bandwidth_bytes_per_s),
                                            whole(json.makespan), whole(json.lower_bound), whole(json.tasks.length)]});
    return [
      picture(plan.made["plan.svg"], "What every NIC does; the number is that of the piece"),
      table({caption: "The plan",
             columns: ["Planner", "Time", "Effective bandwidth", "Elements over the busiest NIC", "Lower bound (elements)", "Pieces"],
             rows: [row(plan, plan.json.planner), ...(plan.json.planner === "naive" ? [] : [row(naive, "naive")])]}),
      ...(plan.json.warnings ?? []).map(note),
    ];
  },
  tasks: [
    {id: "once", ask: `From S0RR to RRR, meshes [2, 4] and a NIC for a host: without broadcast, let the busiest NIC carry the
     tensor no more than once.`,
     check: (s, {plan: {json}}) => wanted([s.from === "S0RR" && s.to === "RRR" && s.source === "[2, 4]" &&
       s.destination === "[2, 4]" && s.nic === "host", "This is not that resharding."],
                                          [!["broadcast", "auto"].includes(s.strategy), "Choose another strategy."],
                                          [json.makespan <= elements, `It carries the tensor
                                            ${number(json.makespan / elements).text} times.`]),
     hints: ["Send each host a part once, and let its GPUs gather over NVLink."],
     why: ({plan: {json}}) => `${seconds(json.time_s).text}. Sending to each GPU by itself carries the tensor four times through
       one NIC.`},
    {id: "planner", ask: `The initial resharding, from RS01R to S01RR: how much longer does the naive planner take than the
     best?`,
     options: ["as long", "half as long again", "nearly twice as long", "four times as long"], commands: () => ({best: asked(usual,
       "best"), naive: asked(usual, "naive")}),
     right: ({best, naive}) => least([1, 1.5, 2, 4].map(times => Math.abs(Math.log(naive.json.time_s / best.json.time_s / times)))),
     hints: ["The second table has both."],
     why: ({best, naive}) => `${seconds(best.json.time_s).text} and ${seconds(naive.json.time_s).text}. With
       ${best.json.tasks.length} pieces the order decides whether NICs wait for each other.`},
    {id: "free", ask: `Find a resharding of two pieces or more for which the order does not matter: the best planner is no quicker
     than the naive one.`,
     check: (s, {plan, naive}) => wanted([s.planner === "best", "Select the best planner."], [plan.json.tasks.length >= 2,
       "There is one piece."],
                                         [plan.json.time_s >= .999 * naive.json.time_s, `The best is
                                           ${percent(1 - plan.json.time_s / naive.json.time_s).text} quicker.`]),
     hints: [`Where every host sends to one host and receives from one, nobody gets in anybody's way.`,
       "Cut both meshes in the same way."],
     why: ({plan: {json}}) => `${json.tasks.length} pieces, and no NIC is needed twice at the same time.`},
    {id: "nic", ask: "A NIC for each of the four GPUs of a host instead of one for the host, with all other settings as they were initially. It takes …",
     options: ["as long", "about half as long", "about a quarter"], commands: () => ({host: asked(usual, "best"),
       gpu: asked({...usual, nic: "gpu"}, "best")}),
     right: ({host, gpu}) => least([1, 2, 4].map(times => Math.abs(Math.log(host.json.time_s / gpu.json.time_s / times)))),
     hints: ["Do all four GPUs of a host receive something?"],
     why: ({host, gpu}) => `${seconds(host.json.time_s).text} becomes ${seconds(gpu.json.time_s).text}: every GPU has its part, so
       all NICs work.`},
  ],
};
