#!/usr/bin/env python3
"""tools/gpu-measure on the processor, with a pretended nvidia-smi beside it: that every section runs what it can there,
that clock, power and temperature stand beside what was timed, and that its table is read by who reads such tables
(tests/fidelity/torch_kernels.cpp). measure.py FIDELITY_TESTS. Exit status 77 where this Python has no PyTorch."""
import csv
import importlib.util
import os
import runpy
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
TOOL = os.path.join(os.path.dirname(TESTS), "tools", "gpu-measure")
# Of the table of published measurements that ours is read beside.
PUBLISHED = ("kernel,gpu,dtype,direction,causal,seq_len,head_dim,M,N,K,extra,metric,value,unit,peak,efficiency,source,"
             "confidence,note").split(",")
NEEDS_A_GPU = {"fp8", "beside", "memory"}  # these run what a CPU can, and have nothing to time


def main():
    try:
        import torch  # noqa: F401
    except ImportError as why:
        print(f"skipped: {sys.executable}: {why} (Debian: python3-torch, 600 MB)")
        return 77
    failures = []
    nothing = NEEDS_A_GPU | (set() if importlib.util.find_spec("transformers") else {"trainer", "traces"})

    def check(fine, words):
        if not fine:
            failures.append(words)

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "table.csv")
        path = os.path.join(TESTS, "standin") + ":" + os.environ["PATH"]
        r = subprocess.run([sys.executable, TOOL, "--device", "cpu", "--tiny", "--out", file], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env=dict(os.environ, PATH=path, OMP_NUM_THREADS="1"))
        print(r.stdout, end="")
        check(r.returncode == 0, f"exit {r.returncode}")
        with open(file, newline="") as table:
            lines = table.read().splitlines()
        rows = list(csv.DictReader(lines))
        columns = lines[0].split(",")
        with open(os.path.join(TESTS, "fidelity", "measured_h100.csv")) as kept:
            check(columns == kept.readline().strip().split(","), "other columns than measured_h100.csv has")
        check(columns[:len(PUBLISHED)] == PUBLISHED, "published tables have other columns")
        for line in lines:
            check(line.count(",") == len(columns) - 1 and '"' not in line, f"not a cell for each column: {line}")
        for row in rows:
            check("failed" not in row["note"], f"{row['section']}, {row['kernel']}: {row['note']}")
        timed = [r for r in rows if r["p50_us"]]
        sections = runpy.run_path(TOOL)["SECTIONS"]
        for name, _ in sections:
            end = [r["note"] for r in rows if r["section"] == name and r["kernel"] == "section"]
            check(len(end) == 1 and end[0].startswith("done"), f"section {name}: {end or 'did not end'}")
            check((name in nothing) != any(r["section"] == name for r in timed), f"section {name}: what it timed")
        check(all(float(r["p50_us"]) > 0 for r in timed), "something took no time")
        beside = [r for r in timed if r["clock_mhz"] == "1980.0" and r["temperature_c"] == "45.0" and r["held_by"] == "power cap"]
        check(2 * len(beside) > len(timed), f"clock, power and temperature stand beside {len(beside)} of {len(timed)} rows")
        r = subprocess.run([sys.argv[1], "--source-file=*/torch_kernels.cpp", "--test-case=*gpu-measure writes today*"],
                           env=dict(os.environ, REHEARSAL_MEASURED=file), text=True, stdout=subprocess.PIPE)
        check(r.returncode == 0 and "test cases: 1 | 1 passed" in " ".join(r.stdout.split()), f"its reader: {r.stdout}")
    for words in failures:
        print("FAILED:", words)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
