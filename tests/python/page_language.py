"""What GCC takes and the compiler of the page refuses, found without that compiler: page_language.py [FILE...]

Emscripten of Debian 12 is Clang 14 with libc++ 13 (sim/design/browser.md). Two refusals are found in the text:
- a lambda that captures a structured binding, by name or by [&] and [=];
- an algorithm or a view of std::ranges, but for those of web/shim.
What else it refuses, only `tools/web` tells. Without arguments CASES are read first, which a clang++ before 16 judges, too,
where there is one; then every file that tools/cmake/browser.cmake does not leave out.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
APART = {"sim/perform"}  # parts of modules, which no page loads
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
                   r"""|\#[^\n]*(?:\\\n[^\n]*)*|[A-Za-z_]\w*|\d[\w'.]*|::|->|\S""", re.S)
BINDING = re.compile(r"\bauto\s*&*\s*\[")
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, set(")]}")
HEADED = {"for", "if", "while", "switch"}
BEFORE_LAMBDA = {"return", "co_return", "co_yield", "co_await", "else", "case", "throw"}

# (body of a function, the name whose capture is refused or None)
CASES = [
    ("auto [a, b] = p; f([a] { return a; });", "a"),
    ("auto [a, b] = p; f([&b] { return b; });", "b"),
    ("auto& [a, b] = p; f([&] { return 1 + b; });", "b"),
    ("const auto [a, b] = p; f([=] { return a; });", "a"),
    ("for (const auto& [a, b] : all) f([&] { return a; });", "a"),
    ("for (const auto& [a, b] : all) { if (a) f([&] { return f([&] { return a; }); }); }", "a"),
    ("if (const auto [a, b] = p; a) f([&] { return b; });", "b"),
    ("auto [a, b] = p; f([&, b = b] { return a + b; });", "a"),
    ("auto [a, b] = p; f([&] { f([b = b] { return b; }); return 0; });", "b"),
    ("auto [a, b] = p; f([&, a = a] { return a; });", None),
    ("auto [a, b] = p; f([a = a] { return f([&] { return a; }); });", None),
    ("auto [a, b] = p; f([&](int a) { return a; });", None),
    ("auto [a, b] = p; f([&] { const int b = 1; return b; });", None),
    ("auto [a, b] = p; f([&] { auto [a, b] = q; return b; });", None),
    ("auto [a, b] = p; f([&] { return q.a + r->b + S::a; });", None),
    ("for (const auto& [a, b] : all) g(a); const int a = 1; f([&] { return a; });", None),
    ("{ auto [a, b] = p; g(a); } int b = 1; f([&] { return b; });", None),
    ("auto [a, b] = p; int c[3] = {}; g(c[a]);", None),
]
PRELUDE = ("struct S { static constexpr int a = 0; }; struct P { int a = 0, b = 0; }; void g(int);\n"
           "template <class F> int f(F&& function) { return sizeof(function); }\n"
           "inline void all_of_them() { P p, q, *r = &p; P all[2]; (void)q, (void)r, (void)all;\n")


class Source:
    def __init__(self, text, name="", line=1):
        self.name, self.found = name, []
        self.tokens, self.lines = [], []
        at = 0
        for match in TOKEN.finditer(text):
            line += text.count("\n", at, match.start())
            at = match.start()
            if match.group().startswith(("//", "/*", "#")):
                continue
            literal = match.group()[0] in "\"'" or match.group().startswith('R"')
            self.tokens.append("0" if literal else match.group())
            self.lines.append(line)
        self.tokens.append("")
        self.pairs, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token in OPEN:
                stack.append(i)
            elif token in CLOSE and stack:
                self.pairs[stack.pop()] = i

    def at(self, i):
        return self.tokens[i] if 0 <= i < len(self.tokens) else ""

    def end_of_statement(self, i):
        """The place behind the statement that begins here."""
        if self.at(i) in HEADED:
            i += 2 if self.at(i + 1) == "constexpr" else 1
            return self.end_of_statement(self.pairs.get(i, i) + 1)
        while i < len(self.tokens) and self.at(i) not in (";", ""):
            if self.at(i) == "{":
                return self.pairs.get(i, i) + 1
            i = self.pairs.get(i, i) + 1 if self.at(i) in OPEN else i + 1
        return i + 1

    def binding(self, i):
        """The names that a structured binding here declares, and the place behind it."""
        if self.at(i) != "auto":
            return [], i
        i += 1
        while self.at(i) == "&":
            i += 1
        if self.at(i) != "[" or self.at(self.pairs.get(i, -1) + 1) not in ("=", ":", "{", "("):
            return [], i
        end = self.pairs[i]
        return [t for t in self.tokens[i + 1:end] if t != ","], end + 1

    def lambda_at(self, i):
        """What is captured, and where parameters and body of a lambda here begin and end; None: it is none."""
        before = self.at(i - 1)
        if self.at(i) != "[" or self.at(i + 1) == "[" or before == "[":
            return None
        if (re.match(r"\w", before) and before not in BEFORE_LAMBDA) or before in (")", "]"):
            return None
        end = self.pairs.get(i, i)
        body = end + 1
        if self.at(body) == "<":
            while self.at(body) not in ("(", "{", ""):
                body += 1
        parameters = body
        while self.at(body) not in ("{", ";", ")", "]", "}", ""):
            body = self.pairs.get(body, body) + 1 if self.at(body) in ("(", "[") else body + 1
        if self.at(body) != "{":
            return None
        captures, depth, one = [], 0, []
        for j in range(i + 1, end + 1):
            token = self.at(j)
            if j == end or (token == "," and depth == 0):
                captures.append(one)
                one = []
                continue
            depth += (token in OPEN) - (token in CLOSE)
            one.append(j)
        return captures, parameters, body, self.pairs.get(body, len(self.tokens) - 1)

    def declares(self, i):
        """Whether the name here is that of a new variable or parameter."""
        before, after = self.at(i - 1), self.at(i + 1)
        if after not in ("=", ";", ",", ")", ":", "{", "(", "["):
            return False
        if before in ("&", "*"):
            return self.at(i - 2) == "auto" or (re.match(r"[A-Z]\w*$", self.at(i - 2)) is not None) or self.at(i - 2) == ">"
        return before in ("auto", ">") or (re.match(r"[A-Za-z_]\w*$", before) is not None and
                                           before not in BEFORE_LAMBDA | {"and", "or", "not"})

    def walk(self, i, end, bound, captured):
        """`bound`: names of structured bindings, and the places behind their scopes. `captured`: within a lambda with
        [&] or [=], the names of those outside that it may not use; they go where they are declared again."""
        bound, captured = dict(bound), set(captured)
        block_end = end
        while i < end:
            token = self.at(i)
            for name in [n for n, until in bound.items() if until <= i]:
                del bound[name]
            names, behind = self.binding(i)
            if names:
                header = next((o for o in range(i, max(i - 400, -1), -1)
                               if self.at(o) == "(" and self.pairs.get(o, -1) > i and
                               self.at(o - 1) in HEADED | {"constexpr"}), None)
                until = block_end if header is None else self.end_of_statement(self.pairs[header] + 1)
                bound.update({name: until for name in names})
                captured -= set(names)
                i = behind
                continue
            found = self.lambda_at(i)
            if found:
                captures, parameters, body, close = found
                inner, kept = set(), set(bound) | captured
                for one in captures:
                    words = [self.at(j) for j in one]
                    if "=" in words[1:]:
                        at = words.index("=", 1)
                        kept.discard(words[at - 1])
                        self.walk(one[at], one[-1] + 1, bound, captured)
                    elif words in (["&"], ["="]):
                        inner = True
                    elif words and words[-1] in bound:
                        self.say(one[-1])
                        kept.discard(words[-1])
                self.walk(parameters, close + 1, {}, kept if inner else set())
                i = close + 1
                continue
            if token == "{":
                close = self.pairs.get(i, end)
                self.walk(i + 1, min(close, end), bound, captured)
                i = close + 1
                continue
            if token in captured or token in bound:
                if self.declares(i):
                    captured.discard(token), bound.pop(token, None)
                elif token in captured and self.at(i - 1) not in (".", "->", "::"):
                    self.say(i)
                    captured.discard(token)
            i += 1

    def say(self, i):
        self.found.append((self.lines[i], self.at(i)))

    def captures(self):
        self.walk(0, len(self.tokens) - 1, {}, set())
        return self.found


def of_ranges(text, allowed):
    if "ranges::" not in text and "views::" not in text:
        return
    for i, line in enumerate(text.split("\n"), 1):
        for name in re.findall(r"\bstd::ranges::(\w+)\s*\(", line.split("//")[0]):
            if name not in allowed:
                yield i, f"std::ranges::{name}"
        if re.search(r"\bstd::(ranges::)?views::", line.split("//")[0]):
            yield i, "std::views"


def clang_judges():
    clang = shutil.which("clang++")
    if not clang or int(re.search(r"version (\d+)", subprocess.check_output([clang, "--version"], text=True)).group(1)) >= 16:
        return None
    text = PRELUDE + "".join("{" + body + "}\n" for body, _ in CASES) + "}\n"
    done = subprocess.run([clang, "-std=c++20", "-fsyntax-only", "-ferror-limit=0", "-x", "c++", "-"], input=text, text=True,
                          capture_output=True)
    errors = re.findall(r"<stdin>:(\d+):\d+: error: (.*)", done.stderr)
    known = ("reference to local binding", "in capture list does not name a variable")
    refused = {int(line) for line, what in errors if any(words in what for words in known)}
    others = [what for _, what in errors if not any(words in what for words in known)]
    return refused, others


def main():
    shim = (ROOT / "web/shim/prelude.hpp").read_text()
    allowed = {"begin", "end", "size", "data", "swap"} | set(re.findall(r"^\w+ (\w+)\(Range&& range", shim, re.M))
    wrong = 0
    files = [pathlib.Path(file) for file in sys.argv[1:]]
    if not files:
        first = PRELUDE.count("\n") + 1
        judged = clang_judges()
        for i, (body, expected) in enumerate(CASES):
            found = Source("{" + body + "}").captures()
            if [name for _, name in found] != ([expected] if expected else []):
                wrong += 1
                print(f"this test errs: {body}\n    found {found}, expected {expected}")
            if judged and (first + i in judged[0]) != bool(expected):
                wrong += 1
                print(f"clang++ judges otherwise: {body}")
        for line in judged[1] if judged else []:
            wrong += 1
            print(f"a case is no C++: {line}")
        cmake = (ROOT / "tools/cmake/browser.cmake").read_text()
        left_out = set(re.search(r"set\(REHEARSAL_LEFT_OUT\s+(.*?)\)", cmake, re.S).group(1).split()) | APART
        for top in ("sim", "models"):
            for file in sorted((ROOT / top).rglob("*.[ch]pp")):
                name = str(file.relative_to(ROOT))
                if name not in left_out and not any(name.startswith(room + "/") for room in left_out):
                    files.append(file)
    for file in files:
        text = file.read_text()
        name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        for line, what in Source(text).captures() if BINDING.search(text) else []:
            wrong += 1
            print(f"{name}:{line}: captures the structured binding '{what}', which the page's compiler refuses; write "
                  f"[&, {what} = {what}]")
        for line, what in of_ranges(text, allowed):
            wrong += 1
            print(f"{name}:{line}: {what}, which the page's library lacks; write its like of <algorithm>")
    print(f"{len(files)} files of the page, {len(CASES)} cases: {wrong} mistakes")
    return 1 if wrong or not files else 0


sys.exit(main())
