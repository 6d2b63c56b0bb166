#!/usr/bin/env python3
"""Chakra traces of `rehearse export --as chakra`, read by the wire format of Protocol Buffers and the field numbers of
MLCommons' et_def.proto: every send has its receive, every member of a group joins its collectives, nothing waits for
itself, and run with the times that they hold the step takes what the program predicts without contention."""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/rehearse")
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2, "neither a varint nor a length"
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def packed(data):
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def attribute(data):
    parts = dict(fields(data))
    value = next(v for k, v in parts.items() if k != 1)
    return parts[1].decode(), value.decode() if isinstance(value, bytes) else value


def read(path):
    data, at, nodes = path.read_bytes(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        message, at = data[at : at + size], at + size
        if not nodes and dict(fields(message)).get(1) == b"0.0.4":
            continue
        node = {"deps": [], "duration": 0}
        for number, value in fields(message):
            if number == 1: node["id"] = value
            elif number == 2: node["name"] = value.decode()
            elif number == 3: node["type"] = value
            elif number == 5: node["deps"] = packed(value)
            elif number == 7: node["duration"] = value
            elif number == 10: node.update([attribute(value)])
        nodes.append(node)
    return nodes


def makespan(ranks):
    """In rounds: a node ends when what it waits for has; members of a collective start together."""
    ends = [[None] * len(nodes) for nodes in ranks.values()]
    number = {rank: i for i, rank in enumerate(ranks)}
    sends, joins = {}, {}
    counts = {}
    for rank, nodes in ranks.items():
        for node in nodes:
            if node["type"] == SEND:
                sends[node["comm_src"], node["comm_dst"], node["comm_tag"]] = number[rank], node["id"]
            if node["type"] == COLLECTIVE:
                use = counts[rank, node["pg_name"]] = counts.get((rank, node["pg_name"]), 0) + 1
                node["use"] = node["pg_name"], use
                joins.setdefault(node["use"], []).append((number[rank], node))
    waiting = [(number[rank], node) for rank, nodes in ranks.items() for node in nodes]
    starts = {}
    while waiting:
        left = []
        for r, node in waiting:
            deps = [ends[r][d] for d in node["deps"]]
            if any(d is None for d in deps):
                left.append((r, node))
                continue
            ready = max(deps, default=0)
            if node["type"] == RECEIVE:
                i, sender = sends[node["comm_src"], node["comm_dst"], node["comm_tag"]]
                if ends[i][sender] is None:
                    left.append((r, node))
                    continue
                ready = max(ready, ends[i][sender])
            if node["type"] == COLLECTIVE:
                starts.setdefault(node["use"], {})[r] = ready
                if len(starts[node["use"]]) < len(joins[node["use"]]):
                    left.append((r, node))
                    continue
                ready = max(starts[node["use"]].values())
            ends[r][node["id"]] = ready + node["duration_ps"]
        assert len(left) < len(waiting) or any(len(starts.get(n["use"], {})) == len(joins[n["use"]])
                                               for _, n in left if n["type"] == COLLECTIVE), "a cycle"
        waiting = left
    return max(max(e) for e in ends if e)


def check(sets, least_collectives):
    with tempfile.TemporaryDirectory() as folder:
        scenario = str(ROOT / "scenarios/llama3-8b-dgx-h100.yaml")
        sets = ["model.layers=4", "batch.global=16", *sets]
        options = [word for one in sets for word in ("--set", one)]
        subprocess.run([BINARY, "export", scenario, "--as", "chakra", "--output", folder + "/x", *options], check=True)
        exact = ["simulate.symmetry=off", "simulate.detail=operator", "simulate.contention=off", "simulate.iterations=1"]
        answer = json.loads(subprocess.run(
            [BINARY, "run", scenario, "--format", "json", *options, *[w for e in exact for w in ("--set", e)]],
            check=True, capture_output=True, text=True).stdout)
        groups = json.loads(pathlib.Path(folder, "x.json").read_text())
        ranks = {int(p.name.split(".")[1]): read(p) for p in sorted(pathlib.Path(folder).glob("x.*.et"))}
    assert sorted(ranks) == list(range(answer["gpus"])), sorted(ranks)
    collectives = 0
    for rank, nodes in ranks.items():
        assert [n["id"] for n in nodes] == list(range(len(nodes)))
        for node in nodes:
            assert all(d < node["id"] for d in node["deps"]), "waits for a later one"
            assert node["duration"] == 0 or abs(node["duration"] * 1e6 - node["duration_ps"]) <= 1e6
            if node["type"] == COLLECTIVE:
                collectives += 1
                assert rank in groups[node["pg_name"]] and node["comm_size"] > 0
            if node["type"] in (SEND, RECEIVE):
                assert node["comm_size"] > 0 and rank in (node["comm_src"], node["comm_dst"])
    assert collectives >= least_collectives, collectives
    seconds = makespan(ranks) / 1e12
    assert abs(seconds / answer["iteration_s"] - 1) < 1e-9, (seconds, answer["iteration_s"], sets)
    print(f"{len(ranks)} ranks, {sum(map(len, ranks.values()))} nodes, {collectives} of collectives, {seconds:.6f} s")


check(["parallelism.tensor=2", "parallelism.data=4", "parallelism.zero=1"], 8)
check(["parallelism.tensor=2", "parallelism.pipeline=2", "parallelism.data=2", "parallelism.zero=0"], 8)
refused = subprocess.run([BINARY, "export", str(ROOT / "scenarios/llama3-8b-dgx-h100.yaml"), "--as", "chakra"],
                         capture_output=True, text=True)
assert refused.returncode == 2 and "--output PREFIX" in refused.stderr, refused
for_each_kind = subprocess.run([BINARY, "export", str(ROOT / "scenarios/llama3-8b-dgx-h100.yaml"), "--as", "chakra",
                                "--output", "x", "--set", "simulate.symmetry=auto"], capture_output=True, text=True)
assert for_each_kind.returncode == 2 and "writes every rank" in for_each_kind.stderr, for_each_kind
for name, why in ("parameter-servers-64xa100", "parameter servers"), ("teaching-1f1b-8-stages", "of no model"):
    refused = subprocess.run([BINARY, "export", str(ROOT / f"scenarios/{name}.yaml"), "--as", "chakra", "--output", "x"],
                             capture_output=True, text=True)
    assert refused.returncode == 2 and why in refused.stderr, refused
