// The budget of the page, measured in this browser on this machine, beside the native program in the same run.
import assert from "node:assert/strict";
import {spawnSync} from "node:child_process";
import {readFileSync, readdirSync} from "node:fs";
import {join} from "node:path";
import {after, before, test} from "node:test";
import {brotliCompressSync, gzipSync} from "node:zlib";

import {answered, openBrowser, root} from "./browser.js";

let chromium;
before(async () => { chromium = await openBrowser(); });
after(() => chromium.close());

const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];
const big = "#lesson=schedules&p=16&m=63";  // one step of the slider below 64

test("at most 3 MB travel", t => {
  const page = join(root, "build/web/page");
  const files = readdirSync(page, {recursive: true}).filter(name => /\.(html|js|css|wasm)$/.test(name)).map(name => readFileSync(join(page, name)));
  const sum = pack => files.reduce((bytes, file) => bytes + pack(file).length, 0);
  const gzip = sum(gzipSync), brotli = sum(file => brotliCompressSync(file)), one = readFileSync(join(root, "build/web/rehearsal.html")).length;
  t.diagnostic(`gzip ${gzip} bytes, brotli ${brotli}, one file ${one}`);
  assert.ok(gzip <= 3e6 && one <= 3e6);
});

for (const from of ["served", "file"])
  test(`first picture within 1.5 s (${from})`, async t => {
    const times = [];
    for (let i = 0; i < 5; i++) {
      const page = await chromium.open("", {from});
      await answered(page, "schedules");
      times.push(await page.evaluate(() => performance.now()));
      await page.close();
    }
    t.diagnostic(`${from}: ${times.map(ms => ms.toFixed(0)).join(" ")} ms`);
    assert.ok(median(times) <= 1500, `${median(times)} ms`);
  });

test("from slider to picture within 50 ms for 16 ranks and 64 micro-batches, and the ratio to the native program", async t => {
  const page = await chromium.open(big);
  await answered(page, "schedules");
  // One schedule is drawn: both sides the same.
  await page.select("[name=right]", "1f1b");
  await answered(page, "schedules");
  const times = [], core = [];
  for (let i = 0; i < 31; i++) {
    await page.focus("[name=m]");
    await page.keyboard.press(i % 2 ? "ArrowLeft" : "ArrowRight");
    await answered(page, "schedules");
    times.push(Number(await page.$eval(".results", one => one.dataset.ms)));
  }
  const commands = await page.$eval(".results", one => JSON.parse(one.dataset.commands));
  const worker = await page.evaluate(async all => {
    const {Core} = await import("./core.js");
    const core = new Core(), times = [];
    for (let i = 0; i < 31; i++) times.push((await core.ask([all[0]]))[0].ms);
    return times;
  }, commands);
  core.push(...worker.slice(5));
  // The native program: the process, less a process that does nothing.
  const native = words => {
    const run = () => {
      const begin = process.hrtime.bigint();
      spawnSync(join(root, "build/release/rehearse"), words, {cwd: "/tmp"});
      return Number(process.hrtime.bigint() - begin) / 1e6;
    };
    return median(Array.from({length: 31}, run));
  };
  const whole = native(commands[0].words.map(word => word === "left.svg" ? "/tmp/rehearsal-speed.svg" : word)), idle = native(["--version"]);
  t.diagnostic(`slider to picture ${median(times).toFixed(1)} ms (least ${Math.min(...times)}); the program in the page ` +
               `${median(core).toFixed(2)} ms, native ${(whole - idle).toFixed(2)} ms (${whole.toFixed(1)} with its start), ` +
               `ratio ${(median(core) / (whole - idle)).toFixed(1)}`);
  assert.ok(median(times) <= 50, `${median(times)} ms`);
  await page.close();
});
