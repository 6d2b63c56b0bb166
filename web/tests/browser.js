// What the tests of the page share: Chromium, the page both as it is served and as one file, and the native program.
import {execFile} from "node:child_process";
import {cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {dirname, join} from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";
import puppeteer from "puppeteer-core";

import {serve} from "../serve.js";

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const build = join(root, "build", "web");
const chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

// Nothing here waits for a time: where others have the cores, all takes longer and nothing is wrong. Who waits for what
// never comes is ended by the runner (tools/web).
export async function openBrowser() {
  const browser = await puppeteer.launch({executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"], timeout: 0, protocolTimeout: 0});
  const server = await serve(join(build, "page"));
  const addresses = {served: `http://localhost:${server.address().port}/`, file: pathToFileURL(join(build, "rehearsal.html")).href};
  return {
    addresses,
    // A page whose mistakes are collected in page.mistakes: errors of scripts, of the console, of loading.
    async open(hash = "", {from = "served", width = 1280, height = 900, dark = false} = {}) {
      const page = await browser.newPage();
      page.setDefaultTimeout(0);
      page.mistakes = [];
      page.on("pageerror", error => page.mistakes.push(String(error)));
      page.on("console", message => ["error", "warn"].includes(message.type()) && page.mistakes.push(message.text()));
      page.on("requestfailed", request => page.mistakes.push(`${request.url().slice(0, 100)}: ${request.failure()?.errorText}`));
      await page.setViewport({width, height});
      await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: dark ? "dark" : "light"}]);
      await page.goto(addresses[from] + hash);
      return page;
    },
    async close() {
      await browser.close();
      server.close();
    },
  };
}

// Until the lesson shows the answer to its present settings.
export function answered(page, lesson) {
  return page.waitForFunction(id => {
    const results = document.querySelector(`.lesson[data-lesson="${id}"] .results`);
    return results?.childElementCount > 0 && !results.hasAttribute("aria-busy");
  }, {polling: 20}, lesson);
}

// Runs the native program in a folder that looks like the file system of the page: the shipped scenarios, and the files of
// the command. Returns what the core of the page does: {status, out, err, made}.
export function native({words, files = {}, made = []}) {
  const folder = mkdtempSync(join(tmpdir(), "rehearsal-page-"));
  if (Object.keys(files).some(path => path.startsWith("scenarios/"))) cpSync(join(root, "scenarios"), join(folder, "scenarios"), {recursive: true});
  else symlinkSync(join(root, "scenarios"), join(folder, "scenarios"));
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
  return new Promise(done => {
    execFile(join(root, "build/release/rehearse"), words,
             {cwd: folder, maxBuffer: 1 << 28, env: {...process.env, COLUMNS: "80", REHEARSAL_HOME: root}},
             (error, out, err) => {
               const readIfThere = path => existsSync(path) ? readFileSync(path, "utf8") : null;
               const files = Object.fromEntries(made.map(path => [path, readIfThere(join(folder, path))]));
               rmSync(folder, {recursive: true});
               done({status: error ? error.code : 0, out, err, made: files});
             });
  });
}
