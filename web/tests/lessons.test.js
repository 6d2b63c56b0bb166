// Every lesson, as a reader uses it: it draws, its numbers are the native program's, its sliders move, by keys too, in both
// themes and on a narrow screen, and nothing is complained of.
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {join} from "node:path";
import {after, before, describe, test} from "node:test";

import {answered, native, openBrowser, root} from "./browser.js";

const course = readFileSync(join(root, "docs/teaching.md"), "utf8").replaceAll("'", "");
const lessons = ["schedules", "trace", "ring", "delay", "zero", "fsdp", "tensor", "context", "recompute", "offload", "reshard", "balance",
                 "goodput", "plan"];
let chromium;
before(async () => { chromium = await openBrowser(); });
after(() => chromium.close());

// Every number in a table with its value, and what was asked of the program.
const shown = page => page.evaluate(() => {
  const results = document.querySelector(".results");
  return {values: [...results.querySelectorAll("td[data-value]")].map(cell => Number(cell.dataset.value)),
          texts: [...results.querySelectorAll("td[data-value]")].map(cell => cell.textContent),
          pictures: [...results.querySelectorAll(".picture")].map(frame => frame.innerHTML),
          headings: [...results.querySelectorAll(".picture text")].map(one => one.textContent),
          titles: [...results.querySelectorAll(".picture svg")].map(svg => svg.querySelector("title")?.textContent),
          commands: JSON.parse(results.dataset.commands)};
});

function numbersIn(value, found = new Set()) {
  if (typeof value === "number") found.add(value);
  else if (value && typeof value === "object") Object.values(value).forEach(one => numbersIn(one, found));
  return found;
}

for (const lesson of lessons) {
  describe(lesson, () => {
    test("draws and says what the native program says", async () => {
      const page = await chromium.open(`#lesson=${lesson}`);
      await answered(page, lesson);
      const {values, texts, pictures, headings, titles, commands} = await shown(page);
      assert.ok(pictures.length > 0 && titles.every(Boolean), "pictures with titles");
      assert.deepEqual(headings.filter(text => text.includes("(with ") || / more\)/.test(text)), [], "what is set is no heading");
      assert.ok(values.length > 0 && values.every(Number.isFinite) && texts.every(Boolean), "a table with numbers");
      const numbers = new Set(), drawn = [];
      for (const command of commands) {
        // The course shows them, but for those whose files the page writes.
        if (!command.files) assert.ok(course.includes(`rehearse ${command.words.join(" ")}\n`), "docs/teaching.md lacks a command");
        const answer = await native(command);
        assert.ok(answer.status < 2, answer.err);
        if (command.words.includes("json")) numbersIn(JSON.parse(answer.out), numbers);
        drawn.push(...Object.values(answer.made));
      }
      // What the table shows is in the JSON, or a sum, a share or a count of what is: more than half is there as it is.
      const there = values.filter(value => numbers.has(value)).length;
      assert.ok(there * 2 > values.length, `${there} of ${values.length} numbers are the native program's`);
      // Pictures as the native program draws them, put into a page by the same hands.
      for (const svg of drawn) {
        const parsed = await page.evaluate(async text => {
          const {picture} = await import("./dom.js");
          return picture(text, "").querySelector(".picture").innerHTML;
        }, svg);
        const same = pictures.some(one => one.replace(/ class="[^"]*"/g, "") === parsed);
        assert.ok(same, "a picture differs from the native program's");
      }
      assert.deepEqual(page.mistakes, []);
      await page.close();
    });

    test("every setting changes what is asked, or what is shown of it, by keys alone", async () => {
      const page = await chromium.open(`#lesson=${lesson}`);
      await answered(page, lesson);
      const names = await page.$$eval(".controls [name]", all => all.map(one => one.name));
      for (const name of names) {
        const before = JSON.stringify(await shown(page));
        await page.focus(`.controls [name="${name}"]`);
        const last = await page.$eval(`.controls [name="${name}"]`,
                                      one => one.matches("select") ? one.selectedIndex === one.length - 1 : one.value === one.max);
        await page.keyboard.press(last ? "ArrowUp" : "ArrowDown");
        if ((await page.$eval(`.controls [name="${name}"]`, one => one.matches("input"))))
          await page.keyboard.press(last ? "ArrowLeft" : "ArrowRight"), await page.keyboard.press(last ? "ArrowLeft" : "ArrowRight");
        await answered(page, lesson);
        const now = JSON.stringify(await shown(page));
        assert.notEqual(now, before, `${name} changes nothing`);
        assert.equal(await page.$(".complaint"), null, `${name}: ${await page.$eval(".results", one => one.textContent.slice(0, 300))}`);
      }
      assert.match(page.url(), /#lesson=/);
      assert.deepEqual(page.mistakes, []);
      await page.close();
    });

    for (const dark of [false, true])
      for (const width of [1280, 420])
        test(`fits ${width} pixels, ${dark ? "dark" : "light"}`, async () => {
          const page = await chromium.open(`#lesson=${lesson}`, {width, dark});
          await answered(page, lesson);
          const {scroll, client, theme} = await page.evaluate(() => ({
            scroll: document.documentElement.scrollWidth, client: document.documentElement.clientWidth,
            theme: document.documentElement.dataset.theme}));
          assert.ok(scroll <= client, `${scroll} pixels wide on ${client}`);
          // What is wider than its frame says so at its edge, until its end is in sight.
          const told = end => page.waitForFunction(end => [...document.querySelectorAll(".results .frame > *")].every(inside => {
            if (end) inside.scrollLeft = inside.scrollWidth;
            const more = inside.scrollWidth - inside.clientWidth > 1 && !end;
            return inside.parentElement.classList.contains("more") === more;
          }), {polling: 20}, end);
          await told(false);
          await told(true);
          assert.equal(theme, dark ? "dark" : "light");
          assert.deepEqual(page.mistakes, []);
          await page.close();
        });
  });
}
