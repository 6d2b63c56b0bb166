// The tasks of the lessons: none is solved as a lesson opens, each can be solved (tests/solutions.js), hints and choices work by
// keys, the score stays, and what was recorded is what the native program trains.
import assert from "node:assert/strict";
import {spawnSync} from "node:child_process";
import {after, before, describe, test} from "node:test";

import {losses, passes, pipedSets, servedSets} from "../record.js";
import {answered, openBrowser, root} from "./browser.js";
import {solutions} from "./solutions.js";

let chromium;
before(async () => { chromium = await openBrowser(); });
after(() => chromium.close());

// As somebody sees it who was never here.
async function fresh(hash, options) {
  const page = await chromium.open(hash, options);
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await answered(page, new URLSearchParams(hash.slice(1)).get("lesson"));
  return page;
}
const state = page => page.$eval(".tasks .state", one => one.textContent);
async function select(page, id) {
  await page.focus(`.numbers [data-task="${id}"]`);
  await page.keyboard.press("Enter");
}
const solved = page => page.waitForSelector(".tasks .state.solved");
async function choose(page, text) {
  const index = await page.$$eval(".options button", (all, wanted) => all.findIndex(one => one.textContent === wanted), text);
  assert.ok(index >= 0, `no option '${text}'`);
  await page.focus(`.options li:nth-child(${index + 1}) button`);
  await page.keyboard.press("Enter");
}

for (const [lesson, tasks] of Object.entries(solutions))
  describe(lesson, () => {
    test("no task is solved as it opens", async () => {
      const page = await fresh(`#lesson=${lesson}`);
      const ids = await page.$$eval(".numbers button", all => all.map(one => one.dataset.task));
      assert.deepEqual(ids, Object.keys(tasks), "tests/solutions.js has every task in its order");
      assert.ok(ids.length >= 3 && ids.length <= 5);
      for (const id of ids) {
        await select(page, id);
        assert.equal(await page.$(".state.solved"), null, `${id} is solved already`);
        assert.ok((await page.$$(".options button")).length > 1 || /^Not yet\. ./.test(await state(page)),
          `${id} says what is missing`);
        assert.match(await page.$eval(".tasks", one => one.lastElementChild.textContent), /Hint/);
      }
      assert.match(await page.$eval("#solved", one => one.textContent), /^0 of \d+ tasks solved$/);
      assert.deepEqual(page.mistakes, []);
      await page.close();
    });

    for (const [id, solution] of Object.entries(tasks))
      test(`${id} can be solved`, async () => {
        const page = await fresh(typeof solution === "string" ? `#lesson=${lesson}`
          : `#${new URLSearchParams({lesson, ...solution})}`);
        // What is shown first may be solved by the same settings.
        if (await page.$eval(".numbers [aria-current]", one => one.dataset.task) !== id) await select(page, id);
        if (typeof solution === "string") {
          const other = await page.$$eval(".options button", (all, right) => all.map(one => one.textContent).find(text =>
            text !== right), solution);
          await choose(page, other);
          await page.waitForFunction(() => document.querySelector(".tasks .state").textContent === "Not that one.");
          await choose(page, solution);
        }
        await solved(page);
        const said = await state(page);
        assert.match(said, /^Solved\. .{20}/s);
        assert.doesNotMatch(said, /undefined|NaN|null|Infinity/);
        assert.equal(await page.$(".complaint"), null);
        assert.deepEqual(page.mistakes, []);
        await page.close();
      });
  });

test("hints, choices and the score by keys alone; the score survives a reload, and can be reset", async () => {
  const page = await fresh("#lesson=ring");
  await select(page, "halves");
  // From the task's number on, with Tab alone.
  const at = () => page.evaluate(() => document.activeElement.textContent);
  for (let i = 0; await at() !== "Hint"; i++) {
    assert.ok(i < 20, "the hint is not reached");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  assert.equal((await page.$$(".hint")).length, 1);
  await page.reload();
  await answered(page, "ring");
  await select(page, "halves");
  assert.equal((await page.$$(".hint")).length, 1, "a hint that was shown is shown again");
  await choose(page, "both the same");
  await solved(page);
  assert.equal(await at(), "Next task", "the next step has the focus");
  const score = () => page.$eval("#solved", one => one.textContent);
  assert.match(await score(), /^1 of \d+ tasks solved, 0 at the first go$/);
  await select(page, "node");
  await choose(page, "about twice as long");
  await solved(page);
  assert.match(await score(), /^2 of \d+ tasks solved, 1 at the first go$/);
  await page.reload();
  await answered(page, "ring");
  assert.match(await score(), /^2 of \d+ tasks solved, 1 at the first go$/);
  assert.equal(await page.$eval("nav a[data-id=ring]", one => one.textContent), "All-reduce2/4, 2 of 4 tasks solved");
  await select(page, "halves");
  assert.match(await state(page), /^Solved\./);
  page.on("dialog", dialog => dialog.accept());
  await page.focus("#reset");
  await page.keyboard.press("Enter");
  await answered(page, "ring");
  assert.match(await score(), /^0 of \d+ tasks solved$/);
  assert.equal(await page.$(".state.solved"), null);
  assert.deepEqual(page.mistakes, []);
  await page.close();
});

test("moving a setting by keys solves a task, and says so to who cannot see it", async () => {
  const page = await fresh("#lesson=ring");
  assert.equal(await page.$eval(".tasks .state", one => one.getAttribute("role")), "status");
  await page.focus("[name=ranks]");
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
  await solved(page);
  assert.equal(await page.evaluate(() => document.activeElement.name), "ranks", "whoever moves a slider goes on moving it");
  await page.close();
});

test("tasks work where a page is refused storage", async () => {
  const page = await fresh("#lesson=ring");
  await page.evaluateOnNewDocument(() => Object.defineProperty(window, "localStorage", {get() { throw new Error("refused"); }}));
  await page.reload();
  await answered(page, "ring");
  await select(page, "halves");
  await choose(page, "both the same");
  await solved(page);
  assert.match(await page.$eval("#solved", one => one.textContent), /^1 of/);
  assert.deepEqual(page.mistakes, []);
  await page.close();
});

test("what was recorded is what the native program trains", async () => {
  const page = await chromium.open();
  const {delayed, pipedream, block} = await page.evaluate(() => import("./recorded.js").then(({...all}) => all));
  const near = (loss, recorded) => assert.ok(Math.abs(loss - recorded) < 2e-3 * recorded, `${loss} and ${recorded}`);
  const late = losses("gpt-tiny-servers-this-machine", servedSets("0.5", "2", block), 1)[0];
  near(late / block, delayed["0.5"]["2"][0]);
  near(losses("gpt-tiny-pp2-tp2-dp2-this-machine", pipedSets("4"), passes)[1], pipedream["4"][1]);
  // With the delay that they say: the program predicts it, too.
  const {stdout} = spawnSync("build/release/rehearse", ["schedule", "pipedream", "--pipeline", "4", "--microbatches", "16",
    "--forward", "1ms",
                                                        "--backward", "1ms", "--weight", "1ms", "--format", "json"], {cwd: root,
                                                          encoding: "utf8"});
  assert.deepEqual(JSON.parse(stdout).staleness, [3, 2, 1, 0]);
  await page.close();
});
