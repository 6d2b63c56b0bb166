"""Section of gpu-measure about fine-tuning as people start it: models of Hugging Face's transformers, whole or with PEFT's
adapters, with and without gradient checkpointing. Each row is a step: its time, the host's share, its kernels, and what the
allocator held at most."""
import gc
import time

import torch

from bench import Timing
from steps import profile

GIB = 2**30
ADAPTED = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Shapes of Llama-3.2-1B, of half of Llama-3.1-8B (16 of 32 layers), and of Qwen3-30B-A3B with 4 of 48 layers.
SHAPES = {
    "llama-1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                     vocab_size=128256, tie_word_embeddings=True),
    "llama-4b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                     vocab_size=128256, tie_word_embeddings=False),
    "qwen3-moe-4l": dict(hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768, num_hidden_layers=4,
                         num_attention_heads=32, num_key_value_heads=4, head_dim=128, num_experts=128, num_experts_per_tok=8,
                         vocab_size=151936, norm_topk_prob=True)}
# (shape, tokens, sequences, checkpointing, adapters, masters in fp32 with autocast, attention, optimizer)
CASES = [("llama-1b", 2048, 4, True, False, False, "sdpa", "fused"),
         ("llama-1b", 2048, 4, False, False, False, "sdpa", "fused"),
         ("llama-1b", 2048, 4, True, False, True, "sdpa", "fused"),
         ("llama-1b", 2048, 4, False, False, True, "sdpa", "fused"),
         ("llama-1b", 2048, 4, False, False, False, "eager", "fused"),
         ("llama-1b", 2048, 4, True, False, False, "sdpa", "foreach"),
         ("llama-1b", 512, 1, False, False, False, "sdpa", "fused"),
         ("llama-1b", 8192, 1, True, False, False, "sdpa", "fused"),
         ("llama-1b", 2048, 4, True, True, False, "sdpa", "fused"),
         ("llama-1b", 2048, 4, False, True, False, "sdpa", "fused"),
         ("llama-4b", 2048, 2, True, False, False, "sdpa", "fused"),
         ("llama-4b", 2048, 2, True, True, False, "sdpa", "fused"),
         ("llama-4b", 2048, 2, False, True, False, "sdpa", "fused"),
         ("llama-4b", 4096, 2, True, True, False, "sdpa", "fused"),
         ("qwen3-moe-4l", 2048, 2, True, False, False, "sdpa", "fused"),
         ("qwen3-moe-4l", 2048, 2, False, False, False, "sdpa", "fused"),
         ("qwen3-moe-4l", 4096, 4, True, False, False, "sdpa", "fused")]


def trainer(b):
    """Steps of fine-tuning with transformers and PEFT, as their own classes write them."""
    try:
        import transformers
        from transformers.utils import logging
    except ImportError as why:
        return b.note("trainer", f"no transformers: {why}")
    logging.set_verbosity_error()
    b.note("trainer", f"transformers {transformers.__version__}; PEFT {version('peft')}")
    for shape, length, batch, again, adapters, mixed, attention, optimizer in CASES if not b.tiny else CASES[:3]:
        name = "; ".join([shape, "full" if not adapters else "LoRA 16 of all linears", "checkpointing" if again else "nothing again",
                          "fp32 with autocast" if mixed else "bf16", attention, f"{optimizer} AdamW"])
        with b.guarded(f"trainer {name}"):
            b.over()
            gc.collect()  # of a case that failed, too
            if b.cuda:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            one(b, name, shape, length, batch, again, adapters, mixed, attention, optimizer)
    optimizers(b)


def version(package):
    try:
        return __import__(package).__version__
    except ImportError:
        return "missing"


def build(b, shape, length, again, adapters, mixed, attention):
    import transformers
    sizes = dict(SHAPES[shape], max_position_embeddings=length, use_cache=False, attn_implementation=attention)
    if b.tiny:
        sizes.update(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                     vocab_size=256)
    kind = (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM) if "moe" in shape else (
        transformers.LlamaConfig, transformers.LlamaForCausalLM)
    torch.set_default_dtype(torch.float32 if mixed else b.kind)
    try:
        with torch.device(b.device):
            model = kind[1](kind[0](**sizes))
    finally:
        torch.set_default_dtype(torch.float32)
    if again:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if adapters:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=16, lora_dropout=0.0, target_modules=ADAPTED))
        if again:
            model.enable_input_require_grads()
    return model.train()


def one(b, name, shape, length, batch, again, adapters, mixed, attention, optimizer):
    model = build(b, shape, length, again, adapters, mixed, attention)
    trained = [p for p in model.parameters() if p.requires_grad]
    how = {optimizer: True} if b.cuda else {}
    adam = torch.optim.AdamW(trained, lr=1e-5, **how)
    length = min(length, 32) if b.tiny else length
    words = model.config.vocab_size
    tokens = torch.randint(words, (batch, length), device=b.device)

    def step():
        with torch.autocast(b.device, dtype=torch.bfloat16, enabled=mixed):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)
    for _ in range(2):
        step()
    b.synchronize()
    wall, host = [], []
    begin = time.time()
    for _ in range(4):
        before = time.perf_counter()
        step()
        host.append(time.perf_counter() - before)
        b.synchronize()
        wall.append(time.perf_counter() - before)
    counts = f"{sum(p.numel() for p in model.parameters())} parameters; {sum(p.numel() for p in trained)} trained"
    columns = dict(dtype="bf16", seq_len=length, M=batch)
    b.add("trainer", Timing(wall, begin, time.time()), extra=name, note=counts, **columns)
    b.add("trainer", Timing(host, begin, time.time()), extra=f"{name}; the host alone", **columns)
    if b.cuda:
        b.add("trainer", extra=name, direction="peak", metric="allocated", value=f"{torch.cuda.max_memory_allocated() / GIB:.4f}",
              unit="GiB", note=f"reserved {torch.cuda.max_memory_reserved() / GIB:.4f} GiB", **columns)
        profile(b, step, columns, "trainer", name)


def optimizers(b):
    """A step of the optimizer alone over the matrices of llama-1b's blocks, in bf16 with random gradients."""
    model = build(b, "llama-1b", 512, False, False, False, "sdpa")
    matrices = [p for p in model.model.layers.parameters() if p.dim() == 2]
    for p in matrices:
        p.grad = torch.randn_like(p)
    known = {"Muon": lambda: torch.optim.Muon(matrices, lr=1e-5), "fused AdamW": lambda: torch.optim.AdamW(matrices, lr=1e-5, fused=b.cuda),
             "for-each AdamW": lambda: torch.optim.AdamW(matrices, lr=1e-5, foreach=True)}
    for name, make in known.items():
        with b.guarded(f"optimizer {name}"):
            b.over()
            optimizer = make()
            b.add("optimizer", b.time(lambda i: optimizer.step(), work=.2), extra=f"{name}; matrices of the blocks of llama-1b",
                  note=f"{sum(p.numel() for p in matrices)} parameters", dtype="bf16")
