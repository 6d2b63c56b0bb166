// What is around the lessons: starting, links, the theme, the editor.
import assert from "node:assert/strict";
import {readFileSync, readdirSync} from "node:fs";
import {join} from "node:path";
import {after, before, describe, test} from "node:test";
import {brotliCompressSync, gzipSync} from "node:zlib";

import {answered, native, openBrowser, root} from "./browser.js";

let chromium;
before(async () => { chromium = await openBrowser(); });
after(() => chromium.close());

const text = (page, selector) => page.$eval(selector, one => one.textContent);

for (const from of ["served", "file"])
  describe(`the page, ${from === "file" ? "one file opened from a disk" : "served"}`, () => {
    test("starts with the first lesson, and the first picture is there soon", async () => {
      const page = await chromium.open("", {from});
      await answered(page, "schedules");
      assert.match(await text(page, "title"), /Pipeline schedules/);
      assert.ok(await page.$(".picture svg"));
      assert.deepEqual(page.mistakes, []);
      await page.close();
    });

    test("runs a scenario in the editor", async () => {
      const page = await chromium.open("#lesson=editor&file=scenarios/teaching-zb-h1-8-stages.yaml", {from});
      await answered(page, "editor");
      const {out} = await native({words: ["run", "scenarios/teaching-zb-h1-8-stages.yaml"]});
      assert.equal(await text(page, ".report"), out);
      assert.deepEqual(page.mistakes, []);
      await page.close();
    });
  });

describe("links", () => {
  test("hold a lesson and its settings", async () => {
    const page = await chromium.open("#lesson=schedules&left=gpipe&p=8&m=16&f=3");
    await answered(page, "schedules");
    assert.equal(await page.$eval("[name=p]", one => one.value), "8");
    assert.equal(await page.$eval("[name=left]", one => one.value), "gpipe");
    assert.match(await text(page, ".picture svg title"), /gpipe.*8 ranks, 16/);
    await page.close();
  });

  for (const [hash, said] of [["#lesson=zer", /no lesson 'zer'.*schedules/], ["#rubbish", /no lesson/],
                              ["#lesson=zero&n=63", /'n' \(gpus\) must be one of 16, 32/],
                              ["#lesson=schedules&p=99", /'p' \(pipeline ranks\) must be a number from 2 to 16/],
                              ["#lesson=schedules&q=1", /has no setting 'q'/],
                              ["#lesson=editor&file=scenarios/none.yaml", /no file 'scenarios\/none.yaml'/],
                              ["#lesson=editor&text=%%%", /damaged/]])
    test(`say what is wrong with ${hash}, and a lesson is shown all the same`, async () => {
      const page = await chromium.open(hash);
      await page.waitForSelector("#message:not([hidden])");
      assert.match(await text(page, "#message"), said);
      await page.waitForSelector(".results > *");
      assert.deepEqual(page.mistakes, []);
      await page.close();
    });

  test("hold an edited scenario", async () => {
    const page = await chromium.open("#lesson=editor&command=run");
    await answered(page, "editor");
    await page.$eval("#text", area => { area.value = area.value.replace("global: 64", "global: 32"); });
    await page.click("#share");
    await page.waitForFunction(() => location.hash.includes("text="));
    const other = await chromium.open(new URL(page.url()).hash);
    await answered(other, "editor");
    assert.match(await other.$eval("#text", area => area.value), /global: 32/);
    await page.close();
    await other.close();
  });

  test("follow the back button", async () => {
    const page = await chromium.open("#lesson=zero");
    await answered(page, "zero");
    await page.click('nav a[data-id="ring"]');
    await answered(page, "ring");
    await page.goBack();
    await answered(page, "zero");
    await page.close();
  });
});

describe("the editor", () => {
  test("shows the very errors of the program, which lead to their line", async () => {
    const file = "scenarios/llama3-8b-dgx-h100.yaml";
    const page = await chromium.open(`#lesson=editor&file=${file}`);
    await answered(page, "editor");
    const edited = await page.$eval("#text", area => {
      area.value = area.value.replace("micro: 1", "mirco: 1").replace("zero: 1", "zero: 7");
      return area.value;
    });
    await page.focus("#text");
    await page.keyboard.down("Control");
    await page.keyboard.press("Enter");
    await page.keyboard.up("Control");
    await page.waitForSelector(".complaint");
    const {status, err} = await native({words: ["run", file], files: {[file]: edited}});
    assert.equal(status, 2);
    assert.equal(await page.$$eval(".complaint pre", all => all.map(one => one.textContent + "\n").join("")), err);
    assert.match(err, /did you mean 'micro'/);
    const [, line, column] = err.match(/:(\d+):(\d+): .*mirco/);
    const index = err.trim().split("\n").findIndex(one => one.includes("mirco"));
    await (await page.$$(".complaint .place"))[index].click();
    const at = await page.$eval("#text", area => area.value.slice(0, area.selectionStart).split("\n"));
    assert.deepEqual([at.length, at.at(-1).length + 1], [Number(line), Number(column)]);
    assert.deepEqual(page.mistakes, []);
    await page.close();
  });

  test("stops a search, and answers again afterwards", async () => {
    const page = await chromium.open("#lesson=editor&file=scenarios/plan/gpt3-175b-1024xa100.yaml&command=plan");
    await page.waitForFunction(() => document.querySelector(".results[aria-busy]"));
    // Meanwhile the page lives: a lesson answers.
    await page.click('nav a[data-id="ring"]');
    await answered(page, "ring");
    await page.goBack();
    await page.waitForFunction(() => [...document.querySelectorAll("button")].some(one => one.textContent === "Stop" && !one.hidden));
    await page.evaluate(() => [...document.querySelectorAll("button")].find(one => one.textContent === "Stop").click());
    await page.waitForFunction(() => /Stopped after/.test(document.querySelector(".results").textContent));
    await page.select("#command", "check");
    await page.click("button[type=submit]");
    await page.waitForFunction(() => document.querySelector(".results").dataset.status === "0");
    assert.deepEqual(page.mistakes, []);
    await page.close();
  });

  for (const command of ["sweep scenarios/teaching-1f1b-8-stages.yaml", "measure x", "reshard scenarios/reshard/case4.yaml --backend mpi",
    "collective all-reduce --ranks 4 --backend mpi",
                         "frobnicate"])
    test(`is told what a page cannot do: ${command}`, async () => {
      const page = await chromium.open();
      const answer = await page.evaluate(async words => {
        const {Core} = await import("./core.js");
        return (await new Core().ask([{words}]))[0];
      }, command.split(" "));
      assert.equal(answer.status, command.startsWith("frob") ? 2 : 3);
      assert.match(answer.err, command.startsWith("frob") ? /unknown command/ : /page in a browser/);
      await page.close();
    });
});

test("the whole page can be used with keys alone, and the theme is kept", async () => {
  const page = await chromium.open();
  await answered(page, "schedules");
  const seen = new Set();
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const one = document.activeElement;
      return one.id || one.name || one.dataset.id || one.className || one.tagName;
    });
    if (at === "theme") await page.keyboard.press("Enter");
    seen.add(at);
  }
  for (const wanted of ["share", "theme", "zero", "editor", "control-left", "control-p", "control-limit", "picture"])
    assert.ok(seen.has(wanted), `${wanted} is not reached; ${[...seen]}`);
  assert.equal(await page.$eval("html", one => one.dataset.theme), "dark");
  await page.reload();
  await answered(page, "schedules");
  assert.equal(await page.$eval("html", one => one.dataset.theme), "dark");
  await page.close();
});

test("every element that can be used has a name, every picture a title", async () => {
  const page = await chromium.open("#lesson=ring");
  await answered(page, "ring");
  const nameless = await page.$$eval("button, select, input, textarea, a, [role=group]", all =>
    all.filter(one => !(one.getAttribute("aria-label") || one.labels?.length || one.textContent.trim())).map(one => one.outerHTML.slice(0, 80)));
  assert.deepEqual(nameless, []);
  assert.deepEqual(await page.$$eval("svg", all => all.filter(svg => !svg.querySelector(":scope > title")).length), 0);
  await page.close();
});

for (const [size, m] of [["few", 8], ["thousands", 64]])
  test(`a box says what it is under the pointer, of ${size}`, async () => {
    const page = await chromium.open(`#lesson=schedules&p=16&m=${m}&right=1f1b`);
    await answered(page, "schedules");
    // The first box of the first row begins where the row's ground does.
    const {x, y} = await page.$eval(".picture svg rect[fill='#eef1f5'], .picture svg rect:nth-of-type(2)", one => {
      const {left, top, height} = one.getBoundingClientRect();
      return {x: left + 2, y: top + height / 2};
    });
    await page.mouse.move(x, y);
    assert.match(await page.$eval(".picture", one => one.title), /^0F0 on rank 0: /);
    await page.close();
  });

test("at most 3 MB travel", t => {
  const page = join(root, "build/web/page");
  const files = readdirSync(page, {recursive: true}).filter(name => /\.(html|js|css|wasm)$/.test(name)).map(name => readFileSync(join(page, name)));
  const sum = pack => files.reduce((bytes, file) => bytes + pack(file).length, 0);
  const gzip = sum(gzipSync), brotli = sum(file => brotliCompressSync(file)), one = readFileSync(join(root, "build/web/rehearsal.html")).length;
  t.diagnostic(`gzip ${gzip} bytes, brotli ${brotli}, one file ${one}`);
  assert.ok(gzip <= 3e6 && one <= 3e6);
});
