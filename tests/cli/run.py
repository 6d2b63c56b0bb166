#!/usr/bin/env python3
"""What the command line promises, told in text files: run.py [--build FOLDER] [--only TITLE] FILE...

    # A comment.                          A file is a test, "==" begins a case of it, with a folder $T that is gone
    let SMALL = --pipeline 4              after it. ${SMALL} stands for the text, to the end of the case; before the
    == the title of a case                first case: of the file. "let NAME := EXPRESSION" names a value.
    write s.yaml                          A file in $T. Text that belongs to a line is indented by four below it.
        version: 1
    $ rehearse run $T/s.yaml --set a=1    A command line of bash, in the top folder of the tree. Its exit status is
        --format json                     expected to be 0, unless "exit STATUS" follows ("exit any").
    exit 2
    > first line                          The whole standard output, line by line: "> ..." stands for lines that are
    > ...                                 left out, "> /PATTERN/" for one that matches.
    as first                              Keeps this answer: first.out, first.err, first.json, first:/rows/0 later.
    out has "text"                        EXPRESSION OPERATOR EXPRESSION, in Python, of
    /rows/0/cost_s ~ 2 * 0.165              out, err (text), json (out, read), /a/0/b (a pointer into json: "*" is all
    each /rows/*/fits = true                of a list or mapping, k=v the entry of a list whose k is v), file("name in
    file("x.svg") starts "<svg "            $T"), load("name in $T") (its JSON), at("/a/b"), lines(text), count(text,
    /time_s ~ 0.31 within 1e-3              part), width(text) (of its widest line), rows(text) (of CSV),
                                            findall(pattern, text), and Python's own.
    for LINE, HINT in                     Repeats what follows down to "end", with ${LINE} and ${HINT} of each row;
        run x => no such file             "for X in a b c" has a row per word. What is repeated is indented by two;
                                          without a command in it, it is expected of the one before.
      $ rehearse ${LINE}
      ...
    end
    if command -v zsh                     Down to "end" only where this command line succeeds.

Operators: = != < <= > >=; ~ (equal to 1e-6 of the larger, or "within" another share; lists one by one); has, lacks,
in; starts, ends, matches (a regular expression, somewhere). "each" wants them of every entry of a list, which must
have some. A division is written with spaces around it.
"""
import argparse
import builtins
import csv
import functools
import io
import json
import math
import operator
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 240  # of one command line


class Wrong(Exception):
    """The file does not keep to the format."""

    def __init__(self, message, number=None):
        super().__init__(message)
        self.number = number


# Reading ------------------------------------------------------------------------------------------------------------

OPERATORS = ["=", "!=", "<=", ">=", "<", ">", "~", "has", "lacks", "in", "starts", "ends", "matches"]
STRING = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\''


class Step:
    def __init__(self, number, kind, text, block=(), body=()):
        self.number, self.kind, self.text, self.block, self.body = number, kind, text, list(block), list(body)


def split(text):
    """Left side, operator and right side: the first operator outside of strings and brackets."""
    depth = 0
    for match in re.finditer(STRING + r"|[(\[{]|[)\]}]|(?<= )(?:" + "|".join(OPERATORS) + r")(?= )", text):
        found = match.group()
        if found in "([{":
            depth += 1
        elif found in ")]}":
            depth -= 1
        elif depth == 0 and found in OPERATORS:
            return text[: match.start()].strip(), found, text[match.end() :].strip()
    raise Wrong("no operator")


def python(text):
    """The expression with pointers as calls: /a/b becomes at("/a/b", None), name:/a becomes at("/a", name)."""
    pattern = STRING + r"|(?:(?<![\w)\]])(\w+):)?(?<![\w)\]])(/[^\s,()\[\]/][^\s,()\[\]]*)"

    def call(match):
        return f"at({match[2]!r}, {match[1]})" if match[2] else match.group()

    return re.sub(pattern, call, text)


def compiled(text):
    try:
        return compile(python(text), "expression", "eval")
    except SyntaxError as error:
        raise Wrong(f"no expression: {text!r} ({error.msg})") from error


class Reader:
    def __init__(self, text):
        self.lines, self.at = text.split("\n"), 0

    def block(self, indent):
        taken = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and not line.startswith(" " * indent):
                break
            taken.append(line[indent:])
            self.at += 1
        while taken and not taken[-1].strip():
            taken.pop()
        return taken

    def steps(self, indent=0):
        found = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip() or line.lstrip().startswith("#"):
                self.at += 1
                continue
            begin = len(line) - len(line.lstrip())
            if begin < indent:
                break
            self.at += 1
            number, text = self.at, line[indent:].rstrip()
            try:
                if begin > indent:
                    raise Wrong("indented, and belongs to nothing")
                found.append(self.step(number, text, indent))
            except Wrong as wrong:
                raise Wrong(str(wrong), wrong.number or number) from None
        return found

    def step(self, number, text, indent):
        word, _, rest = text.partition(" ")
        if word not in ("write", "for"):  # whose lines below are no continuation
            text = " ".join([text] + [line.strip() for line in self.block(indent + 4)])
            rest = text[len(word) :]
        rest = rest.strip()
        if word == "==":
            return Step(number, "case", rest)
        if word == "$":
            return Step(number, "run", rest)
        if word == "write":
            return Step(number, "write", rest, self.block(indent + 4))
        if word in ("for", "if"):
            rows = self.block(indent + 4) if word == "for" else []
            if word == "for":
                names, is_in, values = (" " + rest + " ").partition(" in ")
                names = [name.strip() for name in names.split(",")]
                if not is_in or not all(re.fullmatch(r"[A-Z]\w*", name) for name in names):
                    raise Wrong("written: for NAME, NAME in")
                table = [[cell.strip() for cell in row.split("=>")] for row in rows if row.strip()]
                table += [[value] for value in values.split()]
                if not table or any(len(row) != len(names) for row in table):
                    raise Wrong(f"wants rows of {len(names)}")
                rest = names, table
            elif not rest:
                raise Wrong("wants a command line")
            body = self.steps(indent + 2)
            if self.at == len(self.lines) or self.lines[self.at].strip() != "end":
                raise Wrong("has no end")
            self.at += 1
            return Step(number, word, rest, body=body)
        if word == "let":
            if not re.match(r"[A-Z]\w* :?= ?", rest):
                raise Wrong("written: let NAME = TEXT, or let NAME := EXPRESSION")
            return Step(number, "let", rest)
        if word == ">" or text == ">":
            return Step(number, "shows", text[2:])
        if word == "exit":
            if not re.fullmatch(r"any|\d+|\$\{\w+\}", rest):
                raise Wrong("written: exit STATUS, or exit any")
            return Step(number, "exit", rest)
        if word == "as":
            if not re.fullmatch(r"[a-z]\w*", rest) or rest in GIVEN:
                raise Wrong("written: as NAME, in small letters, and none that means something")
            return Step(number, "as", rest)
        split(text)
        return Step(number, "expect", text)


def cases_of(text):
    """What stands before the first case, and the cases as (title, steps)."""
    reader = Reader(text)
    before, cases = [], []
    for step in reader.steps():
        if step.kind == "case":
            cases.append((step.text, []))
        elif not cases and step.kind != "let":
            raise Wrong("before the first case only let may stand", step.number)
        else:
            (cases[-1][1] if cases else before).append(step)
    if reader.at < len(reader.lines):
        raise Wrong("an end of nothing", reader.at + 1)
    if not cases:
        raise Wrong("no case", 1)
    for title, steps in cases:
        if not any(step.kind in ("run", "for", "if") for step in steps):
            raise Wrong(f"case '{title}' runs nothing", steps[0].number if steps else 1)
    return before, cases


# Expressions --------------------------------------------------------------------------------------------------------


class Answer:
    def __init__(self, command, status, out, err):
        self.command, self.status, self.out, self.err = command, status, out, err

    @functools.cached_property
    def json(self):
        return json.loads(self.out)


def at(value, path):
    """What a pointer names; a list for one with "*"."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    for i, step in enumerate(steps):
        if step == "*":
            below = "".join("/" + s for s in path.split("/")[i + 2 :])
            entries = value.values() if isinstance(value, dict) else value
            return [at(entry, below) if below else entry for entry in entries]
        if isinstance(value, list):
            key, equals, wanted = step.partition("=")
            if equals:
                value = next((entry for entry in value if str(entry.get(key)) == wanted), None)
                if value is None:
                    raise LookupError(f"no entry with {step} ({path})")
            elif not step.isdigit() or int(step) >= len(value):
                raise LookupError(f"no entry {step} of {len(value)} ({path})")
            else:
                value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            raise LookupError(f"no '{step}' ({path})")
    return value


def near(a, b, share=1e-6):
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(near(x, y, share) for x, y in zip(a, b))
    return abs(a - b) <= share * max(abs(a), abs(b))


TESTS = {
    "=": lambda a, b: type(a) is not bool and a == b if type(b) is not bool else a is b,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "~": near,
    "has": lambda a, b: b in a,
    "lacks": lambda a, b: b not in a,
    "in": lambda a, b: a in b,
    "starts": str.startswith,
    "ends": str.endswith,
    "matches": lambda a, b: re.search(b, a, re.MULTILINE) is not None,
}
GIVEN = {name: getattr(builtins, name) for name in
         "abs all any float int len list max min range round set sorted str sum type zip".split()}
GIVEN |= {"sqrt": math.sqrt, "prod": math.prod, "findall": re.findall, "true": True, "false": False, "null": None,
          "at": None, "file": None, "load": None, "out": None, "err": None, "json": None, "lines": str.splitlines,
          "count": str.count,
          "width": lambda text: max(map(len, text.splitlines()), default=0),
          "rows": lambda text: list(csv.DictReader(io.StringIO(text)))}


def matches_shown(shown, lines):
    """Whether these lines are what is shown, "..." standing for any number of lines."""
    if not shown:
        return not lines
    if shown[0] == "...":
        return any(matches_shown(shown[1:], lines[i:]) for i in range(len(lines) + 1))
    first = shown[0]
    pattern = len(first) > 2 and first[0] == first[-1] == "/"
    alike = lines and (re.fullmatch(first[1:-1], lines[0]) if pattern else first == lines[0].rstrip())
    return bool(alike) and matches_shown(shown[1:], lines[1:])


def shown(text, texts):
    """Filled as far as it can be."""
    return re.sub(r"\$\{(\w+)\}", lambda match: texts.get(match[1], match[0]), str(text))


def cut(text, most=3000):
    text = text if isinstance(text, str) else json.dumps(text, default=str)
    return text if len(text) <= most else text[:most] + f" ... ({len(text)} characters)"


# Running ------------------------------------------------------------------------------------------------------------


class Case:
    def __init__(self, title, folder, environment, fail):
        self.title, self.folder, self.fail = title, folder, fail
        self.environment = dict(environment, T=str(folder))
        self.texts, self.kept = {"T": str(folder)}, {}
        self.answer, self.status, self.shown, self.expectations = None, None, [], 0

    def filled(self, text):
        def value(match):
            if match[1] not in self.texts:
                raise LookupError(f"no {match[0]}")
            return self.texts[match[1]]

        return re.sub(r"\$\{(\w+)\}", value, text)

    def value(self, text):
        names = dict(GIVEN, file=self.file, load=lambda name: json.loads(self.file(name)), **self.kept)
        if self.answer:
            names.update(out=self.answer.out, err=self.answer.err)
        if self.answer and re.search(r"(?<!\.)\bjson\b", re.sub(STRING, "", text)):
            names["json"] = self.answer.json
        names["at"] = lambda path, of=None: at((of or self.answer).json, path)
        return eval(compiled(text), names | {"__builtins__": {}})

    def file(self, name):
        return (self.folder / name).read_text(errors="replace")

    def bash(self, command):
        process = subprocess.Popen(["bash", "-c", command], cwd=TOP, env=self.environment, start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise TimeoutError(f"not done after {SECONDS} s") from None
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Answer(command, status, out.decode(errors="replace"), err.decode(errors="replace"))

    def settle(self):
        """What is expected of the last command as a whole."""
        if not self.answer:
            return
        if self.status is not None:
            step, wanted = self.status
            self.expectations += wanted != "any"
            if wanted != "any" and self.answer.status != int(wanted):
                self.report(step, f"exit {wanted}", f"exit {self.answer.status}\n{self.answer.err}")
        if self.shown:
            self.expectations += 1
            expected = [text for _, text in self.shown]
            if not matches_shown(expected, self.answer.out.splitlines()):
                self.report(self.shown[0][0], "\n".join(expected), self.answer.out)
        self.answer, self.status, self.shown = None, None, []

    def report(self, step, expected, came):
        after = f"\n  after: {self.answer.command}" if self.answer else ""
        self.fail(step.number, self.title, f"  expected: {cut(expected)}\n  came: {cut(came)}{after}")

    def run(self, steps):
        for step in steps:
            try:
                self.perform(step)
            except Exception as error:  # what cannot be evaluated does not hold
                self.report(step, shown(step.text, self.texts), f"{type(error).__name__}: {error}")

    def perform(self, step):
        if step.kind == "run":
            self.settle()
            self.status = step, "0"
            self.answer = self.bash(self.filled(step.text))
        elif step.kind == "exit":
            if not self.answer:
                raise LookupError("no command before it")
            self.status = step, self.filled(step.text)
        elif step.kind == "shows":
            if not self.answer:
                raise LookupError("no command before it")
            self.shown.append((step, self.filled(step.text).rstrip()))
        elif step.kind == "as":
            self.kept[step.text] = self.answer
        elif step.kind == "write":
            path = self.folder / self.filled(step.text)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.filled("".join(line + "\n" for line in step.block)))
        elif step.kind == "let":
            name, sign, text = re.match(r"(\w+) (:?=) ?(.*)", step.text).groups()
            value = self.value(self.filled(text)) if sign == ":=" else self.filled(text)
            self.texts[name] = value if isinstance(value, str) else json.dumps(value)
        elif step.kind == "for":
            names, table = step.text
            for row in table:
                self.texts.update(zip(names, map(self.filled, row)))
                self.run(step.body)
        elif step.kind == "if":
            if self.bash(self.filled(step.text)).status == 0:
                self.run(step.body)
        else:
            self.expect(step)

    def expect(self, step):
        self.expectations += 1
        text = self.filled(step.text)
        each = text.startswith("each ")
        left, sign, right = split(text[5:] if each else text)
        right, within, share = right.partition(" within ") if sign == "~" else (right, "", "")
        came, expected = self.value(left), self.value(right)
        test = TESTS[sign] if not within else lambda a, b: near(a, b, self.value(share))
        if each and not came:
            self.report(step, f"{left} {sign} {right} of every entry", "no entry")
        for one in came if each else [came]:
            if not test(one, expected):
                self.report(step, f"{left} {sign} {cut(expected)}" + within + share, one)
                return


def run_text(text, name, environment, only="", say=print):
    """Runs the cases of a file; returns how many expectations were met and how many complaints there were."""
    complaints, met = 0, 0
    try:
        before, cases = cases_of(text)
        for step in [step for _, steps in cases for step in steps]:
            check_expressions(step)
    except Wrong as wrong:
        say(f"{name}:{wrong.number}: {wrong}")
        return 0, 1

    def fail(number, title, message):
        nonlocal complaints
        complaints += 1
        say(f"{name}:{number}: {title}\n{message}")

    for title, steps in cases:
        if only not in title:
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="rehearse_cli_"))
        try:
            case = Case(title, folder, environment, fail)
            case.run(before + steps)
            case.settle()
            met += case.expectations
        finally:
            shutil.rmtree(folder)
    if not met and not complaints:
        say(f"{name}: nothing was expected")
        complaints = 1
    return met, complaints


def check_expressions(step):
    """Finds what is no expression before anything runs; one with ${...} shows itself when it is filled."""
    for below in step.body:
        check_expressions(below)
    if step.kind == "expect" and "${" not in step.text:
        try:
            left, sign, right = split(step.text.removeprefix("each "))
            for side in [left] + right.split(" within ")[: 2 if sign == "~" else 1]:
                compiled(side)
        except Wrong as wrong:
            raise Wrong(str(wrong), step.number) from None


def environment_of(build):
    """No terminal, no width, no colours and no profiles of the user who runs the tests."""
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR") and not k.startswith("REHEARSAL_")}
    return kept | {"PATH": f"{build}:{kept['PATH']}", "REHEARSAL_PROFILES": "/nowhere", "BUILD": str(build)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=TOP / "build/release", type=pathlib.Path, help="where rehearse was built")
    parser.add_argument("--only", default="", metavar="TITLE", help="only cases with this in their title")
    parser.add_argument("files", nargs="+", metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    wrong = 0
    for path in arguments.files:
        met, complaints = run_text(path.read_text(), path, environment_of(arguments.build.resolve()), arguments.only)
        print(f"{path.name}: {met} expectations, {complaints} complaints")
        wrong += complaints
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
