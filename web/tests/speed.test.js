// The budget of the page, measured in this browser on this machine, beside the native program in the same run. Where
// others have the cores, what passes on the clock says nothing of the page: it is shown and not judged, and processor time is.
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {readFileSync, readdirSync} from "node:fs";
import {cpus, loadavg} from "node:os";
import {join} from "node:path";
import {after, before, test} from "node:test";
import {brotliCompressSync, gzipSync} from "node:zlib";

import {answered, openBrowser, root} from "./browser.js";

let chromium;
before(async () => { chromium = await openBrowser(); });
after(() => chromium.close());

const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];
const busy = () => loadavg()[0] > cpus().length;

// On the clock: judged where the machine is ours.
function judge(t, what, times, most) {
  t.diagnostic(`${what}: median ${median(times).toFixed(1)} ms, least ${Math.min(...times).toFixed(1)}, load ${loadavg()[0].toFixed(1)}`);
  if (busy()) t.skip("the machine is busy");
  else assert.ok(median(times) <= most, `${what}: ${median(times)} ms, at most ${most}`);
}

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
    for (let i = 0; i < 7; i++) {
      const page = await chromium.open("", {from});
      await answered(page, "schedules");
      times.push(await page.evaluate(() => performance.now()));
      await page.close();
    }
    judge(t, `first picture, ${from}`, times, 1500);
  });

// Processor time in ms of `count` runs of a native command line, each a process.
function nativeTime(words, count) {
  const script = `TIMEFORMAT='%U %S'; time for i in $(seq ${count}); do "$@" >/dev/null; done`;
  const said = execFileSync("bash", ["-c", `{ ${script}; } 2>&1`, "bash", join(root, "build/release/rehearse"), ...words], {cwd: "/tmp", encoding: "utf8"});
  const [user, system] = said.trim().split(/\s+/).map(Number);
  return 1000 * (user + system);
}

test("from slider to picture within 50 ms for 16 ranks and 64 micro-batches, and the ratio to the native program", async t => {
  const page = await chromium.open("#lesson=schedules&p=16&m=63&right=1f1b");  // one picture; 63 and 64 in turn
  await answered(page, "schedules");
  const browser = await page.browser().target().createCDPSession();
  // Of the page's process: its own thread and that of the program.
  const used = async () => {
    const {processInfo} = await browser.send("SystemInfo.getProcessInfo");
    return 1000 * Math.max(...processInfo.filter(({type}) => type === "renderer").map(({cpuTime}) => cpuTime));
  };
  const move = async i => {
    await page.keyboard.press(i % 2 ? "ArrowLeft" : "ArrowRight");
    await answered(page, "schedules");
    return Number(await page.$eval(".results", one => one.dataset.ms));
  };
  await page.focus("[name=m]");
  for (let i = 0; i < 20; i++) await move(i);  // browsers compile what is used again
  const before = await used(), times = [], moves = 40;
  for (let i = 0; i < moves; i++) times.push(await move(i));
  const each = (await used() - before) / moves;
  const [{words}] = await page.$eval(".results", one => JSON.parse(one.dataset.commands));
  const inside = await page.evaluate(async command => {
    const {Core} = await import("./core.js");
    const core = new Core(), times = [];
    for (let i = 0; i < 60; i++) times.push((await core.ask([command]))[0].ms);
    return times.slice(20);
  }, {words, made: ["left.svg"]});
  const native = (nativeTime(words.map(word => word === "left.svg" ? "/tmp/rehearsal-speed.svg" : word), 40) - nativeTime(["--version"], 40)) / 40;
  t.diagnostic(`processor time from slider to picture ${each.toFixed(1)} ms; of the command in the page least ` +
               `${Math.min(...inside).toFixed(1)} ms (median ${median(inside).toFixed(1)}), native ${native.toFixed(1)} ms: ` +
               `${(Math.min(...inside) / native).toFixed(1)} times`);
  assert.ok(each <= 50, `${each} ms of processor time`);
  judge(t, "slider to picture", times, 50);
  await page.close();
});
