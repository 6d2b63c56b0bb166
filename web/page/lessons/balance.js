import {note, picture, table} from "../dom.js";
import {wanted} from "../tasks.js";
import {number, percent, whole} from "../units.js";

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

const asked = (s, method, ...more) => ({words: ["balance", file, "--set", `method=${method}`, "--format", "json", ...more],
  files: {[file]: text(s)}});
const usual = {skew: "0.8", gpus: "8", nodes: "2", spare: "1"};

export default {
  id: "balance",
  name: "Expert balance",
  title: "Experts, heavy and light",
  text: `<p>In a mixture of experts every token visits a few experts, and some experts are asked far more often than others. All GPUs
    wait for the one with the most tokens, so the heaviest over the mean is how much longer the layer takes. A busy expert may stand
    on several GPUs at once; where to put the copies is a puzzle. DeepSeek's EPLB solves it greedily; the search of this program is
    never worse, and has a lower bound for every placement.</p>`,
  controls: [
    {key: "skew", label: "Skew of the loads", value: 0.8, min: 0, max: 2, step: 0.1},
    {key: "gpus", label: "GPUs", value: "8", steps: ["4", "8", "16"]},
    {key: "nodes", label: "Nodes", value: "2", steps: ["1", "2", "4"]},
    {key: "spare", label: "Spare slots per GPU", value: 1, min: 0, max: 4, step: 1},
  ],
  commands(s) {
    const one = method => ({...asked(s, method, "--svg", `${method}.svg`), made: [`${method}.svg`]});
    return {best: one("best"), eplb: one("eplb")};
  },
  show({best, eplb}) {
    const rows = best.json.max_over_mean.map((after, layer) => ({
      cells: [`Layer ${layer}`, number(eplb.json.max_over_mean[layer], 4), number(after, 4), number(best.json.lower_bound[layer],
        4)]}));
    return [
      picture(best.made["best.svg"], "Loads of the GPUs with the best placement found"),
      picture(eplb.made["eplb.svg"], "Loads of the GPUs as EPLB places the experts"),
      table({caption: "Load of the heaviest GPU over the mean", columns: ["", "EPLB", "Best found", "Lower bound"],
        rows}),
      note(`${experts} experts in each of four layers, ${whole(best.json.phy2log[0].length).text} copies in all.`),
    ];
  },
  tasks: [
    {id: "even", ask: `A skew of 1.2 on eight GPUs: let no GPU of any layer carry more than 1.05 times the mean, with the best
     placement.`,
     check: (s, {best}) => wanted([s.skew === "1.2", `The skew is ${s.skew}.`], [s.gpus === "8", `There are ${s.gpus} GPUs.`],
                                  [Math.max(...best.json.max_over_mean) <= 1.05, `The heaviest carries
                                    ${number(Math.max(...best.json.max_over_mean)).text} times the mean.`]),
     hints: ["Look at the bound: more slots do not move it.", "Groups of experts stay within a node. How many nodes are there?"],
     why: ({best}) => `${number(Math.max(...best.json.max_over_mean), 4).text}: in one node every copy may go to every GPU. With
       two, a heavy group keeps its node busy.`},
    {id: "greedy", ask: "EPLB is greedy. Find loads for which it is 20 % above the best placement in some layer.",
     check: (s, {best, eplb}) => {
       const most = Math.max(...best.json.max_over_mean.map((one, layer) => eplb.json.max_over_mean[layer] / one - 1));
       return wanted([most >= .2, `Here it is ${percent(most).text} above, at most.`]);
     },
     hints: ["Even loads are easy for everybody."],
     why: "It copies what is heaviest and packs what is left, and never goes back. Few slots and steep loads punish that."},
    {id: "alone", ask: "A skew of 1.2, eight GPUs in two nodes, no spare slot. Nothing is better than three times the mean. Why?",
     options: ["a search would need more time", "one expert alone has more than that share", "the nodes are too small"],
     commands: () => ({best: asked({...usual, skew: "1.2", spare: "0"}, "best")}),
     right({best: {json}}) {
       const share = Math.max(...loads(1.2, 0)) / loads(1.2, 0).reduce((sum, one) => sum + one) * 8;
       return json.max_over_mean[0] > json.lower_bound[0] + 1e-6 ? 0 : share > .85 * json.max_over_mean[0] ? 1 : 2;
     },
     hints: ["How much of all tokens does the busiest expert get, and how much is an eighth?"],
     why: () => `The busiest expert gets
       ${percent(Math.max(...loads(1.2, 0)) / loads(1.2, 0).reduce((sum, one) => sum + one)).text} of all tokens, and an eighth is
       12.5 %. Only a copy divides it.`},
    {id: "more", ask: "From 8 to 16 GPUs in two nodes, one spare slot each, a skew of 0.8. With EPLB, the heaviest over the mean …",
     options: ["falls", "hardly changes", "rises"], commands: () => ({few: asked(usual, "eplb"), many: asked({...usual,
       gpus: "16"}, "eplb")}),
     right({few, many}) {
       const [a, b] = [few, many].map(({json}) => json.max_over_mean.reduce((sum, one) => sum + one) / json.max_over_mean.length);
       return b < .98 * a ? 0 : b > 1.02 * a ? 2 : 1;
     },
     hints: ["What is a fair share of a GPU, and how does an expert compare with it?"],
     why: ({few, many}) => `From ${number(Math.max(...few.json.max_over_mean), 4).text} to
       ${number(Math.max(...many.json.max_over_mean), 4).text} in the worst layer: shares get smaller, and experts do not.`},
  ],
};
