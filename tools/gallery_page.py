"""The page of the gallery: sections, items, captions and tables of values; pictures are files beside it."""
import html
import pathlib
import re

STYLE = (pathlib.Path(__file__).parent / "gallery.css").read_text(encoding="utf-8")

# Copies the command above a button; where a browser has no clipboard (a page opened from a disk), selects it.
SCRIPT = """
for (const button of document.querySelectorAll("button.copy")) button.addEventListener("click", async () => {
  const command = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(command.textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  } catch {
    getSelection().selectAllChildren(command);
  }
});
"""

MARKS = {"equal": "equal to the digits that the source prints", "near": "as near as is said",
         "differs": "differs; why is said"}


def inks():
    """Light and dark, by name: those of the program's documents (sim/page/page.css), whose pictures these are."""
    css = (pathlib.Path(__file__).parent.parent / "sim/page/page.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([a-z]+): (#[0-9a-f]+)", css[css.index(where):].split("}")[0]))
                   for where in (":root {", ':root[data-theme="dark"] {'))
    return {name: (light[name], dark[name]) for name in ("ink", "muted", "axis", "grid", "lane", "panel", "edge", "limit", "page")}


def in_the_dark(svg):
    """A picture that turns over its inks in a browser that is dark; data keeps its colours."""
    rules = "".join(f'[{attribute}="{light}"]{{{attribute}:{dark}}}' for name, (light, dark) in inks().items()
                    for attribute in ("fill", "stroke") if (name, attribute) != ("page", "fill"))
    rules += f'svg>rect[width="100%"]{{fill:{inks()["page"][1]}}}'
    return svg.replace("</title>\n", f"</title>\n<style>@media (prefers-color-scheme:dark){{{rules}}}</style>\n", 1)


def escape(text):
    return html.escape(text, quote=True)


def alternative(svg):
    """What a picture says of itself: the title that the program gave it."""
    begin = svg.find("<title>")
    return svg[begin + 7:svg.find("</title>", begin)] if begin >= 0 else "a picture"


def command_html(command):
    shown = escape(command.text.replace("rehearse ", "tools/rehearse ", 1))
    text = f'<div class="command"><code>{shown}</code><button class="copy" type="button">copy</button></div>\n'
    for picture, shown in command.shown.items():
        if picture == "text":
            text += f'<pre tabindex="0">{escape(shown)}</pre>\n'
        else:
            file = command.file(picture)
            text += (f'<figure><a href="{file}"><img src="{file}" alt="{alternative(shown)}" loading="lazy"></a>'
                     "</figure>\n")
    return text


def values_html(values):
    if not values:
        return ""
    rows = []
    for value in values:
        unit = f' <span class="unit">{escape(value.unit)}</span>' if value.unit else ""
        at = f' <span class="at">({escape(value.at)})</span>' if value.at else ""
        formula = f'<br><span class="formula">{escape(value.formula)}</span>' if value.formula else ""
        why = f'<tr class="why"><td colspan="4">{escape(value.why)}</td></tr>\n' if value.why else ""
        rows.append(f'<tr class="{value.mark}"><th scope="row">{escape(value.what)}{at}</th>'
                    f'<td>{escape(value.source)}{unit}{formula}</td>'
                    f'<td title="{escape(value.path)}">{escape(value.ours)}{unit}</td><td title="{MARKS[value.mark]}">'
                    f'{escape(value.difference) if value.difference else value.mark}</td></tr>\n{why}')
    return ('<div class="scroll"><table>\n<thead><tr><th scope="col">value</th><th scope="col">source</th>'
            '<th scope="col">ours</th><th scope="col">difference</th></tr></thead>\n'
            f'<tbody>\n{"".join(rows)}</tbody></table></div>\n')


def item_html(item):
    text = f'<article id="{item["name"]}">\n<h3><a href="#{item["name"]}">{escape(item["title"])}</a></h3>\n'
    text += f'<p class="look">{escape(item["look"])}</p>\n'
    drawn = [command for command in item["commands"] if command.pictures or not command.label]
    others = [command for command in item["commands"] if command not in drawn]
    text += "".join(command_html(command) for command in drawn)
    text += values_html(item["judged"])
    if others:
        plural = "s" if len(others) > 1 else ""
        text += (f"<details>\n<summary>{len(others)} more command{plural} behind these values</summary>\n"
                 f'{"".join(command_html(command) for command in others)}</details>\n')
    if "why_not" in item:
        text += f'<p class="whynot"><strong>Not shown:</strong> {escape(item["why_not"])}</p>\n'
    return text + f'<p class="source">Source: {escape(item["source"])}</p>\n</article>\n'


def contents_html(sections):
    text = '<nav aria-label="Contents">\n<ol>\n'
    for section in sections:
        text += f'<li><a href="#{section["name"]}">{escape(section["title"])}</a>\n<ol>\n'
        text += "".join(f'<li><a href="#{item["name"]}">{escape(item["title"])}</a></li>\n' for item in section["items"])
        text += "</ol></li>\n"
    return text + "</ol>\n</nav>\n"


def page(sections):
    items = [item for section in sections for item in section["items"]]
    values = [value for item in items for value in item["judged"]]
    count = {mark: sum(value.mark == mark for value in values) for mark in MARKS}
    missing = sum("why_not" in item for item in items)
    text = ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Rehearsal: the gallery</title>\n'
            f"<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>The gallery</h1>\n"
            "<p>Figures and tables of papers and manuals on distributed training. Each is one command, with its answer beside "
            "what the source prints. Pictures, texts and the numbers under <em>ours</em> come from the commands; nothing is "
            "typed by hand. <code>tools/gallery --check</code> fails when one changes.</p>\n"
            f"<p>{len(items)} items with {len(values)} values. {count['equal']} values equal the digits that the source prints, "
            f"{count['near']} are within the tolerance for a measured run, and {count['differs']} differ, each with a "
            f"reason. {missing} items say what is not shown. A course leads through them: "
            '<a href="../teaching.md">docs/teaching.md</a>.</p>\n</header>\n')
    text += contents_html(sections) + "<main>\n"
    for section in sections:
        text += f'<section id="{section["name"]}">\n<h2>{escape(section["title"])}</h2>\n'
        if section.get("intro"):
            text += f'<p>{escape(section["intro"])}</p>\n'
        text += "".join(item_html(item) for item in section["items"]) + "</section>\n"
    return text + f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
