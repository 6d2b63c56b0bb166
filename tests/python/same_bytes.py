#!/usr/bin/env python3
"""The command line and the library say the same, byte for byte, of every scenario there is and of
wrong input: standard output, standard error, status."""

import os
import pathlib
import subprocess
import sys

import rehearsal as rh

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = [["run", "no-such-file.yaml"], ["run"], ["rum"], [], ["run", "scenarios/teaching-1f1b-8-stages.yaml", "--fromat"],
         ["run", "scenarios/teaching-1f1b-8-stages.yaml", "--set", "schedule=gpip"],
         ["check", "tests/fidelity/training_runs.csv"], ["plan", "scenarios/teaching-1f1b-8-stages.yaml"],
         ["schedule", "zb-h3", "--pipeline", "4"], ["list", "modles"], ["compare", "scenarios/README.md"],
         ["explain", "scenarios/llama3-8b-dgx-h100.yaml", "--only", "nothing"], ["--version"], ["run", "--help"]]


def asked():
    for path in sorted(ROOT.glob("scenarios/**/*.yaml")):
        name, kind = str(path.relative_to(ROOT)), path.parent.name
        command = kind if kind in ("balance", "reshard") else "run"
        yield [command, name, "--format", "json"] if command == "run" else [command, name]
    for model in ("gpt3-175b-1024xa100", "llama3-8b-dgx-h100", "teaching-1f1b-8-stages", "llama3-70b-64xh100"):
        for settings in (["--set", "batch.micro=2"], ["--format", "csv"], []):
            yield ["run", f"scenarios/{model}.yaml", *settings]
    yield from WRONG


def main(program):
    differ, count = [], 0
    for words in asked():
        count += 1
        of_program = subprocess.run([program, *words], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        try:
            answer = rh.Answer(words)
        except (rh.Error, rh.MachineError) as error:
            answer = error.answer
        if (answer.status, answer.out, answer.err) != (of_program.returncode, of_program.stdout, of_program.stderr):
            differ.append(words)
            print("differs:", words, answer.status, of_program.returncode, answer.err[:200], of_program.stderr[:200])
    print(f"{count} command lines, {len(differ)} differ")
    return 1 if differ or count < 60 else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(os.environ["REHEARSE"]))
