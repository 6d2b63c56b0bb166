// What packs the program into the page that is one file, and what unpacks it there, are different programs.
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {readFileSync} from "node:fs";
import {join} from "node:path";
import {test} from "node:test";

import {unlzma} from "../page/lzma.js";
import {root} from "./browser.js";

function packed(bytes, settings) {
  const all = execFileSync("xz", ["--format=lzma", `--lzma1=preset=9e,${settings}`, "--stdout"], {input: bytes, maxBuffer: 1 << 26});
  all.writeBigUInt64LE(BigInt(bytes.length), 5);
  return new Uint8Array(all);
}

// A linear congruential generator (Numerical Recipes): bytes that nothing makes smaller.
function noise(count) {
  let state = 1;
  return Buffer.from(Array.from({length: count}, () => (state = Math.imul(state, 1664525) + 1013904223 >>> 0) >>> 24));
}

const text = readFileSync(join(root, "README.md")), program = readFileSync(process.execPath).subarray(0, 1 << 20);
const far = Buffer.concat([noise(1 << 20), text, noise(1 << 20)]);  // repeats itself a million bytes later
for (const [what, bytes] of Object.entries({"a text": text, "a program": program, "zeros": Buffer.alloc(100_000), "one byte": Buffer.from("x"), far}))
  for (const settings of ["lc=3,lp=0,pb=2", "lc=4,lp=0,pb=0", "lc=0,lp=2,pb=4"])
    test(`${what} comes back (${settings})`, () => {
      assert.ok(Buffer.from(unlzma(packed(bytes, settings))).equals(bytes));
    });

test("what starts with a copy is damaged", () => {
  const all = packed(text, "lc=3,lp=0,pb=2");
  all.fill(0xff, 14, 40);
  assert.throws(() => unlzma(all), /damaged/);
});
