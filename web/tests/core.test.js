// The program in the page and the native program are one: the same bytes for the same words, digests included.
import assert from "node:assert/strict";
import {readdirSync, readFileSync} from "node:fs";
import {join} from "node:path";
import {after, before, test} from "node:test";

import {native, openBrowser, root} from "./browser.js";

let chromium, page;
before(async () => {
  chromium = await openBrowser();
  page = await chromium.open();
  await page.evaluate(async () => {
    const {Core} = await import("./core.js");
    window.core = new Core();
  });
});
after(() => chromium.close());

const ask = command => page.evaluate(async one => (await window.core.ask([one]))[0], command);

const yamls = (folder, found = []) => {
  for (const entry of readdirSync(join(root, folder), {withFileTypes: true}))
    if (entry.isDirectory()) yamls(`${folder}/${entry.name}`, found);
    else if (entry.name.endsWith(".yaml")) found.push(`${folder}/${entry.name}`);
  return found;
};
const scenarios = yamls("scenarios").filter(path => !/\/(reshard|balance|jobs)\//.test(path)).sort();
const gpt3 = "scenarios/gpt3-175b-1024xa100.yaml", llama = "scenarios/llama3-8b-dgx-h100.yaml";
const variants = [
  ...["gpipe", "zb-h1", "zb-v", "dualpipe", "v-half", "{name: interleaved-1f1b}"].map(name =>
    [gpt3, `schedule=${name}`, ...(/zb-v|v-half|inter/.test(name) ? ["parallelism.chunks=2"] : [])]),
  [gpt3, "batch.micro=2"], [gpt3, "training.recompute=full"], [gpt3, "simulate.detail=operator"], [gpt3, "simulate.contention=off"],
  [llama, "parallelism.zero=3"], [llama, "batch.sequence=32768"], [llama, "training.precision=fp8"],
  ["scenarios/gpt-7.5b-zero-64xv100.yaml", "parallelism.zero=2"], ["scenarios/gpt-10b-offload-1xv100.yaml", "batch.global=32"],
  ["scenarios/teaching-1f1b-8-stages.yaml", "costs.forward=7ms"],
];

test(`${scenarios.length} scenarios and ${variants.length} variants: digest, iteration and every other byte`, async () => {
  assert.ok(scenarios.length + variants.length >= 50, "as many as that");
  const differ = [];
  for (const [path, ...sets] of [...scenarios.map(path => [path]), ...variants]) {
    const words = ["run", path, ...sets.flatMap(set => ["--set", set]), "--format", "json"];
    const [here, there] = await Promise.all([ask({words}), native({words})]);
    if (here.out !== there.out || here.err !== there.err || here.status !== there.status) {
      differ.push(`${words.join(" ")}: ${here.status} ${here.err} / ${there.status} ${there.err}`);
    } else if (here.status === 0) {
      const {scenario, iteration_s: iteration} = JSON.parse(here.out);
      assert.match(scenario.digest, /^[0-9a-f]{64}$/);
      assert.ok(iteration > 0);
    }
  }
  assert.deepEqual(differ, []);
});

const others = [
  ...["gpipe", "1f1b", "zb-h2", "zb-auto", "zb-v", "dualpipe", "hanayo", "chimera"].map(name =>
    ["schedule", name, "--pipeline", "8", "--microbatches", "16", "--forward", "5ms", "--backward", "7ms", "--weight", "3ms",
     "--transfer", "100us", "--format", "json"]),
  ["schedule", "zb-h1", "--pipeline", "4", "--microbatches", "6", "--forward", "5ms", "--backward", "5ms", "--weight", "5ms"],
  ...yamls("scenarios/reshard").flatMap(path => ["greedy", "best"].map(planner =>
    ["reshard", path, "--set", `planner=${planner}`, "--format", "json"])),
  ["balance", "scenarios/balance/eplb-readme.yaml"], ["collective", "all-to-all", "--ranks", "64", "--per-node", "4"],
  ["groups", "scenarios/deepseek-v3-2048xh800.yaml"], ["compare", llama, "--vary", "batch.micro=1,2,4,7"],
  ["explain", "scenarios/teaching-1f1b-8-stages.yaml"], ["run", "scenarios/jobs/two-across-leaves.yaml"],
  ["check", "scenarios/gpt3-175b-1024xa100.yaml"], ["list", "models"],
  ["list", "schedules", "zb-v"], ["run", llama, "--set", "batch.mirco=2"],
  ["run", "nowhere.yaml"], ["run"], ["--help"].slice(1).concat("run", "--help"), ["schedule", "zb-h9"],
];
test(`${others.length} other command lines`, async () => {
  for (const words of others) {
    const [here, there] = await Promise.all([ask({words}), native({words})]);
    assert.deepEqual({out: here.out, err: here.err, status: here.status}, {out: there.out, err: there.err, status: there.status},
                     words.join(" "));
  }
});

test("answers are described as natively, but for those of traces, which a page cannot read", async () => {
  const words = ["check", "--schema", "answers"];
  const [here, there] = (await Promise.all([ask({words}), native({words})])).map(answer => JSON.parse(answer.out));
  delete there.$defs["validate --trace"];
  assert.deepEqual(here, there);
});

// Sample files of the tests of `import`: JSON, TOML, YAML, a log, XML, text.
const foreign = (...paths) => Object.fromEntries(paths.map(path =>
  [path.split("/").pop(), readFileSync(join(root, "tests/interchange", path), "utf8")]));
const imports = [
  [foreign("hf-config/meta-llama--Meta-Llama-3.1-8B_config.json"), "--world", "8", "--cluster", "dgx-h100", "--set",
   "batch.sequence=8192", "--set", "batch.global=64", "--set", "batch.micro=1"],
  [foreign("torchtitan/llama3_8b.toml"), "--world", "8", "--cluster", "dgx-h100"],
  [foreign("megatron-forms/run_config.yaml"), "--cluster", "dgx-h100"],
  [foreign("megatron-forms/llama3-8b.log"), "--cluster", "dgx-h100"],
  [foreign("nccl-topology/azure_ndv5-topo.xml"), "--cluster", "dgx-h100"], [foreign("nccl-tests/all_reduce_2x8.txt")],
  [{"broken.toml": "[{a]\n"}], [{"broken.xml": "<system version=\"1\"><cpu></system>"}],
];
test("files of other tools come in and go out as natively", async () => {
  let scenarios = 0;
  const same = async command => {
    const [here, there] = await Promise.all([ask(command), native(command)]);
    const {ms, ...answer} = here;
    assert.deepEqual(answer, there, command.words.join(" "));
    return answer;
  };
  for (const [files, ...more] of imports)
    for (const format of [[], ["--format", "json"]])
      if ((await same({words: ["import", ...Object.keys(files), ...more, ...format], files})).status === 0) ++scenarios;
  await same({words: ["import", "--world", "64", "--cluster", "dgx-h100", "--", "--num-layers", "32", "--hidden-size", "4096",
                      "--num-attention-heads", "32", "--swiglu", "--seq-length", "4096", "--bf16"]});
  assert.ok(scenarios >= 10, `${scenarios} of the samples are read`);
  for (const as of ["megatron", "torchtitan"])
    assert.equal((await same({words: ["export", llama, "--as", as]})).status, 0);
  const made = ["graph.json", "graph.0.et", "graph.1.et"];
  const {made: graph} = await same({words: ["export", "scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml", "--as", "chakra",
                                            "--output", "graph"], made});
  assert.ok(made.every(path => graph[path]?.length > 0));
});

test("a trace, compressed or not, and what is left of files afterwards", async () => {
  const command = {words: ["run", llama, "--trace", "trace.json", "--quiet"], made: ["trace.json"]};
  const [here, there] = await Promise.all([ask(command), native(command)]);
  assert.equal(here.made["trace.json"], there.made["trace.json"]);
  const edited = await ask({words: ["check", llama], files: {[llama]: "version: 2\n"}});
  assert.equal(edited.status, 2);
  assert.equal((await ask({words: ["check", llama]})).status, 0);  // the shipped file is back
});
