#!/usr/bin/env python3
"""What run.py finds: for each sort of expectation one that holds and one that does not, and files that are none."""
import os
import unittest

import run

JSON = ("""$ echo '{"a": 1, "b": [1.5, 2], "n": null, "yes": true, "s": "text", """
        """"rows": [{"k": "x", "v": 3}, {"k": "y", "v": 4}]}'""")

HOLD_AND_FAIL = [
    # command, what holds, what does not, what is said of that
    ("$ true", "exit 0", "exit 1", "exit 1"),
    ("$ exit 3", "exit 3", "exit 2", "came: exit 3"),
    ("$ exit 3", 'exit any\nout = ""', "exit 0", "came: exit 3"),
    ("$ kill -9 $$", "exit 137", "exit 0", "came: exit 137"),
    ("$ echo a; echo b", "> a\n> b", "> a", "came: a\nb"),
    ("$ echo a; echo b", "> ...\n> b", "> ...\n> a", "came: a\nb"),
    ("$ echo a; echo b; echo a", "> a\n> ...", "> a\n> ...\n> b", "came: a"),
    ("$ echo a1", "> /a\\d/", "> /a/", "came: a1"),
    ("$ true", 'out = ""', 'out = "x"', 'out = x'),
    ("$ echo text", 'out has "tex"', 'out has "tix"', "came: text"),
    ("$ echo text", 'out lacks "tix"', 'out lacks "ext"', "came: text"),
    ("$ echo text >&2", 'err starts "te"', 'err starts "ex"', "came: text"),
    ("$ printf text", 'out ends "xt"', 'out ends "x"', "came: text"),
    ("$ echo a; echo bc", 'out matches "^b.$"', 'out matches "^c"', "came: a"),
    ("$ echo a; echo bcd", "width(out) = 3", "width(out) < 3", "came: 3"),
    ("$ echo a; echo ab", 'count(out, "a") = 2', 'count(out, "a") = 1', "came: 2"),
    ("$ printf 'k,v\\nx,3\\n'", 'rows(out)[0]["v"] = "3"', 'rows(out)[0]["v"] = "4"', "came: 3"),
    ("$ echo inside >$T/f", 'file("f") = "inside\\n"', 'file("f") = ""', "came: inside"),
    ("$ echo '[7]' >$T/f", 'load("f")[0] = 7', 'load("f")[0] = 8', "came: 7"),
    ("$ echo a\n    b", 'out =\n    "a b\\n"', 'out = "a"', "came: a b"),
    ("$ true", 'out = ""', 'file("nowhere") = ""', "FileNotFoundError"),
    (JSON, "/a = 1", "/a = 2", "came: 1"),
    (JSON, "/yes = true", "/yes = 1", "came: true"),
    (JSON, "/a = 1", "/a = true", "came: 1"),
    (JSON, "/n = null", "/n = 0", "came: null"),
    (JSON, "/a != 2", "/a != 1", "came: 1"),
    (JSON, "/b/1 > /b/0", "/b/0 > /b/1", "came: 1.5"),
    (JSON, "/b/0 ~ 1.5000001", "/b/0 ~ 1.50001", "came: 1.5"),
    (JSON, "/b/0 ~ 1.51 within 0.01", "/b/0 ~ 1.51 within 0.001", "came: 1.5"),
    (JSON, "/b ~ [1.5, 2]", "/b ~ [1.5]", "came: [1.5, 2]"),
    (JSON, "/b/1 / 4 = 0.5", "/b/1 / 4 = 0.25", "came: 0.5"),
    (JSON, "/b/1 // 4 = 0", "/b/1 // 4 = 0.5", "came: 0"),
    (JSON, "/b lacks 3", "/b lacks 2", "came: [1.5, 2]"),
    (JSON, '/s in ["text"]', '/s in ["t"]', "came: text"),
    (JSON, 'json lacks "c"', 'json lacks "a"', 'came: {"a"'),
    (JSON, "/rows/k=y/v = 4", "/rows/k=z/v = 4", "no entry with k=z"),
    (JSON, "/rows/*/v = [3, 4]", "/rows/*/v = [4, 3]", "came: [3, 4]"),
    (JSON, "each /rows/*/v > 2", "each /rows/*/v > 3", "came: 3"),
    (JSON, "len(/rows) = 2", "/missing = 2", "no 'missing'"),
    (JSON, "/rows/1/v = 4", "/rows/2/v = 4", "no entry 2 of 2"),
    ("$ echo '[]'", "json = []", "each json = 1", "no entry"),
    ("$ echo no json", 'out has "json"', "/a = 1", "JSONDecodeError"),
    ("$ echo 1\nas one\n$ echo 2", "one.out < out", "one.out = out", "came: 1"),
    (JSON + "\nas one\n$ echo '{\"a\": 1}'", "/a = one:/a", "/a = one:/b/0", "came: 1"),
    (JSON + "\nas one\n$ echo no json", "one:/a = 1", "one:/a = 2", "came: 1"),
    ("for X, Y in\n    1 => 1\n    2 => 2\n  $ echo ${X}", '  out = "${Y}\\n"\nend', '  out = "1\\n"\nend', "came: 2"),
    ("for X in 1 2\n  $ exit ${X}", "  exit ${X}\nend", "  exit 1\nend", "came: exit 2"),
    ("$ echo ab", 'for X in a b\n  out has "${X}"\nend', 'for X in a c\n  out has "${X}"\nend', "came: ab"),
    ("$ echo a", "for X in a\n  > ${X}\nend", "for X in b\n  > ${X}\nend", "came: a"),
    ("let X = 1\n$ echo ${X}", 'out = "${X}\\n"', 'out = "${Y}\\n"', "no ${Y}"),
    ("$ echo '{\"a\": 5}'\nlet X := /a + 1\n$ echo ${X}", 'out = "6\\n"', 'out = "5\\n"', "came: 6"),
    ("write f\n    one\n\n      two\n$ cat $T/f", 'out = "one\\n\\n  two\\n"', 'out = "one\\n"', "came: one"),
    ("if true\n  $ echo a", '  out = "a\\n"\nend', '  out = "b\\n"\nend', "came: a"),
    ("if false\n  $ false\nend\n$ echo a", 'out = "a\\n"', 'out = "b\\n"', "came: a"),
]

NO_FILES = [
    ("", "1: no case"),
    ("$ true\n", "before the first case"),
    ("== a\n", "case 'a' runs nothing"),
    ("== a\n$ true\nout\n", "3: no operator"),
    ("== a\n$ true\nout is 3\n", "3: no operator"),
    ("== a\n$ true\nout = (\n", "3: no expression"),
    ("== a\n$ true\nexit two\n", "3: written: exit STATUS"),
    ("== a\n$ true\nas out\n", "3: written: as NAME"),
    ("== a\n$ true\n  out = 1\n", "3: indented"),
    ("== a\nfor X in\n$ true\nend\n", "2: wants rows"),
    ("== a\nfor X, Y in\n    1\n  $ true\nend\n", "2: wants rows of 2"),
    ("== a\nfor X in 1\n  $ true\n", "2: has no end"),
    ("== a\nfor X in 1\n  $ true\n  exit two\nend\n", "f:4: written: exit STATUS"),
    ("== a\n$ true\nend\n", "3: "),
    ("== a\nif\n  $ true\nend\n", "2: wants a command"),
    ("== a\nlet x = 1\n$ true\n", "2: written: let"),
    ("== a\n$ true\nexit any\n", "nothing was expected"),
    ("== a\nif false\n  $ true\nend\n", "nothing was expected"),
]


def complaints_of(text):
    said = []
    _, number = run.run_text(text, "f", run.environment_of("/nowhere") | {"PATH": os.environ["PATH"]}, say=said.append)
    assert number == len(said)
    return said


class SelfTest(unittest.TestCase):
    def test_what_holds_and_what_does_not(self):
        for command, holds, fails, message in HOLD_AND_FAIL:
            with self.subTest(command=command, holds=holds):
                self.assertEqual(complaints_of(f"== a\n{command}\n{holds}\n"), [])
            with self.subTest(command=command, fails=fails):
                said = complaints_of(f"== a\n{command}\n{fails}\n")
                self.assertEqual(len(said), 1, said)
                self.assertIn(message, said[0])
                lines = f"== a\n{command}\n{fails}".removesuffix("\nend").split("\n")
                line = next((i for i, each in enumerate(lines) if each.strip()[:2] == "> "), len(lines) - 1) + 1
                self.assertTrue(said[0].startswith(f"f:{line}: a\n"), said[0])

    def test_a_status_that_nobody_mentions_is_zero(self):
        self.assertIn("came: exit 1", complaints_of("== a\n$ false\n")[0])
        self.assertIn("came: exit 1", complaints_of('== a\n$ false\nout = ""\n$ true\n')[0])

    def test_no_files(self):
        for text, message in NO_FILES:
            with self.subTest(text=text):
                said = complaints_of(text)
                self.assertEqual(len(said), 1)
                self.assertIn(message, said[0])

    def test_a_folder_of_its_own_for_each_case(self):
        self.assertEqual(complaints_of("== a\n$ touch $T/x\n== b\n$ test ! -e $T/x\n"), [])
        self.assertEqual(complaints_of('let X = 1\n== a\nlet X = 2\n$ echo ${X}\nout = "2\\n"\n'
                                       '== b\n$ echo ${X}\nout = "1\\n"\n'), [])

    def test_a_command_that_does_not_end(self):
        run.SECONDS, before = .2, run.SECONDS
        try:
            self.assertIn("not done", complaints_of("== a\n$ sleep 30\n")[0])
        finally:
            run.SECONDS = before


if __name__ == "__main__":
    unittest.main()
