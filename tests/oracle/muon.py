"""Muon for train.py, in numpy: what it steps on, and the factor of a matrix by its singular values."""
import math

import numpy as np


def matrices(kind, value):
    """A tensor of a layer as the matrices that Muon steps on one by one; nothing for what takes AdamW's step."""
    parts = {"qkv_weight": 3, "gate_up_weight": 2, "query_weight": 1, "key_weight": 1, "value_weight": 1, "out_weight": 1,
             "up_weight": 1, "down_weight": 1}
    return np.split(value, parts[kind]) if kind in parts else []


def orthogonal(x):
    """What five iterations of Muon's polynomial make of x: it acts on singular values alone. As large as AdamW's steps."""
    u, s, v = np.linalg.svd(x, full_matrices=False)
    s = s / (np.sqrt((s * s).sum()) + 1e-7)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return 0.2 * math.sqrt(max(x.shape)) * (u * s) @ v
