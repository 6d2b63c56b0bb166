"""On a terminal of 80 columns every command that takes longer than a second says how far it is, in one line that each
update replaces, and warnings are wrapped: terminal.py REHEARSE"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
import unicodedata

COLUMNS, LEAST = 80, 3
SECONDS = 120  # until a command has said this little
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

GPT3, LOG = "scenarios/gpt3-175b-1024xa100.yaml", "tests/interchange/megatron-forms/llama3-8b.log"
EVERY_RANK = ["--set", "simulate.detail=operator", "--set", "simulate.symmetry=off"]
TABLE = [GPT3, "--vary", "batch.micro=1,2,4,8", "--vary", "schedule=1f1b,gpipe,zb-h1,zb-h2",
         "--vary", "training.recompute=full,selective,none", "--set", "simulate.detail=operator", "--jobs", "1"]
# Warns, in a sentence longer than a line.
MACHINE = ["import", "tests/interchange/nvidia-smi/h100.txt", "tests/interchange/nvidia-smi/h100_list.txt"]
# What each says in any of its lines.
COMMANDS = [
    (["run", GPT3, *EVERY_RANK], "predicting"),
    (["compare", *TABLE], "of 48 variants"),
    (["sweep", *TABLE, "--store", "{folder}/s.sqlite"], "of 48 rows"),
    (["plan", "scenarios/plan/gpt3-175b-1024xa100.yaml"], "layouts"),
    (["explain", "scenarios/llama3-70b-64xh100.yaml", "--set", "simulate.detail=operator", "--jobs", "1"], "part "),
    (["validate", "--against", "tests/fidelity"], "different runs"),
    (["validate", "scenarios/teaching-1f1b-8-stages.yaml", "--backend", "loopback", "--iterations", "90"], "iterations"),
    (["validate", GPT3, "--trace", "tests/traces/qwen1.5_h100.json.gz", *EVERY_RANK], " of 3: "),
    (["validate", GPT3, "--log", LOG, *EVERY_RANK], "of 1 logs"),
    (["measure", "scenarios/teaching-1f1b-8-stages.yaml", "--backend", "loopback", "--iterations", "90"], "iterations"),
    (["calibrate", "--backend", "loopback", "--output", "{folder}/profile.yaml"], "part"),
]


def shown(words):
    """What a terminal is sent until it has had some lines of progress, or the command has ended; it is ended then."""
    child, terminal = pty.fork()
    if child == 0:
        time.sleep(.1)  # until the terminal has its size
        os.chdir(TOP)
        os.execv(sys.argv[1], [sys.argv[1], *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, COLUMNS, 0, 0))
    sent, until = "", time.monotonic() + SECONDS
    while time.monotonic() < until and len(updates(sent)) < LEAST:
        if select.select([terminal], [], [], .1)[0]:
            try:
                sent += os.read(terminal, 1 << 16).decode(errors="replace")
            except OSError:  # it has ended
                break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    return sent


def updates(sent):
    return [line for line in sent.split("\r\x1b[K")[1:-1] if line]


def mistakes(words, expected):
    sent = shown(words)
    lines = updates(sent)
    if len(lines) < LEAST:
        return [f"{len(lines)} lines of progress: {sent[-400:]!r}"]
    found = [f"another line than its own: {line!r}" for line in lines if "\n" in line]
    found += [f"too long: {line!r}" for line in lines
              if sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in line) > COLUMNS]
    if not any(expected in line for line in lines):
        found.append(f"none has {expected!r}: {lines}")
    return found


def long_warnings(words):
    sent = shown(words).replace("\r", "")
    found = [] if "warning:" in sent else [f"no warning: {sent!r}"]
    return found + [f"too long: {line!r}" for line in sent.split("\n") if len(line) > COLUMNS]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for mistake in long_warnings([*MACHINE, "--output", f"{folder}/machine.yaml"]):
            failed = 1
            print(f"rehearse {' '.join(MACHINE)}\n    {mistake}")
        for words, expected in COMMANDS:
            words = [word.format(folder=folder) for word in words]
            for mistake in mistakes(words, expected):
                failed = 1
                print(f"rehearse {' '.join(words)}\n    {mistake}")
    return failed


sys.exit(main())
