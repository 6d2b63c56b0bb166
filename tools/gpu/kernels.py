"""Sections of gpu-measure that time single kernels. Within a section what matters most comes first."""
import contextlib

import torch
import torch.nn.functional as F

BF16, FP32 = torch.bfloat16, torch.float32
# Rows (tokens), outputs, inputs of linear layers: squares; GPT of hidden 2048 to 12288; Llama 8B and 70B, whole and cut by 8.
PRODUCTS = [(8192, 8192, 8192), (4096, 4096, 4096), (8192, 14336, 4096), (8192, 4096, 14336), (8192, 6144, 4096),
            (8192, 4096, 4096), (8192, 1280, 8192), (8192, 7168, 8192), (8192, 8192, 3584), (8192, 8192, 1024),
            (2048, 8192, 2048), (4096, 16384, 4096), (2048, 2048, 2048), (16384, 12288, 4096), (2048, 12288, 12288),
            (4096, 128256, 4096), (4096, 1024, 4096), (1024, 4096, 4096), (16384, 8192, 8192), (1024, 1024, 1024),
            (512, 4096, 4096), (256, 8192, 8192), (4096, 32000, 2048)]


def products(b, t, n, k, data="random", dtype=BF16):
    """{direction: (launch, (m, n, k))} of a linear layer of t rows, n outputs and k inputs, as training asks for them."""
    size = 2 * (t * k + n * k + t * n)
    make = (lambda *s: b.normal(*s)) if data == "random" else (
        lambda *s: torch.zeros(*s, device=b.device, dtype=dtype if b.cuda else FP32))
    sets = [(make(t, k), make(n, k), make(t, n), make(t, n), make(n, k), make(t, k)) for _ in range(b.sets(size))]
    if not b.cuda:
        sets = [tuple(x.float() for x in s) for s in sets]
    of = lambda i: sets[i % len(sets)]

    def forward(i):
        x, w, _, y, _, _ = of(i)
        torch.mm(x, w.t(), out=y)

    def input_gradient(i):
        _, w, dy, _, _, dx = of(i)
        torch.mm(dy, w, out=dx)

    def weight_gradient(i):
        x, _, dy, _, dw, _ = of(i)
        torch.mm(dy.t(), x, out=dw)
    return {"fwd": (forward, (t, n, k)), "dgrad": (input_gradient, (t, k, n)), "wgrad": (weight_gradient, (n, k, t))}


def heat(b, seconds):
    """Products until the power limit acts; the first milliseconds are faster than all that follow."""
    if not b.cuda:
        return
    x, y = (b.normal(b.n(8192), b.n(8192)) for _ in range(2))
    b.time(lambda i: torch.mm(x, y), work=.2, settle=seconds)


def add_product(b, timing, m, n, k, **columns):
    b.add("gemm", timing, flops=2 * m * n * k, M=m, N=n, K=k, **columns)


def gemm(b):
    heat(b, 3)
    for number, (t, n, k) in enumerate(PRODUCTS):
        t, n, k = b.n(t), b.n(n), b.n(k)
        with b.guarded(f"gemm {t} {n} {k}"):
            for direction, (launch, (m_, n_, k_)) in products(b, t, n, k).items():
                add_product(b, b.time(launch, settle=.15), m_, n_, k_, dtype="bf16", direction=direction,
                            extra="sustained, random")
        if number in (0, 1, 2):
            with b.guarded("gemm of zeros"):
                launch, (m_, n_, k_) = products(b, t, n, k, "zeros")["fwd"]
                add_product(b, b.time(launch, settle=.15), m_, n_, k_, dtype="bf16", direction="fwd", extra="sustained, zeros")
        if number in (0, 1, 2):
            with b.guarded("burst"):
                launch, (m_, n_, k_) = products(b, t, n, k)["fwd"]
                b.synchronize()
                if b.cuda:
                    torch.cuda._sleep(int(.7e9))  # .4 s of little power
                add_product(b, b.time(launch, work=.012, most=8), m_, n_, k_, dtype="bf16", direction="fwd",
                            extra="burst of 12 ms, random")


def odd_sizes(b):
    """What a token count costs that is no multiple of what loads and tiles want, in each place of a product."""
    around = [4096, 4097, 4095, 4098, 4100, 4104, 4112, 4160] if not b.tiny else [64, 65]
    base = 4096 if not b.tiny else 64
    for size in around:
        for place in ("M", "N", "K"):
            m, n, k = (size if place == p else base for p in "MNK")
            with b.guarded(f"odd {place} {size}"):
                # Row-major operands; the names say which of them are transposed. The inner length in memory of a
                # transposed operand is the other one.
                for direction, (launch, (m_, n_, k_)) in products(b, m, n, k).items():
                    add_product(b, b.time(launch, work=.04, settle=.02), m_, n_, k_, dtype="bf16", direction=direction,
                                extra=f"odd: tokens, outputs, inputs = {m}, {n}, {k}")


    for t, n, k in ((8192, 50257, 2048), (8192, 50304, 2048), (8192, 50258, 2048), (8192, 50260, 2048)):
        t, n, k = b.n(t), b.n(n), b.n(k)
        with b.guarded(f"vocabulary {n}"):
            for direction, (launch, (m_, n_, k_)) in products(b, t, n, k).items():
                add_product(b, b.time(launch, work=.04, settle=.05), m_, n_, k_, dtype="bf16", direction=direction,
                            extra=f"vocabulary: tokens, outputs, inputs = {t}, {n}, {k}")


def fp8(b):
    if not b.cuda:
        return b.note("fp8", "a CPU has none")
    one = torch.ones((), device=b.device)
    kind = torch.float8_e4m3fn
    heat(b, 1)
    for number, (t, n, k) in enumerate(PRODUCTS[:13]):
        t, n, k = b.n(t), b.n(n), b.n(k)
        with b.guarded(f"fp8 {t} {n} {k}"):
            for data in ("random", "zeros") if number < 2 else ("random",):
                make = lambda *s: (b.normal(*s) if data == "random" else torch.zeros(*s, device=b.device)).to(kind)
                sets = [(make(t, k), make(n, k)) for _ in range(b.sets(t * k + n * k))]
                for fast in (True, False) if number < 2 else (True,):
                    launch = lambda i: torch._scaled_mm(sets[i % len(sets)][0], sets[i % len(sets)][1].t(), scale_a=one,
                                                        scale_b=one, out_dtype=BF16, use_fast_accum=fast)
                    add_product(b, b.time(launch, settle=.15), t, n, k, dtype="fp8", direction="fwd",
                                extra=f"sustained, {data}, {'fast' if fast else 'full'} accumulation")
    for t, n, k in PRODUCTS[:4]:
        t, n, k = b.n(t), b.n(n), b.n(k)
        with b.guarded(f"fp8 rowwise {t} {n} {k}"):
            x, w = b.normal(t, k).to(kind), b.normal(n, k).to(kind)
            rows, columns = torch.ones(t, 1, device=b.device), torch.ones(1, n, device=b.device)
            add_product(b, b.time(lambda i: torch._scaled_mm(x, w.t(), scale_a=rows, scale_b=columns, out_dtype=BF16,
                                                             use_fast_accum=True), settle=.1),
                        t, n, k, dtype="fp8", direction="fwd", extra="sustained, random, rowwise scales")
            x16 = b.normal(t, k)
            b.add("cast", b.time(lambda i: x16.to(kind)), moved=3 * t * k, dtype="fp8", M=t, K=k, extra="bf16 to e4m3")


def attend(q, k, v, causal):
    """Fused, or written out where this PyTorch has nothing fused."""
    fused = getattr(F, "scaled_dot_product_attention", None)
    if fused:
        return fused(q, k, v, is_causal=causal, **({} if k.shape[1] == q.shape[1] else {"enable_gqa": True}))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** .5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), -float("inf"))
    return torch.softmax(scores, -1) @ v


def kernels_of_attention(b):
    """{name: what makes PyTorch take this kernel}"""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return {"whatever there is": contextlib.nullcontext}
    if not b.cuda:
        return {"math": lambda: sdpa_kernel(SDPBackend.MATH)}
    return {"flash": lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION), "cudnn": lambda: sdpa_kernel(SDPBackend.CUDNN_ATTENTION)}


def attention(b):
    kinds = kernels_of_attention(b)
    tokens, width = b.n(16384), b.n(2048) if b.cuda else 128
    shapes = [(s, d, causal, width // d, width // d) for s in (4096, 8192, 2048, 1024, 16384, 32768)
              for d in (128, 64) for causal in (True, False)]
    # Llama 8B and 70B cut by 8: fewer heads of keys.
    shapes[8:8] = [(s, 128, True, q, kv) for s in (8192, 4096) for q, kv in ((32, 8), (8, 1))]
    # A plan of cuDNN takes a second of the host for each shape, so the other kernel comes first.
    cases = [(*shape, name) for name in kinds for shape in shapes]
    for s, d, causal, heads, kv, name in cases:
        s = b.n(s)
        batch = max(1, tokens // s)
        with b.guarded(f"attention {name} {s} {d}"), kinds[name]():
            q = b.normal(batch, heads, s, d, dtype=b.kind, grad=True)
            k, v = (b.normal(batch, kv, s, d, dtype=b.kind, grad=True) for _ in range(2))
            forward = lambda i=0: attend(q, k, v, causal)
            flops = 4 * batch * heads * s * s * d / (2 if causal else 1)
            columns = dict(dtype="bf16", causal="yes" if causal else "no", seq_len=s, head_dim=d,
                           extra=f"{name}, batch={batch} heads={heads} kv_heads={kv}",
                           note="causal FLOPs counted half; backward counted as 2.5 times forward")
            with torch.no_grad():
                b.add("flash_attention", b.time(forward, work=.06, settle=.03), flops=flops, direction="fwd", **columns)
            y = forward()
            g = torch.randn_like(y)
            backward = lambda i: torch.autograd.grad(y, (q, k, v), g, retain_graph=True)
            b.add("flash_attention", b.time(backward, work=.06, settle=.03), flops=2.5 * flops, direction="bwd", **columns)


def memory_bound(b):
    """Each against the fewest bytes that it must move: what it reads once and what it writes once."""
    def case(kernel, direction, launch, moved, graph=False, **columns):
        with b.guarded(f"{kernel} {direction}"):
            b.add(kernel, b.time(launch, work=.04, graph=graph), moved=moved, direction=direction, **columns)

    def rotated(size, make):
        sets = [make() for _ in range(b.sets(size))]
        return lambda i: sets[i % len(sets)]

    for rows, width in ((8192, 4096), (8192, 8192), (2048, 4096), (4096, 2048), (1024, 1024), (16384, 12288)):
        rows, width = b.n(rows), b.n(width)
        with b.guarded(f"rows {rows} {width}"):
            size = 2 * rows * width
            of = rotated(3 * size, lambda: tuple(b.normal(rows, width) for _ in range(3)))
            dims = dict(M=rows, N=width, dtype="bf16")
            w, c = b.normal(width), b.normal(width)
            if not b.cuda:
                w, c = w.float(), c.float()
                of = lambda i, f=rotated(size, lambda: tuple(torch.randn(rows, width) for _ in range(3))): f(i)
            case("layer_norm", "fwd", lambda i: F.layer_norm(of(i)[0], (width,), w, c), 2 * size, True, **dims)
            if hasattr(F, "rms_norm"):
                case("rms_norm", "fwd", lambda i: F.rms_norm(of(i)[0], (width,), w), 2 * size, True, **dims)
            case("gelu", "fwd", lambda i: F.gelu(of(i)[0], approximate="tanh"), 2 * size, True, **dims)
            case("gelu", "bwd", lambda i: torch.ops.aten.gelu_backward(of(i)[0], of(i)[1], approximate="tanh"), 3 * size,
                 True, **dims)
            case("add", "", lambda i: torch.add(of(i)[0], of(i)[1], out=of(i)[2]), 3 * size, True, **dims)
            case("copy", "", lambda i: of(i)[1].copy_(of(i)[0]), 2 * size, True, **dims)
            case("silu_mul", "fwd", lambda i: F.silu(of(i)[0]) * of(i)[1], 3 * size, True, **dims,
                 note="two kernels; bytes as if one")
            case("cast", "", lambda i: of(i)[0].float(), 3 * size, True, **dims, extra="bf16 to fp32")
            case("column_sum", "", lambda i: of(i)[0].sum(0), size, True, **dims, extra="gradient of a bias")
            case("softmax", "fwd", lambda i: torch.softmax(of(i)[0], -1), 2 * size, True, **dims)
            case("dropout", "fwd", lambda i: F.dropout(of(i)[0], .1), 2 * size, True, **dims)
            for kind in ("layer_norm", "rms_norm"):
                if not hasattr(F, kind):
                    continue
                with b.guarded(kind):
                    x, g = of(0)[0].clone().requires_grad_(), of(0)[1]
                    wg, cg = w.clone().requires_grad_(), c.clone().requires_grad_()
                    y = F.layer_norm(x, (width,), wg, cg) if kind == "layer_norm" else F.rms_norm(x, (width,), wg)
                    inputs = (x, wg, cg) if kind == "layer_norm" else (x, wg)
                    case(kind, "bwd", lambda i: torch.autograd.grad(y, inputs, g, retain_graph=True), 3 * size, **dims,
                         note="operands in one place")
    optimizers(b, case)
    heads_of_models(b, case)


def optimizers(b, case):
    for count in (2**26, 2**28, 2**22):
        with b.guarded(f"adamw {count}"):
            p = torch.nn.Parameter(torch.randn(b.n(count), device=b.device))
            p.grad = torch.randn_like(p)
            for how in ("fused", "foreach"):
                if how == "fused" and not b.cuda:
                    continue
                step = torch.optim.AdamW([p], lr=1e-3, **{how: True})
                case("adamw", "", lambda i: step.step(), 28 * p.numel(), M=p.numel(), dtype="fp32", extra=how)
            case("norm", "", lambda i: torch.linalg.vector_norm(p.grad), 4 * p.numel(), M=p.numel(), dtype="fp32",
                 extra="of gradients")


def heads_of_models(b, case):
    for tokens, words, width in ((8192, 32000, 4096), (4096, 128256, 4096), (8192, 50304, 2048)):
        tokens, words, width = b.n(tokens), b.n(words), b.n(width)
        with b.guarded(f"head {words}"):
            b.over()
            targets = torch.randint(words, (tokens,), device=b.device)
            table = b.normal(words, width, grad=True)
            dims = dict(M=tokens, N=words)
            case("embedding", "fwd", lambda i: F.embedding(targets, table), 4 * tokens * width, dtype="bf16", K=width, **dims)
            y = F.embedding(targets, table)
            g = torch.randn_like(y)
            case("embedding", "bwd", lambda i: torch.autograd.grad(y, table, g, retain_graph=True),
                 2 * tokens * width + 2 * words * width, dtype="bf16", K=width, **dims, note="a whole gradient is written")
            del y, g
            for kind, dtype, size in (("fp32", FP32, 4), ("bf16", BF16, 2)):
                if kind == "bf16" and not b.cuda:
                    continue
                logits = b.normal(tokens, words, dtype=dtype, grad=True)
                case("cross_entropy", "fwd", lambda i: F.cross_entropy(logits, targets), 2 * size * tokens * words,
                     dtype=kind, **dims, note="log-probabilities are kept")
                loss = F.cross_entropy(logits, targets)
                case("cross_entropy", "bwd", lambda i: torch.autograd.grad(loss, logits, retain_graph=True),
                     3 * size * tokens * words, dtype=kind, **dims)
                del loss, logits


def heads(b):
    """Products of attention as batches, for sizes of heads that are multiples of 4, 8, 16."""
    s, batch = b.n(2048), 64 if not b.tiny else 2
    for d in (128, 100, 104, 108, 112, 96, 120, 64, 80, 98, 97):
        with b.guarded(f"heads {d}"):
            q, k = (b.normal(batch, s, d) for _ in range(2))
            p = b.normal(batch, s, s)
            if not b.cuda:
                q, k, p = q.float(), k.float(), p.float()
            flops = 2 * batch * s * s * d
            columns = dict(dtype="bf16", head_dim=d, M=s)
            b.add("bmm", b.time(lambda i: torch.bmm(q, k.transpose(1, 2)), work=.04), flops=flops, N=s, K=d,
                  extra=f"batch={batch}: scores", **columns)
            b.add("bmm", b.time(lambda i: torch.bmm(p, k), work=.04), flops=flops, N=d, K=s, extra=f"batch={batch}: values",
                  **columns)


def grouped(b):
    """Products of experts with as many rows as the router gave them."""
    function = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    if not function:
        b.note("grouped_gemm", "this PyTorch has none; one by one they are products like others")
    generator = torch.Generator().manual_seed(1)
    shapes = [(e, t, n, k) for t in (16384, 65536, 4096) for e, n, k in ((8, 14336, 4096), (64, 2048, 2048), (128, 1536, 2048),
                                                                          (16, 4096, 4096), (32, 2816, 2048))]
    for experts, tokens, n, k in shapes:
        tokens, n, k = b.n(tokens), b.n(n), b.n(k)
        even = tokens // experts
        shares = torch.rand(experts, generator=generator) + .25
        uneven = (shares / shares.sum() * tokens).int()
        splits = {"even": torch.full((experts,), even), "uneven, multiples of 16": uneven // 16 * 16,
                  "uneven, any number": uneven | 1}
        for name, rows in splits.items():
            with b.guarded(f"grouped {experts} {tokens} {name}"):
                ends = rows.cumsum(0).to(device=b.device, dtype=torch.int32)
                total = int(rows.sum())
                x, w, dy = b.normal(total, k), b.normal(experts, k, n), b.normal(total, n)
                columns = dict(dtype="bf16", M=total, N=n, K=k, extra=f"groups={experts}, {name}",
                               note="M is of all groups")
                cases = {} if not function else {
                    "fwd": lambda i: function(x, w, offs=ends), "dgrad": lambda i: function(dy, w.transpose(1, 2), offs=ends),
                    "wgrad": lambda i: function(x.t(), dy, offs=ends)}
                for direction, launch in cases.items():
                    with b.guarded(f"grouped {direction} {experts} {tokens} {name}"):
                        b.add("grouped_gemm", b.time(launch, work=.06), flops=2 * total * n * k, direction=direction, **columns)
                if name != "uneven, multiples of 16":
                    bounds = [0, *ends.tolist()]
                    parts = [(x[i:j], w[g]) for g, (i, j) in enumerate(zip(bounds, bounds[1:]))]
                    b.add("grouped_gemm", b.time(lambda i: [torch.mm(p, q) for p, q in parts] and None, work=.06),
                          flops=2 * total * n * k, direction="fwd", **{**columns, "extra": columns["extra"] + ", one by one"})


def warm(b):
    """A consumer that finds its producer's output in the cache, and one that does not."""
    for mega in (1, 4, 8, 16, 24, 32, 48, 64, 128, 256):
        elements = b.n(mega << 19)
        with b.guarded(f"warm {mega}"):
            sets = [b.normal(elements) for _ in range(max(4, min(64, 512 // mega)))] if b.cuda else [torch.randn(elements)] * 4
            for name, of in (("warm", sets[:2]), ("cold", sets)):
                launch = lambda i: torch.mul(of[i % len(of)], 1.0, out=of[(i + 1) % len(of)])
                b.add("scale", b.time(launch, work=.03, graph=True), moved=4 * elements, dtype="bf16", M=elements,
                      extra=f"{name}: {mega} MiB read, as much written")
    for t, n, k in ((2048, 2048, 2048), (2048, 4096, 4096), (4096, 4096, 4096), (1024, 1024, 1024), (8192, 1280, 8192)):
        t, n, k = b.n(t), b.n(n), b.n(k)
        with b.guarded(f"warm product {t}"):
            x, w, y = b.normal(t, k), b.normal(n, k), b.normal(t, n)
            if not b.cuda:
                x, w, y = x.float(), w.float(), y.float()
            add_product(b, b.time(lambda i: torch.mm(x, w.t(), out=y), work=.05, graph=True), t, n, k, dtype="bf16",
                        direction="fwd", extra="warm: operands in one place")
            launch, _ = products(b, t, n, k)["fwd"]
            add_product(b, b.time(launch, work=.05, graph=True), t, n, k, dtype="bf16", direction="fwd",
                        extra="cold: operands rotate")
