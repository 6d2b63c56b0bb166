"""Llama for train.py, in numpy: RMS norms, rotary embedding, grouped heads, SwiGLU, as models/README.md section 9 says."""
import math

import numpy as np

EPSILON = 1e-5
BASE = 10000.0


def mlp_parameters(network, l):
    h, f = network.c["hidden"], network.c["ffn"]
    network.make("gate_up_weight", l, (2 * f, h), h**-0.5)
    network.make("down_weight", l, (h, f), f**-0.5)


def attention_parameters(network, l):
    c = network.c
    h, d = c["hidden"], c["hidden"] // c["heads"]
    network.make("query_weight", l, (h, h), h**-0.5)
    network.make("key_weight", l, (c["kv_heads"] * d, h), h**-0.5)
    network.make("value_weight", l, (c["kv_heads"] * d, h), h**-0.5)
    network.make("out_weight", l, (h, h), h**-0.5)


def parameters(network, feed_forward=mlp_parameters, mixer=attention_parameters):
    """Makes them, with the initial weights of the program."""
    c = network.c
    h = c["hidden"]
    network.make("token_table", 0, (c["vocabulary"], h), 0.02)
    for l in range(c["layers"]):
        network.p[l, "norm1_gain"], network.p[l, "norm2_gain"] = np.ones(h), np.ones(h)
        mixer(network, l)
        feed_forward(network, l)
    network.p[0, "norm_gain"] = np.ones(h)
    network.make("head_weight", 0, (c["vocabulary"], h), h**-0.5)


def norm(x, gain):
    root = np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    return x / root * gain, (x / root, root)


def norm_back(dy, saved, gain, g, key):
    xhat, root = saved
    g[key] += (dy * xhat).sum(0)
    dh = dy * gain
    return (dh - xhat * (dh * xhat).mean(-1, keepdims=True)) / root


def turn(x, sign, begins):
    """Rotary embedding of x [heads, s, d]: pairs (i, i + d/2) turned by position x base^(-2i/d); sign -1 turns back. Here
    positions begin anew with each document, which makes no difference."""
    _, s, d = x.shape
    angle = sign * (np.arange(s) - begins)[:, None] * BASE**(-2 * np.arange(d // 2) / d)[None, :]
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def split(x, d):
    return x.reshape(x.shape[0], -1, d).transpose(1, 0, 2)


def joined(x):
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def seen(begins):
    """[query, key]: no later key, and none before the query's document begins."""
    positions = np.arange(len(begins))
    return (positions[None, :] <= positions[:, None]) & (np.asarray(begins)[:, None] <= positions[None, :])


def attention(q, k, v, begins):
    """q [a, s, d], k and v [kv, s, d]: each of them serves a/kv heads of q."""
    share = q.shape[0] // k.shape[0]
    scores = q @ np.repeat(k, share, 0).transpose(0, 2, 1) / math.sqrt(q.shape[2])
    scores = np.where(seen(begins), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    probability = e / e.sum(-1, keepdims=True)
    return probability @ np.repeat(v, share, 0), probability


def attention_back(do, q, k, v, probability):
    share = q.shape[0] // k.shape[0]
    wide_k, wide_v = np.repeat(k, share, 0), np.repeat(v, share, 0)
    dp = do @ wide_v.transpose(0, 2, 1)
    ds = probability * (dp - (dp * probability).sum(-1, keepdims=True)) / math.sqrt(q.shape[2])
    dk, dv = ds.transpose(0, 2, 1) @ q, probability.transpose(0, 2, 1) @ do
    narrow = lambda x: x.reshape(k.shape[0], share, *x.shape[1:]).sum(1)
    return ds @ wide_k, narrow(dk), narrow(dv)


def swiglu(x, p, l, up_weight, down_weight):
    gate, up = np.split(x @ p[l, up_weight].T, 2, -1)
    return (gate * sigmoid(gate) * up) @ p[l, down_weight].T, (gate, up)


def swiglu_back(dy, x, saved, p, l, g, up_weight, down_weight):
    gate, up = saved
    sg = sigmoid(gate)
    g[l, down_weight] += dy.T @ (gate * sg * up)
    dproduct = dy @ p[l, down_weight]
    du = np.concatenate([dproduct * up * sg * (1 + gate * (1 - sg)), dproduct * gate * sg], -1)
    g[l, up_weight] += du.T @ x
    return du @ p[l, up_weight]


def mlp(c, l, x, p):
    return swiglu(x, p, l, "gate_up_weight", "down_weight")


def mlp_back(c, l, dy, x, saved, p, g):
    return swiglu_back(dy, x, saved, p, l, g, "gate_up_weight", "down_weight")


def attend(c, l, x, p, begin):
    d = c["hidden"] // c["heads"]
    q, k = (turn(split(x @ p[l, w].T, d), 1, begin) for w in ("query_weight", "key_weight"))
    v = split(x @ p[l, "value_weight"].T, d)
    out, probability = attention(q, k, v, begin)
    out = joined(out)
    return out @ p[l, "out_weight"].T, (q, k, v, probability, out)


def attend_back(c, l, dy, x, saved, p, g, begin):
    q, k, v, probability, out = saved
    g[l, "out_weight"] += dy.T @ out
    dq, dk, dv = attention_back(split(dy @ p[l, "out_weight"], c["hidden"] // c["heads"]), q, k, v, probability)
    dx = np.zeros_like(x)
    for w, dw in (("query_weight", turn(dq, -1, begin)), ("key_weight", turn(dk, -1, begin)), ("value_weight", dv)):
        g[l, w] += joined(dw).T @ x
        dx += joined(dw) @ p[l, w]
    return dx


def gradients(c, batch, total, p, feed_forward=mlp, feed_forward_back=mlp_back, mixer=attend, mixer_back=attend_back):
    """Loss (a mean over `total` tokens) and gradients of one micro-batch."""
    tokens, targets, begins = batch
    g = {k: np.zeros_like(v) for k, v in p.items()}
    loss = 0.0
    for t, y, begin in zip(tokens, targets, begins):
        x, s, saved = p[0, "token_table"][t], len(t), []
        for l in range(c["layers"]):
            n1, s1 = norm(x, p[l, "norm1_gain"])
            y_mixer, mixed = mixer(c, l, n1, p, begin)
            x2 = x + y_mixer
            n2, s2 = norm(x2, p[l, "norm2_gain"])
            y_ffn, inside = feed_forward(c, l, n2, p)
            x = x2 + y_ffn
            saved.append((n1, s1, mixed, n2, s2, inside))
        n, st = norm(x, p[0, "norm_gain"])
        logits = n @ p[0, "head_weight"].T
        logits -= logits.max(-1, keepdims=True)
        lse = np.log(np.exp(logits).sum(-1))
        loss += (lse - logits[np.arange(s), y]).sum() / total
        dl = np.exp(logits - lse[:, None])
        dl[np.arange(s), y] -= 1
        dl /= total
        g[0, "head_weight"] += dl.T @ n
        dx = norm_back(dl @ p[0, "head_weight"], st, p[0, "norm_gain"], g, (0, "norm_gain"))
        for l in reversed(range(c["layers"])):
            n1, s1, mixed, n2, s2, inside = saved[l]
            dn2 = feed_forward_back(c, l, dx, n2, inside, p, g)
            d2 = dx + norm_back(dn2, s2, p[l, "norm2_gain"], g, (l, "norm2_gain"))
            dn = mixer_back(c, l, d2, n1, mixed, p, g, begin)
            dx = d2 + norm_back(dn, s1, p[l, "norm1_gain"], g, (l, "norm1_gain"))
        np.add.at(g[0, "token_table"], t, dx)
    return loss, g
