"""Mamba-2 for train.py, in numpy: Llama (llama.py) with layers whose mixer keeps a state, as models/README.md section 9 says.

The state goes from token to token, and its gradient back: no chunks, no pieces, no heads that are dealt out.
c["mixers"]: of each layer None (attention), or heads, groups, state and value_dim of its mixer.
"""
import numpy as np

import llama

TAPS = 4


def silu(x):
    return x * llama.sigmoid(x)


def silu_slope(x):
    s = llama.sigmoid(x)
    return s + x * s * (1 - s)


def mixer_parameters(network, l):
    m, h = network.c["mixers"][l], network.c["hidden"]
    if m is None:
        return llama.attention_parameters(network, l)
    keys, values = m["groups"] * m["state"], m["heads"] * m["value_dim"]
    network.make("mixer_value_weight", l, (values, h), h**-0.5)
    network.make("mixer_state_weight", l, (2 * keys, h), h**-0.5)
    network.make("mixer_gate_weight", l, (values, h), h**-0.5)
    network.make("mixer_step_weight", l, (m["heads"], h), h**-0.5)
    network.make("value_convolution", l, (values, TAPS + 1), (TAPS + 1)**-0.5)
    network.make("state_convolution", l, (2 * keys, TAPS + 1), (TAPS + 1)**-0.5)
    network.make("head_scalars", l, (3, m["heads"]), m["heads"]**-0.5)
    decay, skip, bias = network.p[l, "head_scalars"]
    skip[:], bias[:] = 1, (bias.astype(np.float32) - np.float32(2)).astype(np.float64)
    network.p[l, "head_gain"] = np.ones(values)
    network.make("out_weight", l, (h, values), values**-0.5)


def parameters(network):
    llama.parameters(network, mixer=mixer_parameters)


INTO = ("mixer_value_weight", "mixer_state_weight")
TAPPED = ("value_convolution", "state_convolution")


def forward(c, l, x, p, begin):
    m = c["mixers"][l]
    if m is None:
        return llama.attend(c, l, x, p, begin)
    s, heads, groups, n, d = len(x), m["heads"], m["groups"], m["state"], m["value_dim"]
    made = x @ np.concatenate([p[l, w] for w in INTO]).T
    z = x @ p[l, "mixer_gate_weight"].T
    taps = np.concatenate([p[l, w] for w in TAPPED])
    padded = np.concatenate([np.zeros((TAPS - 1, made.shape[1])), made])
    u = taps[:, TAPS] + sum(padded[j:j + s] * taps[:, j] for j in range(TAPS))
    row = silu(u)
    values = row[:, :heads * d].reshape(s, heads, d)
    to_heads = np.repeat(np.arange(groups), heads // groups)
    keys, queries = (row[:, heads * d + i * groups * n:][:, :groups * n].reshape(s, groups, n)[:, to_heads] for i in (0, 1))
    decay, skip, bias = p[l, "head_scalars"]
    raw = x @ p[l, "mixer_step_weight"].T + bias
    step = np.log1p(np.exp(raw))
    rate = -np.exp(decay)
    left = np.exp(step * rate)
    states, y = np.zeros((s + 1, heads, d, n)), np.zeros((s, heads, d))
    for t in range(s):
        states[t + 1] = left[t][:, None, None] * states[t] + (step[t][:, None] * values[t])[:, :, None] * keys[t][:, None, :]
        y[t] = (states[t + 1] * queries[t][:, None, :]).sum(-1) + skip[:, None] * values[t]
    v = y.reshape(s, -1) * silu(z)
    runs = v.reshape(s, groups, -1)
    root = np.sqrt((runs * runs).mean(-1, keepdims=True) + llama.EPSILON)
    normal = (runs / root).reshape(s, -1)
    out = normal * p[l, "head_gain"]
    saved = (padded, u, values, keys, queries, raw, step, rate, left, states, y, z, normal, root, out)
    return out @ p[l, "out_weight"].T, saved


def back(c, l, dy, x, saved, p, g, begin):
    m = c["mixers"][l]
    if m is None:
        return llama.attend_back(c, l, dy, x, saved, p, g, begin)
    padded, u, values, keys, queries, raw, step, rate, left, states, y, z, normal, root, out = saved
    s, heads, groups, n, d = len(x), m["heads"], m["groups"], m["state"], m["value_dim"]
    g[l, "out_weight"] += dy.T @ out
    dout = dy @ p[l, "out_weight"]
    g[l, "head_gain"] += (dout * normal).sum(0)
    dh, xhat = ((dout * p[l, "head_gain"]).reshape(s, groups, -1), normal.reshape(s, groups, -1))
    dv = ((dh - xhat * (dh * xhat).mean(-1, keepdims=True)) / root).reshape(s, -1)
    dscanned, dz = (dv * silu(z)).reshape(s, heads, d), dv * y.reshape(s, -1) * silu_slope(z)
    skip = p[l, "head_scalars"][1]
    dvalues, dkeys, dqueries, dstep = (np.zeros_like(a) for a in (values, keys, queries, step))
    drate, dstate = np.zeros(heads), np.zeros((heads, d, n))
    for t in reversed(range(s)):
        dstate = dstate + dscanned[t][:, :, None] * queries[t][:, None, :]
        dqueries[t] = (states[t + 1] * dscanned[t][:, :, None]).sum(1)
        by_key = (dstate * keys[t][:, None, :]).sum(-1)
        dvalues[t] = step[t][:, None] * by_key + skip[:, None] * dscanned[t]
        dkeys[t] = (dstate * (step[t][:, None] * values[t])[:, :, None]).sum(1)
        dleft = (dstate * states[t]).sum((1, 2)) * left[t]
        dstep[t] = (values[t] * by_key).sum(-1) + dleft * rate
        drate += dleft * step[t]
        dstate = left[t][:, None, None] * dstate
    draw = dstep * llama.sigmoid(raw)
    g[l, "head_scalars"] += np.stack([drate * rate, (values * dscanned).sum((0, 2)), draw.sum(0)])
    of_groups = lambda a: a.reshape(s, groups, heads // groups, n).sum(2).reshape(s, -1)
    du = np.concatenate([dvalues.reshape(s, -1), of_groups(dkeys), of_groups(dqueries)], 1) * silu_slope(u)
    taps = np.concatenate([p[l, w] for w in TAPPED])
    dtaps, dpadded = np.zeros_like(taps), np.zeros_like(padded)
    for j in range(TAPS):
        dtaps[:, j] = (du * padded[j:j + s]).sum(0)
        dpadded[j:j + s] += du * taps[:, j]
    dtaps[:, TAPS] = du.sum(0)
    dmade = dpadded[TAPS - 1:]
    split = heads * d
    dx = np.zeros_like(x)
    for w, dw in ((INTO[0], dmade[:, :split]), (INTO[1], dmade[:, split:]), ("mixer_gate_weight", dz), ("mixer_step_weight", draw)):
        g[l, w] += dw.T @ x
        dx += dw @ p[l, w]
    g[l, TAPPED[0]] += dtaps[:split]
    g[l, TAPPED[1]] += dtaps[split:]
    return dx


def gradients(c, batch, total, p):
    return llama.gradients(c, batch, total, p, mixer=forward, mixer_back=back)
