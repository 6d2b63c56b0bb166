"""Rehearsal: predict how long a training step takes on a GPU cluster, and whether it fits in memory.

    import rehearsal as rh
    r = rh.run("scenarios/llama3-8b-dgx-h100.yaml", set={"batch.micro": 2})
    r.iteration_s, r.mfu, r.fits, r.timeline.to_pandas()
    rh.compare("scenario.yaml", vary={"batch.micro": [1, 2, 4], "schedule": ["1f1b", "zb-h1"]})

A scenario is a file, or a dict with the same keys. Names are those of the command line and of its JSON: what
`rehearse run --set batch.micro=2 --format json` prints as "iteration_s" is r.iteration_s here.
"""

import csv as _csv
import itertools as _itertools
import json as _json
import os as _os
import re as _re

from ._library import Answer, Error, InternalError, MachineError, version
from ._results import Explanation, Plan, Report, Result
from ._table import Table
from ._values import Values, wrapped as _wrapped

__version__ = version()
__all__ = ["Answer", "Error", "Explanation", "InternalError", "MachineError", "Plan", "Report", "Result", "Scenario",
           "Table", "Values", "balance", "check", "collective", "compare", "explain", "export", "groups", "imports", "list",
           "measure", "plan", "reshard", "run", "schedule", "sweep", "validate", "version"]

_NAMED = "scenario.yaml"  # a dict, in messages
_OWN = {"format", "output", "html", "svg", "picture", "trace", "timeline", "memory_snapshot", "quiet", "help", "color", "store"}
_NUMBER = _re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


def _text(value):
    """A value as --set takes it."""
    if isinstance(value, str):
        return value
    return _json.dumps(value, default=lambda other: other.to_dict() if isinstance(other, Values) else other.item())


def _sets(given):
    return [word for key, value in (given or {}).items() for word in ("--set", f"{key}={_text(value)}")]


def _options(given):
    """Keyword arguments as options: time_limit="30s" is --time-limit 30s; True a switch; a list repeats."""
    words = []
    for name, value in given.items():
        if name in _OWN:
            raise TypeError(f"{name} belongs to this package: .text(), .html(), .svg(), .trace() and .save() of what is returned")
        if name == "jobs" and isinstance(value, bool):
            raise TypeError(f"jobs is how many predictions run at a time, not {value}; leave it out for one per core")
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, (tuple, type([]))):
            words += [word for one in value for word in (option, _text(one))]
        elif value is not None and value is not False:
            words += [option, _text(value)]
    return words


def _source(scenario):
    """The name of a scenario for a command line, and the files in memory that it needs."""
    if isinstance(scenario, Scenario):
        return scenario._path, scenario._files
    if isinstance(scenario, (dict, Values)):
        return _NAMED, {_NAMED: _json.dumps(scenario if isinstance(scenario, dict) else scenario.to_dict(), indent=1)}
    path = _os.fsdecode(scenario)
    path = "./" + path if path.startswith("-") else path
    try:  # kept, so that pages and pictures are those of this answer, whatever becomes of the file
        with open(path, encoding="utf-8") as file:
            text = file.read(1 << 20)
        return path, ({path: text} if _os.path.isfile(path) and len(text) < 1 << 20 else None)
    except (OSError, UnicodeDecodeError):
        return path, None  # the program says what is wrong


def _settings(scenario, set):
    """Those of a Scenario, and then these."""
    return {**(scenario._set if isinstance(scenario, Scenario) else {}), **(set or {})}


def _asked(kind, command, scenario, set, options, progress=None):
    path, files = _source(scenario)
    return kind([command, path, *_sets(_settings(scenario, set)), *_options(options)], files, progress)


def run(scenario, set=None, *, progress=None, **options):
    """Predicts one iteration. Returns a Result."""
    return _asked(Result, "run", scenario, set, options, progress)


def measure(scenario, backend="loopback", set=None, *, progress=None, **options):
    """Performs a scenario for real: the task graph that run() predicts. Options as on the command line: compute="timed",
    iterations=5, verify=True."""
    return _asked(Result, "measure", scenario, set, {"backend": backend, **options}, progress)


def _paths(files):
    return [_os.fspath(file) for file in ([files] if isinstance(files, (str, _os.PathLike)) else files)]


def validate(scenario=None, backend="loopback", set=None, *, against=None, log=None, trace=None, progress=None, **options):
    """Predicts, performs and compares. Or compares with what was measured elsewhere: against=[tables of published runs],
    log=[logs of real runs] (their scenario is in them, or given), trace=[traces of a run of the scenario]."""
    measured = [(name, files) for name, files in (("against", against), ("log", log), ("trace", trace)) if files is not None]
    if not measured:
        return _asked(Report, "validate", scenario, set, {"backend": backend, **options}, progress)
    if len(measured) > 1 or (against is not None and scenario is not None):
        raise TypeError("a prediction is compared with one of: tables of runs (without a scenario), logs, traces")
    [(name, files)] = measured
    path, given = (None, None) if scenario is None else _source(scenario)
    words = ["validate", *([path] if path else []), *_sets(_settings(scenario, set)), *_options(options)]
    return Report([*words, "--" + name, *_paths(files)], given, progress)


def imports(*files, arguments=(), world=None, cluster=None, set=None, **options):
    """A Scenario of files of other tools (list("formats")) and of a trainer's arguments, a list of words. Its `imported`
    has where each value is from (`settings`), and what had no word or was not understood."""
    words = ["import", *map(_os.fspath, files), *_sets(set), *_options({"world": world, "cluster": cluster, **options})]
    answer = Answer([*words, "--format", "json", *(["--", *arguments] if arguments else [])])
    report = Report(words, answer=answer)
    scenario = Scenario(report.scenario)
    scenario.imported = report
    return scenario


def export(scenario, format, set=None):
    """The scenario as another tool says it ("megatron", "torchtitan", "deepspeed"), a text."""
    path, files = _source(scenario)
    return Answer(["export", path, "--as", format, *_sets(_settings(scenario, set))], files).out


def plan(scenario, set=None, *, time_limit=None, progress=None, **options):
    """The best layout and schedule, with proof. `time_limit`: seconds, or a text with unit; then the best so far."""
    limit = f"{time_limit}s" if isinstance(time_limit, (int, float)) else time_limit
    return _asked(Plan, "plan", scenario, set, {"time_limit": limit, **options}, progress)


def explain(scenario, set=None, *, progress=None, **options):
    """What decides the step, what each number of the machine is worth, and what to change."""
    return _asked(Explanation, "explain", scenario, set, options, progress)


def groups(scenario, set=None, **options):
    """Which GPU is in which group."""
    return _asked(Report, "groups", scenario, set, options)


def balance(file, set=None, **options):
    """Experts on GPUs, so that the heaviest carries least."""
    return _asked(Report, "balance", file, set, options)


def reshard(file, set=None, **options):
    """How a tensor gets from one mesh of devices to another."""
    return _asked(Report, "reshard", file, set, options)


def schedule(name, *, pipeline, microbatches, forward, backward, weight, **options):
    """One pipeline schedule with given costs: numbers are seconds."""
    given = {"pipeline": pipeline, "microbatches": microbatches, "forward": forward, "backward": backward,
             "weight": weight, **options}
    times = {"forward", "backward", "weight", "p2p", "optimizer"}
    seconds = lambda value: f"{value!r}s" if isinstance(value, (int, float)) and not isinstance(value, bool) else value
    return Report(["schedule", name, *_options({k: seconds(v) if k in times else v for k, v in given.items()})])


def collective(name, *, ranks, cluster, size, set=None, **options):
    """One collective on a machine: steps, links, time. `size`: bytes, or a text with unit."""
    amount = f"{size}B" if isinstance(size, int) else size
    return Report(["collective", name, *_options({"ranks": ranks, "cluster": cluster, "size": amount, **options}),
                   *_sets(set)])


def check(scenario, set=None):
    """What is wrong: a table of file, line, column, severity, message; empty if nothing is."""
    path, files = _source(scenario)
    try:
        answer = Answer(["check", path, *_sets(_settings(scenario, set)), "--format", "csv"], files)
    except Error as error:
        answer = error.answer
    if not answer.out:
        raise Error(answer.err.strip())  # of the command line itself
    rows = [row for row in _csv.DictReader(answer.out.splitlines()) if row["message"]]
    for row in rows:
        row.pop("ok")
        row["line"], row["column"] = int(row["line"]), int(row["column"])
    return Table({key: [row[key] for row in rows] for key in ("file", "line", "column", "severity", "message")})


def list(kind, name=None):
    """What exists of one kind ("models", "clusters", "schedules", ...), or the facts of one of them."""
    return _wrapped(_json.loads(Answer(["list", kind, *([name] if name else []), "--format", "json"]).out))


def _figures(text, vary):
    """The CSV of a comparison as a table: numbers, booleans, None. Keys that vary over texts stay texts."""
    rows = [*_csv.reader(text.splitlines())]
    columns = zip(*rows[1:]) if len(rows) > 1 else [()] * len(rows[0])
    texts = {key for key, values in vary.items() if all(isinstance(value, str) for value in values)}
    return Table({name: [*column] if name in texts else [_value(cell) for cell in column]
                  for name, column in zip(rows[0], columns)})


def _value(cell):
    if cell in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[cell]
    if not _NUMBER.fullmatch(cell):
        return cell
    return float(cell) if {".", "e", "E"} & {*cell} else int(cell)


def _vary(vary):
    def one(value):
        text = _text(value)
        return _json.dumps(text) if isinstance(value, str) and "," in text and text[:1] not in "[{\"'" else text

    for key, values in vary.items():
        if isinstance(values, str) or not len(values):
            raise TypeError(f"vary: {key!r} takes a list of values, found {values!r}")
    return [word for key, values in vary.items() for word in ("--vary", f"{key}={','.join(map(one, values))}")]


def _variant(asked):
    """One row of compare(map=...), in whatever process."""
    path, files, words = asked
    return _with_errors(["compare", path, *words, "--format", "csv", "--jobs", "1"], files)


def compare(scenario, vary, set=None, *, jobs=None, map=None, progress=None, **options):
    """Every combination of values, as a table of figures: a column per key, then those of `rehearse compare`. A wrong
    combination is a row with its error. map=executor.map (concurrent.futures, Dask, mpi4py) spreads the rows; what
    depends on the other rows (relative, relative_cost, best, pareto) is then left out."""
    path, files = _source(scenario)
    common = _sets(_settings(scenario, set))
    if map is None:
        words = ["compare", path, *common, *_vary(vary), *_options({"jobs": jobs, **options}), "--format", "csv"]
        return _figures(_with_errors(words, files, progress), vary)
    if options or jobs or progress:
        raise TypeError("map= spreads the rows one by one; jobs, progress and options of the whole table do not go with it")
    asked = [(path, files, [*common, *_vary(dict(zip(vary, ([value] for value in values))))])
             for values in _itertools.product(*vary.values())]
    tables = [_figures(text, vary) for text in map(_variant, asked)]
    names = [name for name in tables[0].columns if name not in ("relative", "relative_cost", "best", "pareto")]
    return Table({name: [table[name][0] for table in tables] for name in names})


def sweep(scenarios, store, vary=None, set=None, *, jobs=None, progress=None, **options):
    """As compare(), for one scenario or a list of files, kept in a SQLite file, or a folder ("dir/") that any number
    of machines fill at once: what is there already is not computed again. Rows are known by the name of their file and their
    settings."""
    one = isinstance(scenarios, (str, bytes, dict, Scenario, Values, _os.PathLike))
    sources = [_source(scenario) for scenario in ([scenarios] if one else scenarios)]
    files = {name: text for _, texts in sources for name, text in (texts or {}).items()}
    vary = vary or {}
    words = ["sweep", *(path for path, _ in sources), *_sets(_settings(scenarios, set)), *_vary(vary),
             "--store", _os.fspath(store), *_options({"jobs": jobs, **options}), "--format", "csv"]
    return _figures(_with_errors(words, files, progress), vary)


def _with_errors(words, files, progress=None):
    """A table in CSV; where no combination works, with the error of each."""
    try:
        return Answer(words, files, progress).out
    except Error as error:
        if not error.answer.out:
            raise
        return error.answer.out


class Scenario:
    """A file or a dict, with settings that all questions about it share."""

    def __init__(self, scenario, set=None):
        self._path, self._files = _source(scenario)
        self._set = _settings(scenario, set)

    def run(self, set=None, **options):
        return run(self, set, **options)

    def measure(self, backend="loopback", set=None, **options):
        return measure(self, backend, set, **options)

    def validate(self, backend="loopback", set=None, **options):
        return validate(self, backend, set, **options)

    def plan(self, set=None, **options):
        return plan(self, set, **options)

    def explain(self, set=None, **options):
        return explain(self, set, **options)

    def compare(self, vary, set=None, **options):
        return compare(self, vary, set, **options)

    def sweep(self, store, vary=None, set=None, **options):
        return sweep(self, store, vary, set, **options)

    def groups(self, set=None, **options):
        return groups(self, set, **options)

    def check(self, set=None):
        return check(self, set)

    def export(self, format, set=None):
        return export(self, format, set)

    def __repr__(self):
        settings = ", ".join(f"{key}={_text(value)}" for key, value in self._set.items())
        return f"<scenario {self._path}{': ' + settings if settings else ''}>"
