#!/usr/bin/env python3
"""A scenario is exported as Megatron's arguments, performed, and written down as the log that Megatron would print of that
run; `validate --log` makes the same scenario of it, and the same step: what is predicted is what `run` predicts, what is
measured is what `measure` measured."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = sys.argv[1]
SCENARIO = """\
version: 1
name: two stages
model: {family: llama, layers: 4, hidden: 512, heads: 8, ffn: 1408, vocabulary: 32000, sequence: 512}
cluster: {use: dgx-h100, gpus: 4}
parallelism: {pipeline: 2, data: 2, zero: 1}
batch: {global: 16, micro: 2}
framework: megatron-lm-2025
"""


def rehearse(*words):
    done = subprocess.run([BINARY, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def table(arguments):
    """The arguments as training/arguments.py _print_args shows them: flags are True."""
    lines = ["------------------------ arguments ------------------------"]
    for line in arguments.splitlines():
        name, _, value = line.removeprefix("--").partition(" ")
        lines.append(f"  {name.replace('-', '_') + ' ':.<48} {value or 'True'}")
    lines.append("  world_size ...................................... 4")
    return lines + ["-------------------- end of arguments ---------------------"]


with tempfile.TemporaryDirectory() as folder:
    scenario, log = folder + "/s.yaml", folder + "/train.log"
    pathlib.Path(scenario).write_text(SCENARIO)
    predicted = json.loads(rehearse("run", scenario, "--format", "json"))
    measured = json.loads(rehearse("measure", scenario, "--backend", "loopback", "--compute", "timed", "--iterations", "20",
                                   "--format", "json", "--quiet"))
    ends = measured["iterations"]["each_s"]
    lines = table(rehearse("export", scenario, "--as", "megatron", "--quiet"))
    steps = [seconds * 1e3 for seconds in ends]
    for i, ms in enumerate(steps, 1):
        lines.append(f" [2026-01-01 00:00:{i:02}] iteration {i:8}/{len(steps):8} | consumed samples: {16 * i:12} | elapsed "
                     f"time per iteration (ms): {ms:.4f} | global batch size: {16:5} |")
    pathlib.Path(log).write_text("\n".join(lines) + "\n")
    answer = json.loads(rehearse("validate", "--log", log, "--cluster", "dgx-h100", "--format", "json", "--quiet"))["logs"][0]

kept = sorted(steps[answer["dropped"]:])
assert answer["dialect"] == "Megatron" and answer["gpus"] == 4, answer
assert abs(answer["predicted_s"] / predicted["iteration_s"] - 1) < 1e-12, (answer["predicted_s"], predicted["iteration_s"])
assert answer["iterations"] == len(kept)
assert min(abs(answer["measured_s"] * 1e3 - m) for m in kept) < 1e-3, "no iteration of the log"
assert abs(answer["measured_s"] * 1e3 / statistics.median(kept) - 1) < .1
print(f"predicted {answer['predicted_s'] * 1e3:.3f} ms, measured {answer['measured_s'] * 1e3:.3f} ms")
