// The budget of the page, measured in this browser on this machine, beside the native program in the same run: what travels
// (at most 3 MB, held by tests/page.test.js), the first picture (1 s), and from a slider to its picture for 16 ranks and 64
// micro-batches (50 ms). `tools/web speed` prints it. Where others have the cores, what passes on the clock says little.
import {execFileSync} from "node:child_process";
import {cpus, loadavg} from "node:os";
import {join} from "node:path";

import {answered, openBrowser, root} from "./tests/browser.js";

const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];
function say(what, times, most) {
  console.log(`${what}: median ${median(times).toFixed(1)} ms, least ${Math.min(...times).toFixed(1)}; wanted: ${most} ms or less`);
}

async function firstPicture(chromium, from) {
  const times = [];
  for (let i = 0; i < 7; i++) {
    const page = await chromium.open("", {from});
    await answered(page, "schedules");
    times.push(await page.evaluate(() => performance.now()));
    await page.close();
  }
  say(`first picture, ${from}`, times, 1000);
}

// Processor time in ms of `count` runs of a native command line, each a process.
function nativeTime(words, count) {
  const script = `TIMEFORMAT='%U %S'; time for i in $(seq ${count}); do "$@" >/dev/null; done`;
  const said = execFileSync("bash", ["-c", `{ ${script}; } 2>&1`, "bash", join(root, "build/release/rehearse"), ...words], {cwd: "/tmp", encoding: "utf8"});
  const [user, system] = said.trim().split(/\s+/).map(Number);
  return 1000 * (user + system);
}

async function slider(chromium) {
  const page = await chromium.open("#lesson=schedules&p=16&m=63&right=1f1b");  // one picture; 63 and 64 in turn
  await answered(page, "schedules");
  const browser = await page.browser().target().createCDPSession();
  // Of the page's process: its own thread, that of the program, and those that paint without a GPU.
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
  const single = [];  // painted, and at rest, before the next
  for (let i = 0; i < moves; i++) {
    await new Promise(resolve => setTimeout(resolve, 200));
    single.push(await move(i));
  }
  const [{words}] = await page.$eval(".results", one => JSON.parse(one.dataset.commands));
  const inside = await page.evaluate(async command => {
    const {Core} = await import("./core.js");
    const core = new Core(), times = [];
    for (let i = 0; i < 60; i++) times.push((await core.ask([command]))[0].ms);
    return times.slice(20);
  }, {words, made: ["left.svg"]});
  const native = (nativeTime(words.map(word => word === "left.svg" ? "/tmp/rehearsal-speed.svg" : word), 40) - nativeTime(["--version"], 40)) / 40;
  say("slider to picture", single, 50);
  say("slider to picture, while the one before is painted", times, 50);
  console.log(`  processor time, with painting: ${each.toFixed(1)} ms`);
  console.log(`  the command in the page: least ${Math.min(...inside).toFixed(1)} ms (median ${median(inside).toFixed(1)}), native ` +
              `${native.toFixed(1)} ms: ${(Math.min(...inside) / native).toFixed(1)} times`);
  await page.close();
}

console.log(`load ${loadavg()[0].toFixed(1)} on ${cpus().length} cores`);
const chromium = await openBrowser();
try {
  for (const from of ["served", "file"]) await firstPicture(chromium, from);
  await slider(chromium);
} finally {
  await chromium.close();
}
