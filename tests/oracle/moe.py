"""Mixtures of experts for train.py, in numpy: Llama (llama.py) with layers of experts, as models/README.md section 9 says.

Every expert is applied to every token, and the weights of those that a token is not sent to are 0: no slots, no order of
rows, nothing to exchange.
"""
import numpy as np

import llama

SHARED = ("shared_gate_up_weight", "shared_down_weight")


def layer_parameters(network, l):
    c = network.c
    if l < c["dense_layers"]:
        return llama.mlp_parameters(network, l)
    h, f, e, shared = c["hidden"], c["expert_ffn"], c["experts"], c["shared_experts"] * c["expert_ffn"]
    network.make("router_weight", l, (e, h), h**-0.5)
    network.make("expert_gate_up_weight", l, (e * 2 * f, h), h**-0.5)
    network.make("expert_down_weight", l, (e * h, f), f**-0.5)
    if shared:
        network.make("shared_gate_up_weight", l, (2 * shared, h), h**-0.5)
        network.make("shared_down_weight", l, (h, shared), shared**-0.5)


def parameters(network):
    llama.parameters(network, layer_parameters)


def chosen_of(logits, k):
    """1 for the k largest of each row, else 0."""
    mask = np.zeros_like(logits)
    np.put_along_axis(mask, np.argsort(-logits, axis=-1, kind="stable")[:, :k], 1, axis=-1)
    return mask


def one_expert(p, l, i, c):
    """The matrices of an expert, as a network of its own."""
    h, f = c["hidden"], c["expert_ffn"]
    up, down = slice(i * 2 * f, (i + 1) * 2 * f), slice(i * h, (i + 1) * h)
    return {(l, "gate_up_weight"): p[l, "expert_gate_up_weight"][up], (l, "down_weight"): p[l, "expert_down_weight"][down]}


def forward(c, l, x, p):
    if l < c["dense_layers"]:
        return llama.mlp(c, l, x, p)
    logits = x @ p[l, "router_weight"].T
    e = np.exp(logits - logits.max(-1, keepdims=True))
    probability = e / e.sum(-1, keepdims=True)
    mask = chosen_of(logits, c["experts_per_token"])
    weights = probability * mask
    if c["experts_per_token"] > 1:
        weights = weights / weights.sum(-1, keepdims=True)
    outputs, saved = zip(*[llama.mlp(c, l, x, one_expert(p, l, i, c)) for i in range(c["experts"])])
    y = sum(weights[:, i:i + 1] * outputs[i] for i in range(c["experts"]))
    shared = None
    if c["shared_experts"]:
        more, shared = llama.swiglu(x, p, l, *SHARED)
        y = y + more
    return y, (probability, mask, weights, outputs, saved, shared)


def back(c, l, dy, x, inside, p, g):
    if l < c["dense_layers"]:
        return llama.mlp_back(c, l, dy, x, inside, p, g)
    probability, mask, weights, outputs, saved, shared = inside
    dx = np.zeros_like(x)
    dweights = np.zeros_like(weights)
    for i in range(c["experts"]):
        dweights[:, i] = (dy * outputs[i]).sum(-1)
        # Views of the gradients of all experts: what is added to them is added there.
        dx += llama.mlp_back(c, l, weights[:, i:i + 1] * dy, x, saved[i], one_expert(p, l, i, c), one_expert(g, l, i, c))
    dprobability = dweights * mask
    if c["experts_per_token"] > 1:  # weights = probability / the sum of the chosen ones
        chosen = (probability * mask).sum(-1, keepdims=True)
        dprobability = mask * (dweights - (weights * dweights).sum(-1, keepdims=True)) / chosen
    dlogits = probability * (dprobability - (dprobability * probability).sum(-1, keepdims=True))
    g[l, "router_weight"] += dlogits.T @ x
    dx += dlogits @ p[l, "router_weight"]
    if c["shared_experts"]:
        dx += llama.swiglu_back(dy, x, shared, p, l, g, *SHARED)
    return dx


def gradients(c, batch, total, p):
    return llama.gradients(c, batch, total, p, forward, back)
