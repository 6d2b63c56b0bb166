"""What the GPU was like while something was measured: clock, power, temperature, and what held the clock down.

nvidia-smi writes a line every so often into a file, from a process of its own, so that asking disturbs nothing that is
timed on the host. Where there is no nvidia-smi, every answer is empty."""
import datetime
import os
import shutil
import statistics
import subprocess
import threading
import time

FIELDS = ["clock_mhz", "power_w", "temperature_c", "held_by"]
# Bits of the driver's mask of event reasons (nvml.h, nvmlClocksEventReason...) that lower a clock under load.
REASONS = {0x4: "power cap", 0x8: "slowdown", 0x20: "thermal", 0x40: "hardware thermal", 0x80: "power brake"}
QUERY = "timestamp,clocks.sm,power.draw.instant,temperature.gpu,clocks_event_reasons.active,memory.used"


def find():
    return shutil.which("nvidia-smi") or next(
        (p for p in ("/usr/local/nvidia/bin/nvidia-smi", "/usr/bin/nvidia-smi") if os.access(p, os.X_OK)), None)


def identity():
    """Of the first GPU: name, driver, memory in MiB, power limit in W. Empty words where nobody knows."""
    empty = {"name": "", "driver": "", "memory": "", "limit": ""}
    if not find():
        return empty
    try:
        r = subprocess.run([find(), "--query-gpu=name,driver_version,memory.total,power.limit",
                            "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return empty
    words = [w.strip() for w in r.stdout.splitlines()[0].split(",")] if r.returncode == 0 and r.stdout.strip() else []
    return dict(zip(empty, words)) if len(words) == 4 else empty


class State:
    def __init__(self, milliseconds=200):
        self.process, self.samples = None, []
        if not find():
            return
        # A terminal, because a program writes to one line by line.
        self.master, slave = os.openpty()
        try:
            self.process = subprocess.Popen(
                [find(), "-i", "0", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", "-lms", str(milliseconds)],
                stdout=slave, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            threading.Thread(target=self.read, daemon=True).start()
        except OSError:
            self.process = None
        os.close(slave)

    def close(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def read(self):
        rest = ""
        while True:
            try:
                data = os.read(self.master, 4096).decode(errors="replace")
            except OSError:  # the other end is closed
                return
            if not data:
                return
            *lines, rest = (rest + data).split("\n")
            for line in lines:
                self.take(line)

    def take(self, line):
        words = [w.strip() for w in line.split(",")]
        try:
            at = datetime.datetime.strptime(words[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
            mask = int(words[4], 16) if words[4].startswith("0x") else 0
            self.samples.append((at, float(words[1]), float(words[2]), float(words[3]), mask, float(words[5])))
        except (ValueError, IndexError):
            pass  # half a line, or a field that this GPU does not tell

    def between(self, begin, end):
        """Means of the samples from `begin` to `end` (time.time()), or the nearest one within half a second."""
        empty = dict.fromkeys(FIELDS, "")
        mine = [s for s in self.samples if begin <= s[0] <= end]
        if not mine:
            mine = sorted((s for s in self.samples if begin - .5 <= s[0] <= end + .5),
                          key=lambda s: abs(s[0] - (begin + end) / 2))[:1]
        if not mine:
            return empty
        mask = 0
        for s in mine:
            mask |= s[4]
        mean = lambda i: round(statistics.fmean(s[i] for s in mine), 1)
        return {"clock_mhz": mean(1), "power_w": mean(2), "temperature_c": mean(3),
                "held_by": "+".join(word for bit, word in REASONS.items() if mask & bit)}

    def used_mib(self):
        """The last count of memory in use, by anybody."""
        time.sleep(.45)  # so that a sample is of now
        return self.samples[-1][5] if self.samples else ""
