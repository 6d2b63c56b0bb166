"""Answers as objects. Every key of the JSON of a command is an attribute, with its unit in its name."""

import html
import json
import pathlib
import tempfile
import webbrowser

from ._library import Answer, Error
from ._table import Table
from ._values import Values

_PAGE = "memory:page"


class Report(Values):
    """What a command answered, read when somebody looks at it. `words`: its command line, without --format."""

    def __init__(self, words, files=None, progress=None, answer=None):
        self._words, self._files = list(words), files
        self._answer = answer or Answer([*words, "--format", "json"], files, progress)

    def __getattr__(self, name):
        if name == "_data":
            self._data = json.loads(self._answer.out)
            return self._data
        return super().__getattr__(name)

    @property
    def status(self):
        """0, or 1 if a checked condition does not hold (`plan`: nothing fits)."""
        return self._answer.status

    def _again(self, *more):
        return Answer([*self._words, "--quiet", *more], self._files)

    def text(self):
        """The report as a terminal shows it."""
        return self._again().out

    def html(self):
        """One page for a browser: figures, pictures, tables."""
        return self._again("--html", _PAGE).file("page")

    def svg(self, picture=None):
        """A picture, or all of them. A name that does not exist is an error that lists those that do."""
        return self._again("--svg", "memory:svg", *(["--picture", picture] if picture else [])).file("svg")

    def save(self, path):
        """The JSON, in a file."""
        pathlib.Path(path).write_text(self._answer.out, encoding="utf-8")

    def show(self):
        """The page, in a browser."""
        with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False, encoding="utf-8") as file:
            file.write(self.html())
        webbrowser.open(f"file://{file.name}")

    def _repr_html_(self):
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="560" style="border:0"></iframe>'

    def __str__(self):
        return self.text()

    def __repr__(self):
        return f"<rehearse {self._words[0]}: {', '.join(self)}>"


class Result(Report):
    """A step, predicted (`run`) or performed (`measure`)."""

    def _table(self, name):
        if not self._answer.has_columns:  # came from another process
            self._answer = Answer([*self._words, "--format", "json"], self._files)
        if name not in self._answer.tables():
            raise Error("a file with 'jobs' holds several scenarios, which have no timeline, memory and ranks of their own")
        return Table.of_answer(self._answer, name)

    @property
    def timeline(self):
        """One row per task of each rank of the graph: rank, lane, pass, stage, layer, microbatch, start_s, end_s."""
        return self._table("timeline")

    @property
    def memory(self):
        """One row per change of a category of a tier: rank, tier, category, time_s, bytes (from then on)."""
        return self._table("memory")

    @property
    def ranks(self):
        """One row per rank of the graph. r["ranks"] is the JSON, which has the memory by category too."""
        return self._table("ranks")

    def _write(self, option, path):
        if str(path).startswith("memory:"):
            raise Error(f"{option[2:]}: {str(path)!r} would be lost with this call; name a file")
        self._again(option, str(path), "--output", "memory:report")

    def trace(self, path):
        """A trace for ui.perfetto.dev; a name that ends in .gz is compressed."""
        self._write("--trace", path)

    def memory_snapshot(self, path):
        """The memory of every rank as PyTorch pickles it, for pytorch.org/memory_viz."""
        self._write("--memory-snapshot", path)

    def _repr_html_(self):
        return super()._repr_html_() if "iteration_s" in self else f"<pre>{html.escape(self.text())}</pre>"

    def __repr__(self):
        if "iteration_s" not in self:
            return f"<rehearse run: {', '.join(self)}>"
        fits = "" if self.fits is None else ", fits" if self.fits else ", DOES NOT FIT"
        mfu = "" if self.mfu is None else f", MFU {100 * self.mfu:.1f} %"
        return f"<{self.scenario.name}: {self.iteration_s:.4g} s{mfu}{fits}>"


class Plan(Report):
    def __repr__(self):
        if not self._data["best"]:
            return "<plan: nothing fits>"
        chosen = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in self.best["set"].items())
        return f"<plan: {self.best.iteration_s:.4g} s with {chosen}; {'proven' if self.proven else 'not proven'}>"


class Explanation(Report):
    @property
    def sensitivities(self):
        return self.sensitivity
