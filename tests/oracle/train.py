#!/usr/bin/env python3
"""An independent oracle for `rehearse measure --verify`: the same networks in numpy, double precision, whole matrices.

Nothing is shared with the program but what it documents: the data and the initial weights are functions of the seed
(hw/cpu/synthetic.hpp), the networks are those of models/README.md section 9. For each case the program trains a few steps
(distributed, and serially as its own reference); losses, gradient norms and every tensor must agree with numpy's.

usage: train.py REHEARSE SCENARIO_FOLDER        exit 0 all agree, 1 not, 77 numpy is missing
"""
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)
import llama
import mamba
import moe
import muon
from weights import name_of, read_safetensors

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
KINDS = ["token_table", "position_table", "norm1_gain", "norm1_bias", "qkv_weight", "qv_bias", "out_weight", "out_bias",
         "norm2_gain", "norm2_bias", "up_weight", "up_bias", "down_weight", "down_bias", "norm_gain", "norm_bias",
         "head_weight", "query_weight", "key_weight", "value_weight", "gate_up_weight", "router_weight", "expert_gate_up_weight",
         "expert_down_weight", "shared_gate_up_weight", "shared_down_weight", "qkv_bias", "expert_up_weight",
         "query_down_weight", "query_up_weight", "latent_down_weight", "latent_up_weight", "latent_gain", "joining_weight",
         "output_gate_weight", "sinks", "head_gain", "index_weight", "mixer_in_weight", "convolution", "head_scalars",
         "latent_expert_weight", "mixer_value_weight", "mixer_state_weight", "mixer_gate_weight", "mixer_step_weight",
         "value_convolution", "state_convolution"]
MAP_OF_TOKENS, FIRST_TOKEN, FOLLOWS_MAP, OTHER_TOKEN, INPUT_ROWS, MAP_OF_ROWS, LENGTHS = range(7)
EPSILON_NORM = 1e-5


# --- random numbers: splitmix64 as a function of seed, stream and index ------------------------------------------------
def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def start(seed, stream):
    return mix((mix((seed + GOLDEN) & MASK) + stream) & MASK)


def bits(seed, stream, index):
    return mix((start(seed, stream) + GOLDEN * (index + 1)) & MASK)


def uniform(seed, stream, index):
    return (bits(seed, stream, index) >> 11) * 2.0**-53


def uniforms(seed, stream, first, count):
    """uniform() of `count` indices at once: products and sums of 64 bits wrap by themselves."""
    u64 = np.uint64
    x = u64(start(seed, stream)) + u64(GOLDEN) * np.arange(first + 1, first + count + 1, dtype=u64)
    x = (x ^ (x >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> u64(27))) * u64(0x94D049BB133111EB)
    return ((x ^ (x >> u64(31))) >> u64(11)).astype(np.float64) * 2.0**-53


def normals(seed, stream, count, first=0):
    u = uniforms(seed, stream, 2 * first, 2 * count)
    a, b = u[0::2], u[1::2]
    return np.sqrt(-2 * np.log(1 - a)) * np.cos(2 * np.pi * b)


def skewed(u, vocabulary):
    return min(int(u * u * vocabulary), vocabulary - 1)


# --- network -----------------------------------------------------------------------------------------------------------
class Network:
    """GPT (pre-norm, no key bias, tanh GELU), U-Transformer (GPT with long skips), Llama (llama.py), with Mamba-2 (mamba.py)
    or experts (moe.py), or MLP (no residual); parameters by (layer, kind)."""

    def __init__(self, c):
        self.c = c
        h, f = c["hidden"], c["ffn"]
        self.p = {}
        if c["family"] in ("gpt", "u-transformer"):
            self.make("token_table", 0, (c["vocabulary"], h), 0.02)
            self.make("position_table", 0, (c["sequence"], h), 0.02)
            for l in range(c["layers"]):
                for norm in ("norm1", "norm2"):
                    self.p[l, norm + "_gain"], self.p[l, norm + "_bias"] = np.ones(h), np.zeros(h)
                self.make("qkv_weight", l, (3 * h, h), h**-0.5)
                self.p[l, "qv_bias"] = np.zeros(2 * h)
                self.make("out_weight", l, (h, h), h**-0.5)
                self.p[l, "out_bias"] = np.zeros(h)
                self.mlp(l, h, f)
            self.p[0, "norm_gain"], self.p[0, "norm_bias"] = np.ones(h), np.zeros(h)
            if not c["tied"]:
                self.make("head_weight", 0, (c["vocabulary"], h), h**-0.5)
        elif "mixers" in c:
            mamba.parameters(self)
        elif c["family"] == "llama":
            llama.parameters(self)
        elif c["family"] == "moe":
            moe.parameters(self)
        else:
            for l in range(c["layers"]):
                self.mlp(l, h, f)

    def mlp(self, l, h, f):
        self.make("up_weight", l, (f, h), h**-0.5)
        self.p[l, "up_bias"] = np.zeros(f)
        self.make("down_weight", l, (h, f), f**-0.5)
        self.p[l, "down_bias"] = np.zeros(h)

    def make(self, kind, layer, shape, deviation):
        stream = (KINDS.index(kind) + 1) << 32 | layer
        values = deviation * normals(self.c["seed"], stream, shape[0] * shape[1])
        self.p[layer, kind] = values.astype(np.float32).astype(np.float64).reshape(shape)

    # Loss (a mean over `total` tokens or rows) and gradients of one micro-batch. `p`: parameters, by default the newest.
    def gradients(self, batch, total, p):
        if "mixers" in self.c:
            return mamba.gradients(self.c, batch, total, p)
        if self.c["family"] == "llama":
            return llama.gradients(self.c, batch, total, p)
        if self.c["family"] == "moe":
            return moe.gradients(self.c, batch, total, p)
        return self.rows(batch, total, p) if self.c["family"] == "mlp" else self.gpt(batch, total, p)

    def gpt(self, batch, total, p):
        c = self.c
        h, a, s = c["hidden"], c["heads"], c["sequence"]
        d = h // a
        tokens, targets, begins = batch
        g = {k: np.zeros_like(v) for k, v in p.items()}
        head = (0, "token_table") if c["tied"] else (0, "head_weight")
        loss = 0.0
        last = c["layers"] - 1  # of a u-transformer layer l of the first half gives its output to layer last - l
        skips = c["layers"] // 2 if c["family"] == "u-transformer" else 0
        for t, y, begin in zip(tokens, targets, begins):  # sequence by sequence
            positions, seen = np.arange(s) - begin, llama.seen(begin)
            x = p[0, "token_table"][t] + p[0, "position_table"][positions]
            saved, given, owed = [], {}, {}
            for l in range(c["layers"]):
                if last - l < skips:
                    x = x + given[last - l]
                n1, s1 = norm(x, p[l, "norm1_gain"], p[l, "norm1_bias"])
                qkv = n1 @ p[l, "qkv_weight"].T
                q, k, v = qkv[:, :h] + p[l, "qv_bias"][:h], qkv[:, h:2 * h], qkv[:, 2 * h:] + p[l, "qv_bias"][h:]
                heads = [z.reshape(s, a, d).transpose(1, 0, 2) for z in (q, k, v)]
                scores = heads[0] @ heads[1].transpose(0, 2, 1) / math.sqrt(d)
                scores = np.where(seen, scores, -np.inf)
                e = np.exp(scores - scores.max(-1, keepdims=True))
                prob = e / e.sum(-1, keepdims=True)
                out = (prob @ heads[2]).transpose(1, 0, 2).reshape(s, h)
                x2 = x + out @ p[l, "out_weight"].T + p[l, "out_bias"]
                n2, s2 = norm(x2, p[l, "norm2_gain"], p[l, "norm2_bias"])
                u = n2 @ p[l, "up_weight"].T + p[l, "up_bias"]
                x3 = x2 + gelu(u) @ p[l, "down_weight"].T + p[l, "down_bias"]
                saved.append((n1, s1, heads, prob, out, n2, s2, u))
                x = x3
                if l < skips:
                    given[l] = x
            n, st = norm(x, p[0, "norm_gain"], p[0, "norm_bias"])
            logits = n @ p[head].T
            logits -= logits.max(-1, keepdims=True)
            lse = np.log(np.exp(logits).sum(-1))
            loss += (lse - logits[np.arange(s), y]).sum() / total
            dl = np.exp(logits - lse[:, None])
            dl[np.arange(s), y] -= 1
            dl /= total
            g[head] += dl.T @ n
            dx = norm_back(dl @ p[head], st, p[0, "norm_gain"], g, (0, "norm"))
            for l in reversed(range(c["layers"])):
                n1, s1, heads, prob, out, n2, s2, u = saved[l]
                if l < skips:  # what goes two ways has the sum of their gradients
                    dx = dx + owed[l]
                g[l, "down_bias"] += dx.sum(0)
                g[l, "down_weight"] += dx.T @ gelu(u)
                du = dx @ p[l, "down_weight"] * gelu_slope(u)
                g[l, "up_bias"] += du.sum(0)
                g[l, "up_weight"] += du.T @ n2
                d2 = dx + norm_back(du @ p[l, "up_weight"], s2, p[l, "norm2_gain"], g, (l, "norm2"))
                g[l, "out_bias"] += d2.sum(0)
                g[l, "out_weight"] += d2.T @ out
                do = (d2 @ p[l, "out_weight"]).reshape(s, a, d).transpose(1, 0, 2)
                dv = prob.transpose(0, 2, 1) @ do
                dp = do @ heads[2].transpose(0, 2, 1)
                ds = prob * (dp - (dp * prob).sum(-1, keepdims=True)) / math.sqrt(d)
                dq, dk = ds @ heads[1], ds.transpose(0, 2, 1) @ heads[0]
                dqkv = np.concatenate([z.transpose(1, 0, 2).reshape(s, h) for z in (dq, dk, dv)], 1)
                g[l, "qv_bias"] += np.concatenate([dqkv[:, :h], dqkv[:, 2 * h:]], 1).sum(0)
                g[l, "qkv_weight"] += dqkv.T @ n1
                dx = d2 + norm_back(dqkv @ p[l, "qkv_weight"], s1, p[l, "norm1_gain"], g, (l, "norm1"))
                if last - l < skips:
                    owed[last - l] = dx
            np.add.at(g[0, "position_table"], positions, dx)
            np.add.at(g[0, "token_table"], t, dx)
        return loss, g

    def rows(self, batch, total, p):
        c = self.c
        x, target = batch
        g = {k: np.zeros_like(v) for k, v in p.items()}
        saved = []
        for l in range(c["layers"]):
            u = x @ p[l, "up_weight"].T + p[l, "up_bias"]
            saved.append((x, u))
            x = gelu(u) @ p[l, "down_weight"].T + p[l, "down_bias"]
        n = c["hidden"]
        loss = ((x - target)**2).sum() / (2 * total * n)
        dx = (x - target) / (total * n)
        for l in reversed(range(c["layers"])):
            x, u = saved[l]
            g[l, "down_bias"] += dx.sum(0)
            g[l, "down_weight"] += dx.T @ gelu(u)
            du = dx @ p[l, "down_weight"] * gelu_slope(u)
            g[l, "up_bias"] += du.sum(0)
            g[l, "up_weight"] += du.T @ x
            dx = du @ p[l, "up_weight"]
        return loss, g

    def batch(self, i):
        """Micro-batch i of the global batch: (tokens, targets) or (rows, targets)."""
        c, seed = self.c, self.c["seed"]
        if c["family"] == "mlp":
            n, rows = c["hidden"], c["micro"] * c["sequence"]
            x = normals(seed, INPUT_ROWS, rows * n, i * rows * n).astype(np.float32).astype(np.float64).reshape(rows, n)
            if "map" not in c:
                c["map"] = (normals(seed, MAP_OF_ROWS, n * n) / math.sqrt(n)).astype(np.float32).astype(float)
            return x, np.tanh(x @ c["map"].reshape(n, n))
        v, s = c["vocabulary"], c["sequence"]
        factor, shift = bits(seed, MAP_OF_TOKENS, 0) % v, bits(seed, MAP_OF_TOKENS, 1) % v
        while math.gcd(factor, v) != 1:
            factor += 1
        tokens, targets, begins = [], [], []
        for q in range(i * c["micro"], (i + 1) * c["micro"]):
            token = skewed(uniform(seed, FIRST_TOKEN, q), v)
            row = [token]
            for j in range(s):
                place = q * s + j
                follows = uniform(seed, FOLLOWS_MAP, place) < 0.9
                token = (factor * token + shift) % v if follows else skewed(uniform(seed, OTHER_TOKEN, place), v)
                row.append(token)
            tokens.append(row[:-1])
            targets.append(row[1:])
            begins.append(self.documents(q))
        return np.array(tokens), np.array(targets), np.array(begins)

    def documents(self, q):
        """Where the document of each position of sequence q begins."""
        s, lengths, begins = self.c["sequence"], self.c.get("documents"), []
        number = 0
        while len(begins) < s:
            drawn = int(uniform(self.c["seed"], LENGTHS, q * s + number) * len(lengths)) if lengths else 0
            begins += [len(begins)] * min(lengths[drawn] if lengths else s, s - len(begins))
            number += 1
        return begins


def norm(x, gain, bias):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    deviation = np.sqrt(variance + EPSILON_NORM)
    xhat = (x - mean) / deviation
    return xhat * gain + bias, (xhat, deviation)


def norm_back(dy, saved, gain, g, where):
    xhat, deviation = saved
    layer, name = where
    g[layer, name + "_gain"] += (dy * xhat).sum(0)
    g[layer, name + "_bias"] += dy.sum(0)
    dh = dy * gain
    return (dh - dh.mean(-1, keepdims=True) - xhat * (dh * xhat).mean(-1, keepdims=True)) / deviation


ROOT = math.sqrt(2 / math.pi)


def gelu(u):
    return 0.5 * u * (1 + np.tanh(ROOT * (u + 0.044715 * u**3)))


def gelu_slope(u):
    t = np.tanh(ROOT * (u + 0.044715 * u**3))
    return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * ROOT * (1 + 3 * 0.044715 * u * u)


# --- training ----------------------------------------------------------------------------------------------------------
def stage_of(c, key, stages):
    """Stage of a tensor in an even partition: layers in order, the ends with the first and the last stage."""
    layer, kind = key
    if kind in ("token_table", "position_table"):
        return 0
    if kind in ("norm_gain", "norm_bias", "head_weight"):
        return stages - 1
    return layer // (c["layers"] // stages)


def train(c):
    """Losses, gradient norms and final parameters; c["updates"]: at_flush, every_backward (PipeDream), late (2BW), or
    delayed: by c["delay"], in steps of c["together"] iterations that begin with one version (parameter servers)."""
    network = Network(c)
    p, m = network.p, c["global"] // c["micro"]
    total = c["global"] * c["sequence"]
    first, second = ({k: np.zeros_like(v) for k, v in p.items()} for _ in range(2))
    losses, norms = [], []
    previous = {k: v.copy() for k, v in p.items()}
    together = c.get("together", 1)
    for step in range(c["steps"] * together):
        iteration = step % together
        if iteration == 0:
            loss, squares, versions = 0.0, 0.0, []
        if c["updates"] == "every_backward":
            # Stage s of micro-batch i computes with the version after max(0, i - (p-1-s)) updates of this step.
            history = [{k: v.copy() for k, v in p.items()}]
            for i in range(m):
                seen = {}
                for k in p:
                    ahead = min(c["stages"] - 1 - stage_of(c, k, c["stages"]), m)
                    seen[k] = history[max(0, i - ahead)][k]
                l, g = network.gradients(network.batch(i), total, seen)
                loss += l
                squares += sum((v * v).sum() for v in g.values())
                for k in p:
                    p[k] -= c["rate"] * g[k]
                history.append({k: v.copy() for k, v in p.items()})
        else:
            versions.append({k: v.copy() for k, v in p.items()})
            at = previous if c["updates"] == "late" else versions[max(0, iteration - c.get("delay", 0))]
            g = {k: np.zeros_like(v) for k, v in p.items()}
            for i in range(m):
                l, part = network.gradients(network.batch(i), total, at)
                loss += l
                for k in g:
                    g[k] += part[k]
            squares += sum((v * v).sum() for v in g.values())
            previous = {k: v.copy() for k, v in p.items()}
            decay = 1 - c["rate"] * (0.1 if c["optimizer"] == "muon" else 0.01)
            for k in p:
                if c["optimizer"] == "muon" and muon.matrices(k[1], p[k]):
                    first[k] = 0.95 * first[k] + g[k]
                    ahead = g[k] + 0.95 * first[k]
                    step_of = [muon.orthogonal(x) for x in muon.matrices(k[1], ahead)]
                    p[k] = p[k] * decay - c["rate"] * np.concatenate(step_of)
                elif c["optimizer"] in ("adamw", "muon"):
                    first[k] = 0.9 * first[k] + 0.1 * g[k]
                    second[k] = 0.999 * second[k] + 0.001 * g[k]**2
                    mean = first[k] / (1 - 0.9**(step + 1))
                    deviation = np.sqrt(second[k] / (1 - 0.999**(step + 1)))
                    p[k] = p[k] * decay - c["rate"] * mean / (deviation + 1e-8)
                else:
                    p[k] = p[k] - c["rate"] * g[k]
        if iteration + 1 == together:
            losses.append(loss)
            norms.append(math.sqrt(squares))
    return losses, norms, p


# --- comparison --------------------------------------------------------------------------------------------------------
def worst(values, reference):
    return max(abs(a - b) / abs(b) for a, b in zip(values, reference))


def run(rehearse, folder, name, file, sets, c):
    weights = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    command = [rehearse, "measure", os.path.join(folder, file), "--backend", "loopback", "--verify", "--steps",
               str(c["steps"]), "--format", "json", "--weights", weights]
    for s in sets:
        command += ["--set", s]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{name}: exit {done.returncode}: {done.stderr}{done.stdout[-400:]}")
        return False
    v = json.loads(done.stdout)["verify"]
    losses, norms, p = train(c)
    tensors = read_safetensors(weights)
    os.remove(weights)
    os.rmdir(os.path.dirname(weights))
    tolerance = 1e-5 if c["optimizer"] == "sgd" else 1e-4
    found = {"loss": worst(v["loss"], losses), "serial loss": worst(v["reference_loss"], losses),
             "norm": worst(v["gradient_norm"], norms), "serial norm": worst(v["reference_gradient_norm"], norms)}
    found["weights"] = 0.0
    ok = set(tensors) == {name_of(k) for k in p}
    for k, value in p.items():
        mine = tensors.get(name_of(k))
        if mine is None or mine.size != value.size:
            print(f"{name}: tensor {name_of(k)} is missing or has another size")
            return False
        scale = max(np.linalg.norm(value), 1e-6 * math.sqrt(value.size))
        found["weights"] = max(found["weights"], np.linalg.norm(mine - value.ravel()) / scale)
    ok = ok and all(value <= 1e-5 for key, value in found.items() if key != "weights") and found["weights"] <= tolerance
    print(f"{'ok  ' if ok else 'FAIL'} {name}: loss {losses[0]:.6f} -> {losses[-1]:.6f}, differences " +
          ", ".join(f"{key} {value:.1e}" for key, value in found.items()))
    return ok


def main():
    rehearse, folder = sys.argv[1:3]
    gpt = dict(family="gpt", layers=4, hidden=64, heads=4, ffn=256, vocabulary=101, sequence=32, seed=0, steps=3, micro=2,
               tied=True, optimizer="adamw", rate=1e-3, updates="at_flush")
    gpt["global"] = 16
    mlp = dict(family="mlp", layers=4, hidden=32, ffn=48, sequence=4, seed=0, steps=3, micro=2, optimizer="sgd", rate=0.1,
               updates="at_flush")
    mlp["global"] = 16
    small = ["model.layers=4", "model.hidden=32", "model.ffn=48", "model.sequence=4", "batch.micro=2", "batch.global=16"]
    sgd = ["training.optimizer=sgd"]
    small_llama = ("model={family: llama, layers: 4, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocabulary: 101, "
                   "sequence: 32}")
    grouped = dict(gpt, family="llama", kv_heads=2, ffn=96, tied=False)
    mixture = dict(grouped, family="moe", experts=4, experts_per_token=2, expert_ffn=48, shared_experts=1, dense_layers=1)
    small_moe = ("model={family: moe, layers: 4, dense_layers: 1, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, experts: 4, "
                 "experts_per_token: 2, expert_ffn: 48, shared_experts: 1, vocabulary: 101, sequence: 32}")
    # States of half a sequence and of less; two heads share a group, or three. Small steps, as in performed_states.cpp.
    wide, narrow = dict(heads=8, groups=4, state=16, value_dim=12), dict(heads=6, groups=2, state=5, value_dim=16)
    states = dict(grouped, mixers=[wide, None, narrow, wide], rate=1e-4)
    listed = ", ".join("{repeat: 1}" if m is None else "{repeat: 1, mixer: {kind: mamba2, heads: %d, kv_heads: %d, head_dim: %d, "
                       "value_dim: %d}}" % tuple(m.values()) for m in states["mixers"])
    small_states = [f"model={{family: llama, layers: [{listed}], hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocabulary: 101, "
                    "sequence: 32}", "training.learning_rate=0.0001"]
    states_sgd, small_states_sgd = dict(states, optimizer="sgd", rate=1e-3), sgd + small_states + ["training.learning_rate=0.001"]
    skips = dict(gpt, family="u-transformer", tied=False)
    packed = ["batch.lengths={list: [5, 9, 14]}", "batch.packing=pack", "batch.document_mask=true"]
    chunked = ["framework={use: native, loss: chunked}"]
    small_u = "model={family: u-transformer, layers: 4, hidden: 64, heads: 4, vocabulary: 101, sequence: 32}"
    cases = [
        ("GPT, 2 x 2 x 2 ranks, AdamW", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml", [], gpt),
        ("GPT, untied, ZeRO-3, zb-h1, SGD", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         sgd + ["model.tie_embeddings=false", "parallelism.zero=3", "schedule=zb-h1"],
         dict(gpt, optimizer="sgd", rate=0.1, tied=False)),
        ("Llama, 2 x 2 x 2 ranks, SGD", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml", sgd + [small_llama],
         dict(grouped, optimizer="sgd", rate=0.1)),
        ("Llama, ZeRO-3, zb-h1, recomputed, AdamW", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         [small_llama, "parallelism.zero=3", "schedule=zb-h1", "training.recompute=full"], grouped),
        ("U-Transformer of 4 layers, tensor 2 x data 2, ZeRO-3, recomputed, AdamW", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         [small_u, "parallelism={tensor: 2, data: 2, zero: 3}", "training.recompute=full"], skips),
        ("U-Transformer of 5 layers, tensor 2 with sequences cut, SGD", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         sgd + [small_u, "model.layers=5", "parallelism={tensor: 2, sequence: true}"],
         dict(skips, layers=5, optimizer="sgd", rate=0.1)),
        ("experts, 2 of 4 and one shared, over 4 ranks, SGD", "mixtral-tiny-ep4-this-machine.yaml", sgd + [small_moe],
         dict(mixture, optimizer="sgd", rate=0.1)),
        ("experts, 2 stages x 4 replicas, two of each expert, ZeRO-1, zb-h1, recomputed, AdamW",
         "mixtral-tiny-ep4-this-machine.yaml",
         [small_moe, "parallelism={pipeline: 2, data: 4, expert: 2, zero: 1}", "schedule=zb-h1", "training.recompute=full"],
         mixture),
        ("experts, 1 of 4, none shared, no dense layers, SGD", "mixtral-tiny-ep4-this-machine.yaml",
         sgd + [small_moe, "model.experts_per_token=1", "model.shared_experts=0", "model.dense_layers=0"],
         dict(mixture, optimizer="sgd", rate=0.1, experts_per_token=1, shared_experts=0, dense_layers=0)),
        ("Mamba-2 and attention, 2 x 2 x 2 ranks, SGD", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml", small_states_sgd, states_sgd),
        ("Mamba-2 and attention, ZeRO-3, zb-h1, recomputed, AdamW", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         small_states + ["parallelism={data: 2, pipeline: 2, zero: 3}", "schedule=zb-h1", "training.recompute=full"], states),
        ("Mamba-2 and attention, sequences in pieces, AdamW", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         small_states + ["parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 4}"], states),
        ("Mamba-2 and attention, sequences over ranks, SGD", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         small_states_sgd + ["parallelism={context: 2, data: 2}", "training.context=all-gather"], states_sgd),
        ("MLP, 2 stages, SGD", "mlp-gemm-pipeline-2-ranks.yaml", small, mlp),
        ("MLP, PipeDream, 4 stages", "mlp-gemm-pipeline-2-ranks.yaml",
         small + ["parallelism.pipeline=4", "schedule=pipedream"], dict(mlp, updates="every_backward", stages=4)),
        ("GPT, PipeDream, 4 stages", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         sgd + ["parallelism={pipeline: 4}", "schedule=pipedream", "model.tie_embeddings=false"],
         dict(gpt, optimizer="sgd", rate=0.1, tied=False, updates="every_backward", stages=4)),
        ("GPT, PipeDream-2BW, 2 stages x 2 replicas", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         sgd + ["parallelism={pipeline: 2, data: 2}", "schedule=pipedream-2bw", "model.tie_embeddings=false"],
         dict(gpt, optimizer="sgd", rate=0.1, tied=False, updates="late")),
        ("GPT, 2 workers and 2 servers that update, delay 1 of 6 iterations, AdamW", "gpt-tiny-servers-this-machine.yaml",
         ["training.optimizer=adamw"], dict(gpt, updates="delayed", delay=1, together=6, steps=2)),
        ("GPT, 4 workers that update and 3 servers, delay 2 of 5 iterations, SGD", "gpt-tiny-servers-this-machine.yaml",
         sgd + ["parallelism.data=4", "simulate.iterations=5",
                "data_parallel={kind: parameter-server, servers: 3, update: worker, placement: colocated, delay: 2}"],
         dict(gpt, optimizer="sgd", rate=0.1, updates="delayed", delay=2, together=5)),
        ("Llama, documents of 5, 9 and 14 tokens, loss in chunks, 2 stages x 2 replicas, ZeRO-1, Muon",
         "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         [small_llama, "parallelism={pipeline: 2, data: 2, zero: 1}", "training.optimizer=muon"] + packed + chunked,
         dict(grouped, optimizer="muon", documents=[5, 9, 14])),
        ("GPT, documents of 5, 9 and 14 tokens, loss in chunks, 2 shards of 4 replicas, ZeRO-3, Muon",
         "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         ["parallelism={data: 4, shard: 2, zero: 3}", "training.optimizer=muon"] + packed + chunked,
         dict(gpt, optimizer="muon", documents=[5, 9, 14])),
        ("GPT, documents of 7 tokens over 2 context ranks, 2 tensor ranks, SGD", "gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
         sgd + ["parallelism={context: 2, tensor: 2}", "batch.lengths={fixed: 7}", "batch.packing=pack",
                "batch.document_mask=true"], dict(gpt, optimizer="sgd", rate=0.1, documents=[7])),
        ("MLP, 2 workers and 1 server, SGD", "mlp-gemm-pipeline-2-ranks.yaml",
         small + ["parallelism={data: 2}", "data_parallel={kind: parameter-server}"], mlp),
    ]
    return 0 if all([run(rehearse, folder, *case) for case in cases]) else 1


if __name__ == "__main__":
    sys.exit(main())
