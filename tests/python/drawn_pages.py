"""What a reader sees of the documents (--html): in Chromium, on a large screen and on a telephone, light and dark.

Of every text that is shown: no two of a picture lie on each other, none is cut off by its picture or by what holds it,
letters are LEAST_PIXELS high or more, and contrast with what is behind them is that of WCAG 2.2, level AA (1.4.3). Nothing is
wider than the screen but what can be scrolled. usage: drawn_pages.py PROGRAM [--keep FOLDER] [PATTERN of pages]
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTHS, THEMES, LEAST_PIXELS = (1280, 420), ("light", "dark"), 9
GIVEN = "scenarios/teaching-1f1b-8-stages.yaml"
TIMES = "--pipeline 4 --microbatches 8 --forward 5ms --backward 5ms --weight 5ms"
# One page of every kind, and of `run` those whose pictures differ.
PAGES = {
    "run": "run scenarios/llama3-8b-dgx-h100.yaml",
    "run-pipeline": "run scenarios/gpt3-175b-1024xa100.yaml",
    "run-given-times": "run scenarios/teaching-zb-h1-8-stages.yaml",
    "run-tiers": "run scenarios/gpt-10b-offload-1xv100.yaml",
    "run-servers": "run scenarios/parameter-servers-64xa100.yaml",
    "run-resharding": "run scenarios/gpt-resharding-p3-8xlarge.yaml",
    "compare": f"compare {GIVEN} --vary schedule=gpipe,1f1b,zb-h1",
    "compare-memory": "compare scenarios/gpt-7.5b-zero-64xv100.yaml --vary parallelism.zero=0,1,2,3",
    "explain": "explain scenarios/llama3-8b-dgx-h100.yaml --set batch.global=8",
    "schedule": f"schedule zb-v {TIMES}",
    "schedules": f"schedule 1f1b zb-h1 {TIMES}",
    "schedule-in-halves": "schedule dualpipe --pipeline 4 --microbatches 8 --forward 5ms --backward 5ms --weight 5ms",
    "reshard": "reshard scenarios/reshard/case4.yaml",
    "reshard-hops": "reshard scenarios/reshard/case5.yaml",
    "balance": "balance scenarios/balance/eplb-readme.yaml",
    "collective": "collective ring-all-reduce --ranks 4",
    "groups": "groups scenarios/llama3-70b-64xh100.yaml",
    "plan": "plan scenarios/llama3-8b-dgx-h100.yaml --set 'plan={zero: 1, schedules: [1f1b]}'",
    "sweep": f"sweep {GIVEN} --vary schedule=gpipe,1f1b --store FOLDER/store",
    "validate-against": "validate --against tests/fidelity/training_runs.csv --table megatron21_t1",
    "validate-trace": "validate tests/traces/two_stages.yaml --trace tests/traces/two_stages_rank_0.json "
                      "tests/traces/two_stages_rank_1.json",
    "measure": f"measure {GIVEN} --backend loopback --compute timed --iterations 1 --warmup 0",
}

# Runs within each page, and returns a list of faults.
LOOK = r"""
(least) => {
  const faults = [], say = (what, text) => faults.push(`${what}: '${text}'`);
  if (document.documentElement.scrollWidth > innerWidth + 1) say("wider than the screen", document.documentElement.scrollWidth);
  const shown = (one) => one.getClientRects().length > 0;
  const number = (text) => text.match(/[\d.]+/g)?.map(Number) ?? [];
  const luminance = ([r, g, b]) => [r, g, b].map((x) => x / 255).map((x) => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const paint = (one, seen) => {
    const style = getComputedStyle(one), inside = one instanceof SVGElement && one.tagName !== "svg";
    const color = number(inside ? style.fill : style.backgroundColor);
    if (color.length < 3 || (inside && !["rect", "path", "circle"].includes(one.tagName))) return 0;
    return (color[3] ?? 1) * (inside ? style.fillOpacity * style.opacity : 1);
  };
  // What is behind a point, blended.
  const behind = (x, y, text) => {
    let color = null, left = 1, sum = [0, 0, 0];
    for (const one of document.elementsFromPoint(x, y)) {
      if (one === text || one.tagName === "text") continue;
      const alpha = paint(one), style = getComputedStyle(one);
      if (!alpha) continue;
      color = number(one instanceof SVGElement && one.tagName !== "svg" ? style.fill : style.backgroundColor);
      sum = sum.map((part, i) => part + left * alpha * color[i]);
      left *= 1 - alpha;
      if (left < .01) return sum;
    }
    const page = number(getComputedStyle(document.body).backgroundColor);
    return sum.map((part, i) => part + left * page[i]);
  };
  const judge = (one, rect, size, bold, fill, halo) => {
    const back = halo ?? behind(rect.left + rect.width / 2, rect.top + rect.height / 2, one);
    const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5, found = contrast(fill, back);
    if (found < needed - .01) say(`contrast ${found.toFixed(2)} of ${fill.slice(0, 3)} on ${back.map(Math.round)}`, one.textContent.slice(0, 60));
  };
  for (const svg of document.querySelectorAll("svg")) {
    if (!shown(svg)) continue;
    const frame = svg.getBoundingClientRect(), scrolls = svg.closest(".drawing"), texts = [];
    for (const text of svg.querySelectorAll("text")) {
      if (!text.textContent) continue;
      const style = getComputedStyle(text), turn = text.getScreenCTM();
      const size = parseFloat(style.fontSize) * Math.hypot(turn.c, turn.d);
      let rect = text.getBoundingClientRect();
      if (size < least - .01) say(`${size.toFixed(1)} px`, text.textContent);
      const before = frame.left - svg.getBoundingClientRect().left;  // scrolled since
      if (rect.left + before < frame.left - 1 || rect.right + before > frame.right + 1 || rect.top < frame.top - 1 || rect.bottom > frame.bottom + 1)
        say("cut off by its picture", text.textContent);
      if (/\u2026/.test(text.textContent)) say("shortened", text.textContent);
      // The letters alone: a line of text is higher.
      texts.push({text: text.textContent, left: rect.left + before, right: rect.right + before, top: rect.top + rect.height * .2, bottom: rect.bottom - rect.height * .2});
      if (scrolls) {
        const hold = scrolls.getBoundingClientRect();
        if (rect.right > hold.right || rect.left < hold.left) scrolls.scrollLeft += rect.left - hold.left - 20;
        rect = text.getBoundingClientRect();
      }
      const halo = style.paintOrder.startsWith("stroke") && parseFloat(style.strokeWidth) >= 3 ? number(style.stroke) : null;
      judge(text, rect, size, +style.fontWeight >= 700, number(style.fill), halo);
    }
    texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => {
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
        say("on each other", `${a.text}' and '${b.text}`);
    }));
  }
  for (const table of document.querySelectorAll("table")) {
    if (!shown(table)) continue;
    if (innerWidth > 1000 && table.parentElement.scrollWidth > table.parentElement.clientWidth + 1)
      say("a table is wider than a large screen", table.querySelector("thead").textContent.slice(0, 80));
    const heads = [...table.querySelectorAll("th")];
    heads.forEach((head, i) => i && !head.textContent && say("no head over column", i + 1));
  }
  // Text outside pictures.
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), done = new Set();
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || one.closest("svg, script, style, title") || done.has(one) || !shown(one)) continue;
    done.add(one);
    const style = getComputedStyle(one), size = parseFloat(style.fontSize);
    if (size < least) say(`${size} px`, one.textContent.slice(0, 60));
    for (let hold = one; hold !== document.body; hold = hold.parentElement) {
      const how = getComputedStyle(hold);
      if (how.overflowX !== "hidden" && how.overflowY !== "hidden") continue;
      if (hold.scrollWidth > hold.clientWidth + 1 || hold.scrollHeight > hold.clientHeight + 2) say("cut off", one.textContent.slice(0, 60));
    }
    let back = one;
    while (back && number(getComputedStyle(back).backgroundColor)[3] === 0) back = back.parentElement;
    const found = contrast(number(style.color), back ? number(getComputedStyle(back).backgroundColor) : [255, 255, 255]);
    if (found < 4.49) say(`contrast ${found.toFixed(2)}`, one.textContent.slice(0, 60));
  }
  const ticks = [...document.querySelectorAll(".axis")].filter(shown);
  for (const axis of ticks) {
    const all = [...axis.children].map((one) => one.getBoundingClientRect()).sort((a, b) => a.left - b.left);
    all.forEach((a, i) => i && all[i - 1].right > a.left + 1 && say("times on each other", axis.textContent));
  }
  return faults;
}
"""

# Shows one page after the other in frames of the widths. Their scripts run, and what is drawn is drawn by then.
HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0"><script>
const look = LOOK, pages = PAGES, found = [];
const wait = (time) => new Promise((done) => setTimeout(done, time));
(async () => {
  for (const [name, text] of Object.entries(pages)) for (const width of WIDTHS) {
    const frame = document.createElement("iframe");
    frame.scrolling = "no";  // a bar would take width from the page
    frame.style = `border:0;width:${width}px;height:900px`;
    document.body.append(frame);
    const loaded = new Promise((done) => { frame.onload = done; });
    frame.srcdoc = text;
    await loaded;
    const inside = frame.contentDocument;
    for (const more of inside.querySelectorAll("details")) more.open = true;
    for (const theme of THEMES) {
      inside.documentElement.dataset.theme = theme;
      frame.style.height = inside.documentElement.scrollHeight + "px";
      await wait(60);
      found.push([name, width, theme, frame.contentWindow.eval(look)(LEAST), inside.querySelectorAll("text").length]);
    }
    frame.remove();
  }
  document.body.textContent = "found " + encodeURIComponent(JSON.stringify(found)) + " end";
})();
</script>"""


def render(program, folder, wanted):
    pages = {}
    for name, line in PAGES.items():
        if not re.search(wanted, name):
            continue
        file = folder / f"{name}.html"
        words = shlex.split(line.replace("FOLDER", str(folder)))
        done = subprocess.run([program, *words, "--quiet", "--html", file], cwd=ROOT, capture_output=True, text=True,
                              env={**os.environ, "REHEARSAL_HOME": str(ROOT)})
        # 1: an answer that is not good enough, of validate, with a page all the same
        assert done.returncode in (0, 1) and file.exists(), f"{line}: {done.stderr}"
        pages[name] = file.read_text(encoding="utf-8")
    return pages


def look(browser, pages, folder):
    # In a script "</" of a page would end it.
    texts = json.dumps(pages).replace("</", "<\\/")
    parts = HARNESS.split("PAGES", 1)
    head = parts[0].replace("LOOK", json.dumps(LOOK.strip()).replace("</", "<\\/"))
    tail = parts[1].replace("WIDTHS", json.dumps(WIDTHS)).replace("THEMES", json.dumps(THEMES)).replace("LEAST", str(LEAST_PIXELS))
    file = folder / "harness.html"
    file.write_text(head + texts + tail, encoding="utf-8")
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                           "--window-size=1400,1000", "--virtual-time-budget=600000", "--dump-dom", file.as_uri()],
                          capture_output=True, text=True, timeout=280)
    said = re.search(r"found (\S+) end", done.stdout)
    assert said, f"the browser did not finish: {done.stderr[-2000:]}"
    return json.loads(urllib.parse.unquote(said.group(1)))


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("program")
    asked.add_argument("pages", nargs="?", default="")
    asked.add_argument("--keep", type=pathlib.Path, help="leaves the pages here")
    asked = asked.parse_args()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not browser:
        print("skipped: there is no Chromium (apt-get install chromium)")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = asked.keep or pathlib.Path(scratch)
        folder.mkdir(exist_ok=True)
        found = look(browser, render(os.path.abspath(asked.program), folder, asked.pages), folder)
    bad = 0
    for name, width, theme, faults, _ in found:
        for fault in sorted(set(faults)):
            print(f"{name}, {width} px, {theme}: {fault}")
        bad += len(set(faults))
    print(f"{len(found)} views of {len({f[0] for f in found})} pages with {sum(f[4] for f in found)} labels: {bad} faults")
    return 1 if bad else 0


sys.exit(main())
