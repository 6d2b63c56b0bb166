"""Weights as the program writes them (`--weights`): safetensors, fp32."""
import json

import numpy as np


def read_safetensors(path):
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
        data = f.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        tensors[name] = np.frombuffer(data[begin:end], np.float32).astype(np.float64)
    return tensors


def name_of(key):
    layer, kind = key
    outside = kind in ("token_table", "position_table", "norm_gain", "norm_bias", "head_weight")
    return kind if outside else f"layers.{layer}.{kind}"
