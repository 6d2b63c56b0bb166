"""How gpu-measure times, and where it writes. Needs PyTorch; runs on a CPU to be tested."""
import contextlib
import csv
import math
import os
import statistics
import time

import torch

from state import FIELDS as STATE

# The columns of published tables of kernels, then what was around the measurement.
COLUMNS = ["kernel", "gpu", "dtype", "direction", "causal", "seq_len", "head_dim", "M", "N", "K", "extra", "metric",
           "value", "unit", "peak", "efficiency", "source", "confidence", "note", "section", "p10_us", "p50_us", "p90_us",
           *STATE]
# Dense peaks in TFLOP/s and TB/s of the data sheets.
PEAKS = {"H100": {"bf16": 989, "fp16": 989, "fp8": 1979, "tf32": 494.5, "memory": 3.35},
         "H200": {"bf16": 989, "fp16": 989, "fp8": 1979, "tf32": 494.5, "memory": 4.8}}
SAMPLE = 300e-6   # s; events resolve half a microsecond
HEAD_START = 30e-6  # s for each launch that the host queues


class Over(Exception):
    """The section's time is over."""


class Timing:
    def __init__(self, times, begin, end):
        times = sorted(times)
        at = lambda q: times[min(int(q * (len(times) - 1) + .5), len(times) - 1)]
        self.p10, self.p50, self.p90 = at(.1), at(.5), at(.9)
        self.begin, self.end = begin, end  # time.time()


class Bench:
    def __init__(self, device, tiny, state, file, gpu, source):
        self.device, self.tiny, self.state, self.file, self.source = device, tiny, state, file, source
        self.cuda = device == "cuda"
        self.kind = torch.bfloat16 if self.cuda else torch.float32  # of activations; CPUs are slow in bf16
        self.gpu = gpu
        self.peaks = next((p for name, p in PEAKS.items() if name in gpu), {})
        self.rows, self.section, self.deadline = [], "", math.inf
        self.broken = False  # an error that ends a CUDA context: only another process can go on

    # --- sizes and operands

    def n(self, size):
        """A size as it is, or a small one where the script itself is tested."""
        return max(8, size // 64) if self.tiny else size

    def normal(self, *shape, dtype=torch.bfloat16, scale=1.0, grad=False):
        t = torch.randn(*shape, device=self.device, dtype=torch.float32 if not self.cuda else torch.bfloat16)
        return (t * scale).to(dtype).requires_grad_(grad)

    def sets(self, size):
        """How many sets of operands of so many bytes no cache holds: 256 MB, at most 16 sets."""
        return max(1, min(16, int(256e6 // max(size, 1)) + 1)) if not self.tiny else 2

    def over(self):
        if time.monotonic() > self.deadline:
            raise Over

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    # --- timing

    def time(self, launch, work=.15, settle=0.0, most=40, graph=False):
        """launch(i) queues launch number i. From start to start of equal launches that follow each other.

        settle: seconds of the same before it counts. graph: launches are recorded, so that the host has no part."""
        self.over()
        if not self.cuda:
            times = []
            begin = time.time()
            for i in range(3):
                before = time.perf_counter()
                launch(i)
                times.append(time.perf_counter() - before)
            return Timing(times, begin, time.time())
        for i in range(3):
            launch(i)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(400_000)
        first.record()
        for i in range(4):
            launch(i)
        last.record()
        self.synchronize()
        about = max(first.elapsed_time(last) / 4e3, 1e-6)
        inner = max(1, min(64, math.ceil(SAMPLE / about)))
        samples = max(5, min(most, int(work / (about * inner))))
        sample = lambda s: [launch(s * inner + i) for i in range(inner)] and None
        if graph:
            recorded = self.recorded(lambda: sample(0))
            if recorded:
                sample = lambda s: recorded.replay()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(samples + 1)]
        before = max(0, min(3000, int(settle / (about * inner))))
        # A stream that runs dry would show the host's time: so it begins late.
        torch.cuda._sleep(int(min(20e-3, (samples * inner + 50) * HEAD_START) * 1.7e9))
        begin = time.time()
        for s in range(before):
            sample(s)
        events[0].record()
        for s in range(samples):
            sample(before + s)
            events[s + 1].record()
        self.synchronize()
        end = time.time()
        times = [events[s].elapsed_time(events[s + 1]) / 1e3 / inner for s in range(samples)]
        return Timing(times, max(begin, end - sum(times) * inner), end)

    def recorded(self, action):
        """A CUDA graph of `action`, or None where it cannot be recorded."""
        try:
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                action()
            torch.cuda.current_stream().wait_stream(aside)
            self.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                action()
            graph.replay()
            self.synchronize()
            return graph
        except RuntimeError as why:
            self.note("recording", f"{why}")
            self.synchronize()
            return None

    def host(self, action, times=60):
        """Seconds of the host for one call, the device idle when it begins and never waited for."""
        self.over()
        times = 2 if self.tiny else times
        for _ in range(5):
            action()
        self.synchronize()
        begin, all_times = time.time(), []
        for _ in range(5):
            before = time.perf_counter()
            for _ in range(times):
                action()
            all_times.append((time.perf_counter() - before) / times)
            self.synchronize()
        return Timing(all_times, begin, time.time())

    # --- results

    def add(self, kernel, timing=None, flops=None, moved=None, **columns):
        row = {c: "" for c in COLUMNS}
        row.update(kernel=kernel, gpu=self.gpu, source=self.source, confidence="measured", section=self.section)
        if timing:
            row.update({f"p{q}_us": f"{getattr(timing, f'p{q}') * 1e6:.3f}" for q in (10, 50, 90)})
            row.update(self.state.between(timing.begin, timing.end))
            row.update(metric="time", value=f"{timing.p50 * 1e6:.3f}", unit="us")
            peak = None
            if flops:
                rate, peak = flops / timing.p50 / 1e12, self.peaks.get(columns.get("dtype"))
                row.update(metric="throughput", value=f"{rate:.2f}", unit="TFLOPS")
            elif moved:
                rate, peak = moved / timing.p50 / 1e12, self.peaks.get("memory")
                row.update(metric="bandwidth", value=f"{rate:.4f}", unit="TB/s")
            if peak:
                row.update(peak=peak, efficiency=f"{rate / peak:.4f}")
        row.update({k: v for k, v in columns.items() if v is not None})
        # Cells without commas: readers of tables need not know quotes.
        row = {k: v.replace(", ", "; ").replace(",", ";") if isinstance(v, str) else v for k, v in row.items()}
        self.rows.append(row)

    def note(self, kernel, words):
        self.add(kernel, metric="note", note=" ".join(str(words).split())[:300])

    @contextlib.contextmanager
    def guarded(self, what):
        """What fails is written down and loses itself alone."""
        try:
            yield
        except Over:
            raise
        except Exception as why:  # noqa: BLE001: whatever a library throws
            self.note(what, f"failed: {type(why).__name__}: {why}")
            del why
            if self.cuda:
                torch.cuda.synchronize()  # throws where the context is broken
                torch.cuda.empty_cache()

    def go_on(self):
        """With the rows that an earlier process has written."""
        with contextlib.suppress(OSError), open(self.file, newline="") as rows:
            self.rows = list(csv.DictReader(rows))

    def write(self):
        with open(self.file + ".part", "w", newline="") as out:
            table = csv.DictWriter(out, COLUMNS)
            table.writeheader()
            table.writerows(self.rows)
        os.replace(self.file + ".part", self.file)

    def run(self, name, seconds, section):
        """One section within its time; whatever it has is written."""
        self.section, before = name, time.monotonic()
        self.deadline = before + seconds
        count = len(self.rows)
        try:
            section(self)
            how = "done"
        except Over:
            how = "time was over"
        except Exception as why:  # noqa: BLE001
            how = f"failed: {type(why).__name__}: {why}"
        took = time.monotonic() - before
        self.note("section", f"{how}; {len(self.rows) - count} rows in {took:.1f} s of {seconds:.0f}")
        if self.cuda:
            try:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            except RuntimeError:
                self.broken = True
        self.write()
        print(f"  {name:<12} {len(self.rows) - count - 1:>4} rows {took:6.1f} s  {' '.join(how.split())[:150]}", flush=True)
        return took


def median(values):
    return statistics.median(values)
