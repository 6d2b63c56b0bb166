import {curves} from "../curves.js";
import {note, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, seconds, whole} from "../units.js";

const scenario = "scenarios/llama3-8b-dgx-h100.yaml";
const words = s => ["plan", scenario, "--set",
  `job={tokens: ${s.tokens}, gpu_hour: ${s.price}, currency: USD, deadline: ${s.deadline}}`, "--set",
  "plan={tensor: [1, 2, 4], context: 1, pipeline: 1, chunks: 1, micro: 1, zero: 1, schedules: 1f1b, " +
  `nodes: [1, 2, 4, 8, 16], recompute: ${s.recompute}, objective: ${s.objective}, margin: ${s.margin}}`, "--format", "json"];
const deadlines = ["1d", "2d", "4d", "7d", "14d", "30d", "90d"];
const usual = {objective: "cost", deadline: "30d", tokens: "100B", price: "2", margin: "5%", recompute: "selective"};
const asked = s => ({words: words({...usual, ...s})});
const of = row => ({nodes: row.set["cluster.nodes"], tensor: row.set["parallelism.tensor"]});
const named = row => `${of(row).nodes} node${of(row).nodes > 1 ? "s" : ""}, tensor ${of(row).tensor}${row.set["parallelism.sequence"] ? " with sequence" : ""}`;
const days = value => ({value, text: `${value.toFixed(2)} days`});
const dollars = value => ({value, text: `${value.toLocaleString("en", {maximumFractionDigits: 0})} USD`});

export default {
  id: "plan",
  name: "Planning",
  title: "Planning: how many GPUs, and in which layout?",
  text: `<p>Twice the GPUs train in a little more than half the time, so the quickest training is seldom the cheapest. Name a
    deadline and an objective, and <code>plan</code> searches all layouts, leaves out what does not fit and proves that no other is
    better. Here Llama 3 8B may train on 1 to 16 DGX H100 with 1, 2 or 4 GPUs to a layer.</p>`,
  controls: [
    {key: "objective", label: "Objective", value: "cost", options: ["cost", "time", "gpus"], texts: ["the cheapest", "the quickest",
      "the fewest GPUs"]},
    {key: "deadline", label: "Deadline", value: "30d", steps: deadlines, texts: deadlines.map(one => one === "1d" ? "1 day"
      : one.replace("d", " days"))},
    {key: "tokens", label: "Tokens", value: "100B", steps: ["50B", "100B", "200B", "400B"]},
    {key: "price", label: "Price of a GPU-hour", value: "2", steps: ["1", "2", "3", "4"], unit: "USD"},
    {key: "margin", label: "Memory to leave free", value: "5%", steps: ["0%", "5%", "10%", "25%", "50%", "70%"]},
    {key: "recompute", label: "Recomputation", value: "selective", options: ["none", "selective", "full"]},
  ],
  commands: s => ({plan: {words: words(s)}}),
  show({plan: {json}}, s) {
    const rows = json.top.map((row, i) => ({current: i === 0,
      cells: [named(row), seconds(row.iteration_s), days(row.job.days), dollars(row.job.cost), whole(row.gpus),
        gibibytes(row.peak_memory_bytes.device)]}));
    // Of each number of nodes the cheapest, also those that are too late.
    const cost = [...json.pareto].sort((a, b) => a.days - b.days);
    return [
      table({caption: json.limits.met ? "The best layouts" : "No layout meets the limits; the nearest ones",
             columns: ["Layout", "Iteration", "Duration", "Cost", "GPUs", "On the device"], rows}),
      cost.length > 1 ? curves({title: "The trade-off of time and cost (Pareto front)", x: {label: "days"},
        y: {label: "thousand USD"},
                                lines: ["1", "2", "4"].map(tensor => ({name: `tensor ${tensor}`, dots: true,
                                  points: cost.filter(row => String(of(row).tensor) === tensor).map(row => [row.days,
                                    row.cost / 1000])}))
                                  .filter(({points}) => points.length > 0)}) : null,
      note(`${whole(json.layouts).text} layouts, ${whole(json.simulated).text} of them predicted in full` + (json.proven
        ? "; proven: none is better." : ".")),
    ];
  },
  tasks: [
    {id: "budget", ask: `There are 5,700 USD for 100 billion tokens, at 2 USD per GPU-hour. Which of these deadlines is the
     shortest that can be kept?`,
     check(s, {plan: {json}}) {
       const sooner = deadlines[deadlines.indexOf(s.deadline) - 1], budget = 5700;
       return wanted([s.tokens === "100B" && s.price === "2" && s.margin === "5%" && s.recompute === "selective",
         "Set tokens, price, memory and recomputation back to their initial values."],
                     [s.objective === "cost", "Ask for the cheapest."],
                     [json.limits.met && json.top[0].job.cost <= budget, json.top.length > 0 ? `The cheapest in time costs
                       ${dollars(json.top[0].job.cost).text}.` : "Nothing is in time."],
                     [!json.pareto.some(row => row.cost <= budget && row.days <= Number.parseInt(sooner, 10)),
                       "A shorter one can be kept, too."]);
     },
     hints: ["Shorten the deadline and watch the cost of the first row."],
     why: ({plan: {json}}, s) => `${s.deadline.replace("d", " days")}: ${named(json.top[0])} takes
       ${days(json.top[0].job.days).text} and costs ${dollars(json.top[0].job.cost).text}.`},
    {id: "double", ask: "From 4 to 16 nodes, four times the GPUs: what happens to the cost of the training?",
     options: ["about a quarter", "about the same", "up by a tenth to a quarter", "about four times"],
     commands: () => ({plan: asked({deadline: "90d"})}),
     right({plan: {json}}) {
       const [few, many] = [4, 16].map(nodes => Math.min(...json.pareto.filter(row => of(row).nodes === nodes).map(row =>
         row.cost)));
       const ratio = many / few;
       return ratio < .9 ? 0 : ratio < 1.1 ? 1 : ratio < 2 ? 2 : 3;
     },
     hints: ["Costs are GPUs times days. How much longer than a quarter does it take?"],
     why({plan: {json}}) {
       const cheapest = nodes => Math.min(...json.pareto.filter(row => of(row).nodes === nodes).map(row => row.cost));
       return `${dollars(cheapest(4)).text} becomes ${dollars(cheapest(16)).text}: with fewer sequences for each GPU, gradients are
         sent for less work.`;
     }},
    {id: "memory", ask: `Leave enough memory free that the cheapest plan shares each layer among two GPUs, within 30 days, without
     recomputation.`,
     check: (s, {plan: {json}}) => wanted([s.deadline === "30d", `The deadline is ${s.deadline.replace("d", " days")}.`],
                                          [s.recompute === "none", "Choose no recomputation."], [s.objective === "cost",
                                            "Ask for the cheapest."],
                                          [json.limits.met && of(json.top[0]).tensor === 2, `The best is
                                            ${json.top[0] ? named(json.top[0]) : "none"}.`]),
     hints: ["With one GPU to a layer the device is nearly full."],
     why: ({plan: {json}}) => `${named(json.top[0])} takes ${gibibytes(json.top[0].peak_memory_bytes.device).text} and costs
       ${dollars(json.top[0].job.cost).text}: a margin has its price.`},
    {id: "impossible", ask: "Find a deadline that not even 16 nodes keep, with 400 billion tokens.",
     check: (s, {plan: {json}}) => wanted([s.tokens === "400B", `Tokens: ${s.tokens}.`], [!json.limits.met,
       "This is still possible."]),
     hints: ["16 nodes take a bit more than four days."],
     why: "What no layout can do, no search finds. A bound from below tells it after a few predictions."},
    {id: "gpus", ask: `100 billion tokens within 30 days, no recomputation, no memory left free: is the plan with the fewest GPUs
     also the cheapest?`,
     options: ["yes", "no, the cheapest has more GPUs"],
     commands: () => Object.fromEntries(["cost", "gpus"].map(objective => [objective, asked({objective, recompute: "none",
       margin: "0%"})])),
     right: ({cost, gpus}) => cost.json.top[0].gpus === gpus.json.top[0].gpus ? 0 : 1,
     hints: ["Ask for both, one after the other."],
     why: ({cost, gpus}) => `Cheapest: ${named(cost.json.top[0])}, ${dollars(cost.json.top[0].job.cost).text}. Fewest GPUs:
       ${named(gpus.json.top[0])}, ${dollars(gpus.json.top[0].job.cost).text}.
       With more GPUs each holds a smaller share of the optimizer states, and layers need not be shared.`},
  ],
};
