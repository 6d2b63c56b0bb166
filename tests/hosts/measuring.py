#!/usr/bin/env python3
"""What is measured over `rehearse hosts` besides times: bytes on each link beside the prediction, clocks that differ by hours,
and the profile that calibrate makes of the links. Skipped, with the reason, where this process may not make network
namespaces."""
import json
import pathlib
import re
import sys
import tempfile

from support import BINARY, NAME, SCENARIO, around, call, done, hosts, why_not

MEASURE = [BINARY, "measure", SCENARIO, "--backend", "mpi", "--compute", "timed", "--warmup", "0", "--iterations", "2",
           "--format", "json"]


def links():
    """Three NICs send and receive. A NIC counts what TCP hands to it: packets of up to 16 KB (gso_max_size) with one header of 66
    bytes each, and smaller ones; answers to what comes the other way, and what started the ranks."""
    ran = hosts("run", SCENARIO, "--", "--warmup", "0", "--iterations", "4", "--format", "json")
    rows = json.loads(done(ran))["link_bytes"]
    assert len(rows) == 6, rows
    for row in rows:
        assert 1.004 < row["counted_bytes"] / row["predicted_bytes"] < 1.05, row
    print(f"{rows[0]['name']}: {rows[0]['counted_bytes']:.0f} bytes counted, {rows[0]['predicted_bytes']:.0f} predicted")
    text = done(hosts("run", SCENARIO, "--", "--warmup", "0", "--iterations", "1"))
    assert re.search(r"Links +node [012] NIC 0", text) and re.search(r"Clocks +those of two hosts", text), text


def uneven():
    """Experts of three hosts that get 6, 2 and 1 of 9 tokens, and send them back: the first host receives most on the way there and
    sends most on the way back, so links differ from each other, and all together carry what is predicted of all."""
    sets = ["framework=megatron-2025", "model={family: moe, layers: 2, hidden: 128, heads: 4, vocabulary: 512, sequence: 256, ffn: 64, "
            "experts: 3, experts_per_token: 1}", "parallelism={data: 3, expert: 3}", "experts={skew: [6, 2, 1]}"]
    ran = hosts("run", SCENARIO, "--", *(word for s in sets for word in ("--set", s)), "--warmup", "0", "--iterations", "2", "--format", "json")
    rows = json.loads(done(ran))["link_bytes"]
    counted, predicted = (sum(row[what] for row in rows) for what in ("counted_bytes", "predicted_bytes"))
    assert 1.004 < counted / predicted < 1.05, (counted, predicted)
    each = sorted(row["counted_bytes"] for row in rows)
    assert each[-1] > 1.2 * each[0], each
    print(f"uneven experts: {counted:.0f} bytes counted, {predicted:.0f} predicted")


def alone():
    """Each kind by its steps and by the library; by its steps, every link carries what is predicted."""
    for kind in "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "shift":
        for who in "own", "library":
            ran = hosts("run", "--", BINARY, "collective", kind, "--ranks", "3", "--size", "4MB", "--cluster", SCENARIO, "--backend", "mpi",
                        "--collectives", who, "--format", "json")
            answer = json.loads(done(ran))
            assert ran.stderr == "" and answer["measured"]["collectives"] == who, (ran.stderr, answer["measured"])
            used = [row for row in answer["measured"]["link_bytes"] if row["predicted_bytes"] > 0]
            assert len(used) >= 4, answer["measured"]
            for row in used if who == "own" else []:
                assert 1.004 < row["counted_bytes"] / row["predicted_bytes"] < 1.05, (kind, row)
    ran = hosts("run", "--", BINARY, "collective", "all-reduce", "--ranks", "3", "--size", "64kB", "--cluster", SCENARIO, "--set",
                "cluster.links.scale_out.bandwidth=4Gb/s", "--backend", "mpi")
    assert re.search(r"  Links +node [012] NIC 0|  Links +leaf 0.0", done(ran)), ran.stdout
    assert "the prediction is of another cluster than these hosts" in ran.stderr, ran.stderr


def clocks():
    """Each rank's clock is an hour ahead of the one before; without aligning them, no step would begin in time."""
    if call("unshare", "--time", "--fork", "true").returncode != 0:
        return print("this kernel has no time namespaces")
    rank = "exec unshare --time --fork --monotonic $((3600 * OMPI_COMM_WORLD_RANK)) "
    answer = json.loads(done(hosts("run", "--", "mpirun", "-n", "3", "sh", "-c", rank + " ".join(MEASURE))))
    error = answer["iterations"]["clock_error_s"]
    # Half of two round trips that three ranks of a busy machine need at best.
    assert 0 < error < 0.05, error
    assert 0.5 < answer["iteration_s"] < 10, answer["iteration_s"]
    print(f"clocks that differ by two hours are aligned to {error * 1e6:.0f} us")


def calibrated(said):
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "profile.yaml"
        done(hosts("run", "--", BINARY, "calibrate", "--backend", "mpi", "--quick", "--ranks", "2", "--output",
                   str(profile)))
        text = profile.read_text()
    # "- [4MiB, 1.2ms, 3.4ms, 90.1ms]": the largest message, and the time until it is there.
    lasts, unit = re.search(r"- \[4MiB, [^,]+, [^,]+, ([\d.]+)([a-z]+)\]", text).groups()
    rate = (4 << 20) / (float(lasts) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit])
    print(f"calibrate: {rate * 8e-6:.1f} Mb/s, said {said * 8e-6:.1f}")
    assert 0.5 < rate / said < 1.07, (rate, said)


def main():
    if why := why_not():
        print("skipped:", why)
        return 77
    before = around()
    try:
        state = json.loads(done(hosts("up", SCENARIO, "--format", "json")))
        links()
        uneven()
        alone()
        clocks()
        calibrated(state["links"][0]["stream_bytes_per_s"])
    finally:
        hosts("down")
    assert around() == before, (around(), before)
    return 0


sys.exit(main())
