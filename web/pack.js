// Puts the page together: node web/pack.js BUILD. BUILD holds rehearsal.js and rehearsal.wasm; there come
//   BUILD/page/           the files of web/page beside the program, to be served from anywhere
//   BUILD/rehearsal.html  all of it in one file, which opens from a disk
import {execFileSync} from "node:child_process";
import {cpSync, mkdirSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {buildSync} from "esbuild";

const build = process.argv[2];
const page = join(build, "page");
rmSync(page, {recursive: true, force: true});
mkdirSync(page, {recursive: true});
cpSync(join(dirname(fileURLToPath(import.meta.url)), "page"), page, {recursive: true});
for (const name of ["rehearsal.js", "rehearsal.wasm"]) cpSync(join(build, name), join(page, name));

// Modules cannot be loaded from a disk, so each script is one; a worker is its text.
const script = name => buildSync({entryPoints: [join(page, name)], bundle: true, format: "iife", minify: true, write: false,
                                  target: "es2022", logLevel: "warning"}).outputFiles[0].text;
const inside = text => text.replaceAll("</script", "<\\/script");
const style = readFileSync(join(page, "style.css"), "utf8");
// A third smaller than gzip, which browsers unpack by themselves (page/lzma.js). `xz` writes as a stream; the size is said in place.
const wasm = readFileSync(join(page, "rehearsal.wasm"));
const packed = execFileSync("xz", ["--format=lzma", "--lzma1=preset=9e,lc=4,lp=0,pb=0", "--stdout"], {input: wasm, maxBuffer: wasm.length});
packed.writeBigUInt64LE(BigInt(wasm.length), 5);

// Functions, since `$` has a meaning in texts that replace.
const replace = (html, from, to) => {
  if (!html.includes(from)) throw new Error(`index.html has no ${from}`);
  return html.replace(from, () => to);
};
let html = readFileSync(join(page, "index.html"), "utf8");
html = replace(html, `<link rel="stylesheet" href="style.css">`, `<style>\n${style}</style>`);
html = replace(html, `<script type="module" src="main.js"></script>\n`, "");
html = replace(html, "</body>", `<script type="text/plain" id="packed-wasm">${packed.toString("base64")}</script>
<script type="text/plain" id="packed-worker">${inside(script("worker.js"))}</script>
<script>${inside(script("main.js"))}</script>
</body>`);
writeFileSync(join(build, "rehearsal.html"), html);
