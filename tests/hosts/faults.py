#!/usr/bin/env python3
"""`rehearse hosts` when something breaks while ranks run: hosts that die, are cut off, have the address of another, or do not
start end the run with status 3, within its timeout and with their names; a run that is interrupted or killed leaves nothing.
Skipped, with the reason, where this process may not make network namespaces."""
import os
import signal
import subprocess
import sys
import time

from support import BINARY, NAME, SCENARIO, around, call, done, hosts, processes, sent, space, until, why_not

HOSTS = ["node0", "node1", "node2"]
TIMEOUT = 10
# Of a machine that is busy: mpirun needs so long to start ranks, and to end them.
PATIENCE = 90
started = []


def start(*command):
    # A session of its own, as a shell with job control gives each command a group.
    started.append(subprocess.Popen([BINARY, "hosts", "run", "--name", NAME, *command], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, start_new_session=True))
    return started[-1]


def measuring(*options):
    return start(SCENARIO, *options, "--", "--iterations", "1000", "--timeout", f"{TIMEOUT}s")


def nothing_runs():
    return not any(processes(host) for host in HOSTS)


def fails(running, *named, since):
    """Status 3, in time, with what is to be read; nothing is left."""
    err = running.communicate(timeout=PATIENCE)[1]
    assert running.returncode == 3, (running.returncode, err)
    for words in named:
        assert words in err, (words, err)
    took = time.monotonic() - since
    assert took < TIMEOUT + 30, took
    assert nothing_runs(), [processes(host) for host in HOSTS]
    print(f"{named[0]}: {took:.1f} s")


def exchanging():
    """Ranks that have sent 20 MB more than what went before."""
    before = sent("node2")
    running = measuring()
    until(lambda: sent("node2") > before + 20e6 or running.poll() is not None)
    assert running.poll() is None, running.communicate()
    return running


def cut_off():
    running = exchanging()
    done(call("ip", "-n", space("node2"), "link", "set", "nic0", "down"))
    fails(running, "the link of node2 (nic0) to leaf0-0 is down", since=time.monotonic())
    done(call("ip", "-n", space("node2"), "link", "set", "nic0", "up"))


def killed():
    running = exchanging()
    for process in processes("node1"):
        os.kill(int(process), signal.SIGKILL)
    fails(running, "node1", since=time.monotonic())


def frozen():
    """The first process of a host stops before it has answered."""
    begin = time.monotonic()
    running = measuring()
    until(lambda: processes("node2"))
    for process in processes("node2"):
        os.kill(int(process), signal.SIGSTOP)
    fails(running, "node2", f"not started within {TIMEOUT}.000 s", since=begin)


def same_address():
    for change in ["del", "10.77.0.3/24"], ["add", "10.77.0.2/24"]:
        done(call("ip", "-n", space("node2"), "address", *change, "dev", "nic0"))
    begin = time.monotonic()
    fails(measuring(), "node2 (nic0) has the address '10.77.0.2', and was given 10.77.0.3", since=begin)
    shown = done(hosts("show"))
    assert "other address" in shown, shown


def parted():
    """Two leaves that lose each other."""
    fabric = ["--set", "cluster.nodes=4", "--set", "cluster.topology={name: fat-tree, levels: 2, radix: 4}", "--set",
              "parallelism.data=4", "--set", "batch.global=8"]
    done(hosts("up", SCENARIO, *fabric))
    before = sent("node2")
    running = measuring(*fabric)
    until(lambda: sent("node2") > before + 20e6 or running.poll() is not None)
    done(call("ip", "-n", space("leaf1-0"), "link", "set", "spine0-0", "down"))
    fails(running, "the link of leaf1-0 (spine0-0) to spine0-0 is down", since=time.monotonic())


def asked_to_end():
    running = start("--", "sh", "-c", "sleep 1000 & exec mpirun -n 3 sleep 1000")
    until(lambda: all(processes(host) for host in HOSTS))
    running.send_signal(signal.SIGINT)
    err = running.communicate(timeout=PATIENCE)[1]
    assert running.returncode == 130, (running.returncode, err)
    assert f"interrupted: 'sh -c sleep 1000 & exec mpirun -n 3 sleep 1000' on the hosts '{NAME}' was ended" in err, err
    assert nothing_runs()


def killed_run():
    """Not even a process that leaves its parent, its group and its environment outlives the run."""
    running = start("--", "sh", "-c", "env -i setsid sleep 1000 & exec mpirun -n 3 sleep 1000")
    until(lambda: all(processes(host) for host in HOSTS))
    running.kill()
    running.wait()
    until(nothing_runs, patience=10)


def left_running():
    ran = hosts("run", "--", "sh", "-c", "env -i setsid sleep 1000 & exit 4")
    assert ran.returncode == 4, ran
    assert nothing_runs()


def unwritten():
    """Hosts of which nobody can learn are not left."""
    ran = hosts("up", SCENARIO, "--output", "/dev/full")
    assert ran.returncode != 0 and "/dev/full" in ran.stderr, ran
    ran = hosts("show")
    assert ran.returncode == 2 and "no hosts" in ran.stderr, ran


def main():
    if why := why_not():
        print("skipped:", why)
        return 77
    before = around()
    try:
        unwritten()
        done(hosts("up", SCENARIO))
        left_running()
        killed_run()
        asked_to_end()
        killed()
        cut_off()
        frozen()
        same_address()
        parted()
    finally:
        for running in started:
            running.kill()
            running.wait()
        hosts("down")
    assert around() == before, (around(), before)
    return 0


sys.exit(main())
