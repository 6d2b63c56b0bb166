"""What the tests of `rehearse hosts` share: calls of the program, and what is on this machine before and after."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

os.environ["PATH"] += ":/usr/sbin:/sbin"  # where ip is, also for users whose path has it not
HERE = pathlib.Path(__file__).resolve().parent
BINARY = sys.argv[1]
SCENARIO = str(HERE / "three-hosts.yaml")
NAME = f"test-{os.getpid()}"


def call(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **options)


def hosts(action, *words, name=NAME):
    command = [BINARY, "hosts", action, "--name", name]
    return call(*command, *words)


def done(ran):
    assert ran.returncode == 0, (ran.args, ran.returncode, ran.stdout, ran.stderr)
    return ran.stdout


def space(host, name=NAME):
    return f"rehearsal-{name}.{host}"


def processes(host):
    return call("ip", "netns", "pids", space(host)).stdout.split()


def sent(host):
    """Bytes that the first NIC of a host has sent."""
    links = json.loads(call("ip", "-n", space(host), "-s", "-j", "link", "show", "nic0").stdout)
    return links[0]["stats64"]["tx"]["bytes"]


def until(what, patience=60):
    end = time.monotonic() + patience
    while not what():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.05)


def around():
    return call("ip", "netns", "list").stdout, call("ip", "-br", "link").stdout, os.path.exists("/run/rehearsal-hosts")


def what_is_missing():
    """Asked of the kernel without the program: namespaces, pairs of interfaces, bridges and token buckets."""
    if not shutil.which("ip") or not shutil.which("tc"):
        return "find ip and tc (iproute2)"
    probe = f"probe-{os.getpid()}"
    steps = [f"ip netns add {probe}", f"ip -n {probe} link add name one type veth peer name two", f"ip -n {probe} link add name three type bridge",
             f"tc -n {probe} qdisc add dev one root tbf rate 1mbit burst 16k latency 20ms"]
    failed = next((step for step in steps if call(*step.split()).returncode != 0), "")
    call("ip", "netns", "del", probe)
    return failed


def why_not():
    """Why this machine makes no hosts; empty where it does."""
    trial = hosts("down")
    if trial.returncode != 0:
        return trial.stderr.strip()
    lacking = what_is_missing()
    return f"this machine cannot: {lacking}" if lacking else ""
