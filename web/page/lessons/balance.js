import {note, picture, table} from "../dom.js";
import {number, whole} from "../units.js";

const experts = 16;
const file = "experts.yaml";

// The n-th busiest expert gets 1/n^A of the tokens of the busiest; which is the busiest differs by layer.
function loads(skew, layer) {
  const order = Array.from({length: experts}, (_, n) => (n * 7 + layer * 5) % experts);
  return order.map(rank => Math.max(1, Math.round(200 / (rank + 1) ** skew)));
}

const text = s => `name: ${experts} experts on ${s.gpus} GPUs
weights:
${[0, 1, 2, 3].map(layer => `  - [${loads(Number(s.skew), layer).join(", ")}]`).join("\n")}
replicas: ${(Math.ceil(experts / s.gpus) + Number(s.spare)) * s.gpus}
groups: 4
nodes: ${s.nodes}
gpus: ${s.gpus}
`;

export default {
  id: "balance",
  name: "Expert balance",
  title: "Experts, heavy and light",
  text: `<p>In a mixture of experts every token visits a few experts, and some experts are asked far more often than others. All GPUs
    wait for the one with the most tokens, so the heaviest over the mean is how much longer the layer takes. A busy expert may stand
    on several GPUs at once; where to put the copies is a puzzle. DeepSeek's EPLB solves it greedily, the search of this program is
    never worse and knows a bound below which nothing can be.</p>`,
  controls: [
    {key: "skew", label: "Skew of the loads", value: 0.8, min: 0, max: 2, step: 0.1},
    {key: "gpus", label: "GPUs", value: "8", steps: ["4", "8", "16"]},
    {key: "nodes", label: "Nodes", value: "2", steps: ["1", "2", "4"]},
    {key: "spare", label: "Slots of a GPU for more copies", value: 1, min: 0, max: 4, step: 1},
  ],
  commands(s) {
    const one = method => ({words: ["balance", file, "--set", `method=${method}`, "--format", "json", "--svg", `${method}.svg`],
                            made: [`${method}.svg`], files: {[file]: text(s)}});
    return {best: one("best"), eplb: one("eplb")};
  },
  show({best, eplb}) {
    const rows = best.json.max_over_mean.map((after, layer) => ({
      cells: [`Layer ${layer}`, number(eplb.json.max_over_mean[layer], 4), number(after, 4), number(best.json.lower_bound[layer], 4)]}));
    return [
      picture(best.made["best.svg"], "Loads of the GPUs with the best placement found"),
      picture(eplb.made["eplb.svg"], "Loads of the GPUs as EPLB places the experts"),
      table({caption: "Load of the heaviest GPU over the mean", columns: ["", "EPLB", "Best found", "No placement is below"], rows}),
      note(`${experts} experts in each of four layers, ${whole(best.json.phy2log[0].length).text} copies in all.`),
    ];
  },
};
