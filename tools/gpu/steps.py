"""Sections of gpu-measure about whole steps: what the host costs, memory that an allocator takes, links, and kernels that
share the GPU with others."""
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench import Timing, median
from kernels import BF16, attend, heat, products

GIB = 2**30


class Block(nn.Module):
    """A block of GPT as anybody writes it in PyTorch."""

    def __init__(self, width, heads, device, dtype):
        super().__init__()
        made = dict(device=device, dtype=dtype)
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, **made), nn.LayerNorm(width, **made)
        self.qkv, self.out = nn.Linear(width, 3 * width, **made), nn.Linear(width, width, **made)
        self.up, self.down = nn.Linear(width, 4 * width, **made), nn.Linear(4 * width, width, **made)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = attend(q, k, v, True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, layers, width, heads, words, device, dtype):
        super().__init__()
        self.table = nn.Embedding(words, width, device=device, dtype=dtype)
        self.blocks = nn.ModuleList(Block(width, heads, device, dtype) for _ in range(layers))
        self.norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.head = nn.Linear(width, words, bias=False, device=device, dtype=dtype)
        self.recomputed = set()

    def forward(self, tokens):
        x = self.table(tokens)
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i in self.recomputed else block(x)
        return self.head(self.norm(x))


def launches(b):
    """Kernels that do nothing, and the host's time for single operators."""
    one = torch.zeros(8, device=b.device)
    b.add("launch", b.time(lambda i: one.add_(1), work=.03), extra="8 numbers, in a stream")
    b.add("launch", b.time(lambda i: one.add_(1), work=.03, graph=True), extra="8 numbers, in a CUDA graph")
    x, w, c = (b.normal(*s) for s in ((64, 256), (256, 256), (256,)))
    if not b.cuda:
        x, w, c = x.float(), w.float(), c.float()
    xg, wg, cg = (t.clone().requires_grad_() for t in (x, w, c))
    block = Block(256, 4, b.device, b.kind)
    rows = x.view(1, 64, 256)
    out = torch.empty_like(x)
    operators = {"add in place": lambda: one.add_(1), "add": lambda: x + x, "mm, out": lambda: torch.mm(x, w, out=out),
                 "mm": lambda: torch.mm(x, w), "view": lambda: x.view(8, -1), "gelu": lambda: F.gelu(x),
                 "layer_norm": lambda: F.layer_norm(x, (256,), c, c), "linear": lambda: F.linear(x, w, c),
                 "linear, recording gradients": lambda: F.linear(xg, wg, cg),
                 "layer_norm, recording gradients": lambda: F.layer_norm(xg, (256,), cg, cg),
                 "block, no gradients": lambda: block(rows), "block, forward": lambda: block(rows),
                 "block, forward and backward": lambda: block(rows).sum().backward()}
    for name, action in operators.items():
        with b.guarded(f"host {name}"), torch.set_grad_enabled("no gradients" not in name):
            b.add("host", b.host(action, 50), extra=name)


def steps(b):
    """Forward, backward and optimizer of four blocks: eager, and recorded; the host's share alone."""
    for width, length in ((1024, 1024), (2048, 2048), (4096, 2048), (1024, 4096), (8192, 1024)):
        width, length = b.n(width) if b.cuda else 64, b.n(length)
        with b.guarded(f"step {width}"):
            b.over()
            model = nn.ModuleList(Block(width, max(1, width // 128), b.device, b.kind) for _ in range(4))
            fused = {"fused": True} if b.cuda else {}
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, capturable=b.cuda, **fused)
            x = b.normal(1, length, width, dtype=b.kind)

            def forward():
                y = x
                for block in model:
                    y = block(y)
                return y

            def step():
                optimizer.zero_grad(set_to_none=False)
                y = forward()
                y.backward(y)
                optimizer.step()
            columns = dict(dtype="bf16", seq_len=length, N=width)
            for _ in range(3):
                step()
            b.synchronize()
            wall, host = [], []
            begin = time.time()
            for _ in range(8):
                before = time.perf_counter()
                step()
                host.append(time.perf_counter() - before)
                b.synchronize()
                wall.append(time.perf_counter() - before)
            b.add("step", Timing(wall, begin, time.time()), extra="4 blocks of GPT and fused AdamW, eager", **columns)
            b.add("step", Timing(host, begin, time.time()), extra="the same, the host alone", **columns)
            before = time.time()
            pipelined = []
            for _ in range(3):
                start = time.perf_counter()
                for _ in range(4):
                    step()
                b.synchronize()
                pipelined.append((time.perf_counter() - start) / 4)
            b.add("step", Timing(pipelined, before, time.time()), extra="the same, steps after each other", **columns)
            if b.cuda:
                graph = b.recorded(step)
                if graph:
                    b.add("step", b.time(lambda i: graph.replay(), work=.15), extra="the same, a CUDA graph", **columns)
                del graph
                profile(b, step, columns)
            del model, optimizer


def profile(b, step, columns, kind="step", name="the same"):
    """Kernels of a step and the sum of their times, as the profiler counts them."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch
    step()
    b.synchronize()
    with watch(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        b.synchronize()
    events = [e for e in seen.events() if str(e.device_type).endswith("CUDA")]
    took = lambda e: e.time_range.elapsed_us()
    b.add(kind, extra=f"{name}, sum of its kernels", metric="time", value=f"{sum(map(took, events)):.1f}", unit="us",
          note=f"{len(events)} kernels and copies", **columns)
    by_name = {}
    for e in events:
        count, time_of = by_name.get(e.name, (0, 0.0))
        by_name[e.name] = (count + 1, time_of + took(e))
    for kernel, (count, time_of) in sorted(by_name.items(), key=lambda x: -x[1][1])[:12]:
        b.add(f"{kind} kernel", extra=kernel[:120], metric="time", value=f"{time_of:.1f}", unit="us", note=f"{count} times", **columns)


def memory(b):
    """What a model of a billion parameters takes: its tensors, what the allocator has reserved, what nvidia-smi sees."""
    layers, width, words, length, batch = (18, 2048, 32000, 2048, 4) if not b.tiny else (2, 64, 100, 32, 1)
    if not b.cuda:
        model = Model(layers, width, 2, words, b.device, torch.float32)
        model.recomputed = {0}
        model(torch.zeros(batch, length, dtype=torch.long)).sum().backward()
        return b.note("memory", "a CPU has no allocator that counts")
    for mixed in (True, False):
        for name, which in (("none", lambda i: False), ("full", lambda i: True), ("every other block", lambda i: i % 2 == 0)):
            with b.guarded(f"memory {name}"):
                b.over()
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                stages, marks = {}, {"before": (torch.cuda.memory_allocated(), torch.cuda.memory_reserved())}
                mark = lambda stage: marks.update({stage: (torch.cuda.memory_allocated(), torch.cuda.memory_reserved())})
                model = Model(layers, width, max(1, width // 128), words, b.device, torch.float32 if mixed else BF16)
                model.recomputed = {i for i in range(layers) if which(i)}
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
                mark("weights")
                tokens = torch.randint(words, (batch, length), device=b.device)
                for iteration in range(3):
                    with torch.autocast("cuda", dtype=BF16, enabled=mixed):
                        logits = model(tokens)
                        loss = F.cross_entropy(logits.view(-1, words).float(), tokens.view(-1))
                    mark(f"after forward {iteration}")
                    del logits
                    loss.backward()
                    del loss
                    mark(f"after backward {iteration}")
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                    mark(f"after step {iteration}")
                b.synchronize()
                count = sum(p.numel() for p in model.parameters())
                what = f"{count} parameters, {'fp32 with autocast to bf16' if mixed else 'bf16'}, recompute {name}"
                marks["peak"] = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
                for stage in ("weights", "after forward 0", "after backward 0", "after step 0", "after forward 2",
                              "after backward 2", "after step 2", "peak"):
                    allocated, reserved = marks[stage]
                    b.add("memory", extra=what, direction=stage, metric="allocated", value=f"{allocated / GIB:.4f}",
                          unit="GiB", note=f"reserved {reserved / GIB:.4f} GiB", seq_len=length, M=batch, N=width, K=layers)
                b.add("memory", extra=what, direction="nvidia-smi", metric="used", value=b.state.used_mib(), unit="MiB",
                      seq_len=length, M=batch, N=width, K=layers)
                del model, optimizer


def link(b):
    """Pinned memory of the host, each direction and both at once; AdamW on the host."""
    if b.cuda:
        pinned_copies(b)
    else:
        b.note("link", "a CPU has none")
    adam_of_the_host(b)


def pinned_copies(b):
    largest = 2**29 if not b.tiny else 2**20
    host_out, host_in = (torch.empty(largest, dtype=torch.uint8, pin_memory=True) for _ in range(2))
    there, here = (torch.empty(largest, dtype=torch.uint8, device=b.device) for _ in range(2))
    other = torch.cuda.Stream()
    for power in (29, 26, 23, 20, 17, 14, 12):
        size = min(2**power, largest)
        turns = max(1, min(8, largest // size))
        at = lambda tensor, i: tensor[(i % turns) * size:(i % turns + 1) * size]
        with b.guarded(f"link {size}"):
            down = b.time(lambda i: at(there, i).copy_(at(host_out, i), non_blocking=True), work=.08)
            b.add("pcie", down, moved=size, direction="h2d", M=size, extra="pinned")
            up = b.time(lambda i: at(host_in, i).copy_(at(here, i), non_blocking=True), work=.08)
            b.add("pcie", up, moved=size, direction="d2h", M=size, extra="pinned")
            if power < 20:
                continue

            def both(i):
                other.wait_stream(torch.cuda.current_stream())
                at(there, i).copy_(at(host_out, i), non_blocking=True)
                with torch.cuda.stream(other):
                    at(host_in, i).copy_(at(here, i), non_blocking=True)
                torch.cuda.current_stream().wait_stream(other)
            b.add("pcie", b.time(both, work=.08), moved=2 * size, direction="duplex", M=size, extra="pinned, bytes of both")


def adam_of_the_host(b):
    count = b.n(2**26)
    p = torch.nn.Parameter(torch.randn(count))
    p.grad = torch.randn(count)
    for how in ({"fused": True}, {"foreach": True}):
        with b.guarded("cpu_adam"):
            try:
                step = torch.optim.AdamW([p], lr=1e-3, **how)
            except (RuntimeError, TypeError) as why:
                b.note("cpu_adam", f"this PyTorch has none that is {next(iter(how))}: {why}")
                continue
            step.step()
            times, begin = [], time.time()
            for _ in range(3):
                before = time.perf_counter()
                step.step()
                times.append(time.perf_counter() - before)
            b.add("cpu_adam", Timing(times, begin, time.time()), dtype="fp32", M=count,
                  extra=f"{next(iter(how))}, {torch.get_num_threads()} threads",
                  note=f"{median(times) / count * 1e9:.3f} ns a parameter")


def beside(b):
    """How much longer a product takes beside copies and beside a kernel of a few blocks that moves bytes."""
    if not b.cuda:
        return b.note("beside", "a CPU has none")
    other = torch.cuda.Stream()
    mega = b.n(2**29)  # long copies: a queue holds about a thousand
    one, two = (torch.empty(mega, dtype=torch.uint8, device=b.device) for _ in range(2))
    pinned = torch.empty(mega, dtype=torch.uint8, pin_memory=True)
    loads = {"copies within the GPU": lambda: two.copy_(one), "copies to the host": lambda: pinned.copy_(one, non_blocking=True),
             "copies from the host": lambda: one.copy_(pinned, non_blocking=True)}
    with b.guarded("triton"):
        import spinner
        for blocks in (4, 8, 16, 32):
            loads[f"a kernel of {blocks} blocks of 512 threads that copies"] = lambda blocks=blocks: spinner.move(one, two, blocks)
    heat(b, 1)
    for n in (b.n(8192), b.n(4096)):
        with b.guarded(f"beside {n}"):
            launch, _ = products(b, n, n, n)["fwd"]
            alone = b.time(launch, work=.2, settle=.3)
            b.add("gemm", alone, flops=2 * n**3, dtype="bf16", M=n, N=n, K=n, extra="alone")
            for name, load in loads.items():
                with b.guarded(f"beside {name}"):
                    together(b, other, n, launch, alone, name, load)


def together(b, other, n, launch, alone, name, load):
    settle, count = int(.12 / alone.p50), max(10, int(.06 / alone.p50))
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    load()
    b.synchronize()
    begin_load, end_load, enough = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    begin_load.record()
    for _ in range(4):
        load()
    end_load.record()
    b.synchronize()
    about = max(begin_load.elapsed_time(end_load) / 4e3, 1e-6)
    queued = min(900, int(1.6 * (settle + count) * alone.p50 / about) + 2)
    torch.cuda._sleep(int(30e-3 * 1.7e9))
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        for _ in range(queued):
            load()
        enough.record()
    for i in range(settle):
        launch(i)
    first.record()
    for i in range(count):
        launch(i)
    last.record()
    b.synchronize()
    begin = time.time() - .06
    took = first.elapsed_time(last) / 1e3 / count
    left = last.elapsed_time(enough)
    b.add("overlap", Timing([took], begin, time.time()), dtype="bf16", M=n, N=n, K=n, extra=name, metric="slow-down",
          value=f"{took / alone.p50:.4f}", unit="ratio",
          note=f"load alone {about * 1e6:.1f} us; {'to the end' if left > 0 else f'the load ended {-left:.2f} ms early'}")


def experts(b):
    """A layer of experts in plain PyTorch, operator by operator: time on the device and on the host."""
    function = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    for tokens, width, inner, count, chosen in ((8192, 2048, 1024, 64, 8), (8192, 4096, 14336, 8, 2), (4096, 2048, 768, 128, 8)):
        tokens, width, inner = b.n(tokens), b.n(width), b.n(inner)
        with b.guarded(f"experts {count}"):
            b.over()
            kind = b.kind
            x = b.normal(tokens, width, dtype=kind)
            router = b.normal(count, width, dtype=kind)
            up, down = b.normal(count, width, 2 * inner, dtype=kind), b.normal(count, inner, width, dtype=kind)
            columns = dict(dtype="bf16", M=tokens, N=width, K=inner)
            scores = F.linear(x, router)
            weights, who = torch.topk(torch.softmax(scores.float(), -1), chosen)
            order = torch.argsort(who.flatten(), stable=True)
            rows = order // chosen
            counts = torch.bincount(who.flatten(), minlength=count)
            ends = counts.cumsum(0).to(torch.int32)
            sent = x[rows]
            y = b.normal(tokens * chosen, width, dtype=kind)
            share = weights.flatten()[order].unsqueeze(1).to(kind)
            operators = {
                "router product": lambda i=0: F.linear(x, router),
                "softmax": lambda i=0: torch.softmax(scores.float(), -1),
                "topk": lambda i=0: torch.topk(scores, chosen),
                "sort of the choices": lambda i=0: torch.argsort(who.flatten(), stable=True),
                "count of rows": lambda i=0: torch.histc(who.flatten().float(), count, 0, count - 1),
                "permute": lambda i=0: x.index_select(0, rows),
                "unpermute": lambda i=0: torch.zeros_like(x).index_add_(0, rows, y * share)}
            if function and b.cuda:
                middle = function(sent, up, offs=ends)
                gate, value = middle.chunk(2, -1)
                hidden = F.silu(gate) * value
                operators["grouped product up"] = lambda i=0: function(sent, up, offs=ends)
                operators["silu and product"] = lambda i=0: F.silu(gate) * value
                operators["grouped product down"] = lambda i=0: function(hidden, down, offs=ends)
            for name, action in operators.items():
                with b.guarded(name), torch.no_grad():
                    b.add("moe", b.time(action, work=.03), extra=f"{name}; experts={count} of which {chosen}", **columns)
                    b.add("host", b.host(action, 20), extra=f"{name}; experts={count} of which {chosen}", **columns)
