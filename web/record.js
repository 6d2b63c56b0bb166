// The loss curves of web/page/recorded.js, trained by the native program on this machine's CPU: node web/record.js
// A page cannot train. Losses do not hang on the clock, so any machine records the same (web/tests/tasks.test.js trains some anew).
import {spawnSync} from "node:child_process";
import {writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tiny = ["model.hidden=32", "model.heads=2", "model.sequence=16"];

// Words of the command that trains `steps` steps and compares them with one rank, which does the same.
export function words(scenario, sets, steps) {
  return ["measure", `scenarios/measure/${scenario}.yaml`, "--backend", "loopback", "--verify", "--steps", String(steps),
    "--format",
          "json", "--quiet", ...[...tiny, ...sets].flatMap(set => ["--set", set])];
}
export function losses(scenario, sets, steps) {
  const {status, stdout, stderr} = spawnSync(join(root, "build/release/rehearse"), words(scenario, sets, steps), {cwd: root,
    encoding: "utf8"});
  // 1: over many steps the order of sums moves weights by more than --verify allows, which is meant for few.
  if (status > 1) throw new Error(stderr);
  return JSON.parse(stdout).verify.loss;
}

export const block = 6, blocks = 10;  // points of a curve: means over so many steps
// Two workers and two servers, SGD. With a delay all steps are one graph, which says the sum of their losses; a delay of d
// needs at least d + 2 of them.
const served = "gpt-tiny-servers-this-machine";
export const servedSets = (rate, delay, steps) => ["model.layers=2", "training.optimizer=sgd", `training.learning_rate=${rate}`,
                                                   `data_parallel.delay=${delay}`, `simulate.iterations=${steps}`];
function servedCurve(rate, delay) {
  if (delay === "0") {
    const each = losses(served, servedSets(rate, delay, 1), block * blocks);
    return Array.from({length: blocks}, (_, i) => each.slice(i * block, (i + 1) * block).reduce((sum, one) => sum + one) / block);
  }
  const sums = Array.from({length: blocks}, (_, i) => losses(served, servedSets(rate, delay, (i + 1) * block), 1)[0]);
  return sums.map((sum, i) => (sum - (i > 0 ? sums[i - 1] : 0)) / block);
}

// PipeDream, AdamW: an update after each of 16 micro-batches, and the pipeline drains behind them: a point.
export const passes = 16;
const piped = "gpt-tiny-pp2-tp2-dp2-this-machine";
export const pipedSets = ranks => ["model.layers=8", "model.tie_embeddings=false", "batch.global=16", "batch.micro=1",
  "schedule=pipedream",
                                   "training.learning_rate=0.003", `parallelism={pipeline: ${ranks}}`];

const rounded = curve => curve.map(loss => Number(loss.toPrecision(4)));
const table = entries => Object.fromEntries(entries);
export const rates = ["0.25", "0.5", "1"], delays = ["0", "1", "2", "4"], ranks = ["1", "2", "4", "8"];

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const delayed = table(rates.map(rate => [rate, table(delays.map(delay => [delay, rounded(servedCurve(rate, delay))]))]));
  const pipedream = table(ranks.map(count => [count, rounded(losses(piped, pipedSets(count), passes))]));
  const text = value => JSON.stringify(value, null, 1).replace(/\[[^[\]]*\]/g, list => list.replace(/\s+/g, " "));
  writeFileSync(join(root, "web/page/recorded.js"),
    `// Written by web/record.js. Losses of real trainings on a CPU, by this program's own kernels; the last of each kind of command:
//   rehearse ${words(served, servedSets(rates.at(-1), delays.at(-1), block * blocks), 1).map(word => /[{ ]/.test(word) ? `'${word}'` : word).join(" ")}
//   rehearse ${words(piped, pipedSets(ranks.at(-1)), passes).map(word => /[{ ]/.test(word) ? `'${word}'` : word).join(" ")}
// A tiny GPT, the same sequences in every step.

// By learning rate (SGD) and delay: two workers and two servers. Each number is the mean of ${block} steps.
export const block = ${block};
export const delayed = ${text(delayed)};

// By ranks: PipeDream (AdamW, a rate of 0.003), each number the mean of 16 updates.
export const pipedream = ${text(pipedream)};
`);
}
