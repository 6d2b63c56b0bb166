"""Section of gpu-measure that leaves files as users own them: for each case a folder beside the table with the model's
config.json, the trainer's arguments, the log that Hugging Face's Trainer printed, and PyTorch's profile of two steps."""
import contextlib
import gc
import gzip
import json
import os
import shutil
import time

import torch

from bench import Timing
from trainer import GIB, SHAPES

# Steps that warm up, that are timed, and that are profiled.
WARM, TIMED, PROFILED = 4, 8, 2
QWEN = dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
            head_dim=128, vocab_size=151936, tie_word_embeddings=True)
GPT2 = dict(n_embd=1024, n_layer=24, n_head=16, vocab_size=50257)
# name: (classes of transformers, sizes, tokens, sequences, accumulation, checkpointing, masters in fp32 with autocast)
CASES = {"llama-1b": ("Llama", SHAPES["llama-1b"], 2048, 4, 1, False, False),
         "llama-1b-checkpointing": ("Llama", SHAPES["llama-1b"], 2048, 4, 2, True, True),
         "qwen3-600m": ("Qwen3", QWEN, 2048, 4, 1, False, True),
         "gpt2-medium": ("GPT2", GPT2, 1024, 8, 1, False, True),
         "llama-1b-short": ("Llama", SHAPES["llama-1b"], 512, 1, 1, False, False),
         "qwen3-moe-4l": ("Qwen3Moe", SHAPES["qwen3-moe-4l"], 2048, 2, 1, True, False),
         "llama-4b": ("Llama", SHAPES["llama-4b"], 4096, 2, 1, True, False)}


def traces(b):
    """Trainings by Hugging Face's Trainer, as files."""
    try:
        import transformers
        from transformers.utils import logging
    except ImportError as why:
        return b.note("traces", f"no transformers: {why}")
    logging.set_verbosity_error()
    b.note("traces", f"transformers {transformers.__version__}")
    for name, case in CASES.items() if not b.tiny else list(CASES.items())[:1]:
        with b.guarded(f"trace {name}"):
            b.over()
            gc.collect()
            if b.cuda:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            one(b, name, *case)


class Watch:
    """When steps end, and the profile of the last ones; a mixin, since the callback's class is in transformers."""

    def begin(self, b):
        from torch.profiler import ProfilerActivity, profile, schedule
        kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if b.cuda else [])
        self.b, self.times, self.before = b, [], 0.0
        self.profiler = profile(activities=kinds, record_shapes=True,
                                schedule=schedule(wait=WARM + TIMED, warmup=1, active=PROFILED, repeat=1),
                                on_trace_ready=lambda p: p.export_chrome_trace(self.trace))

    def on_train_begin(self, args, state, control, **rest):
        self.profiler.start()

    def on_step_end(self, args, state, control, **rest):
        if state.global_step <= WARM + TIMED:
            self.b.synchronize()
            now = time.perf_counter()
            if state.global_step > WARM:
                self.times.append(now - self.before)
            self.before = now
        self.profiler.step()

    def on_train_end(self, args, state, control, **rest):
        self.profiler.stop()


def one(b, name, kind, sizes, length, batch, accumulate, again, mixed):
    import transformers
    sizes = dict(sizes, use_cache=False)
    if b.tiny:
        sizes.update(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                     vocab_size=256)
        length = 32
    where = "n_positions" if kind == "GPT2" else "max_position_embeddings"
    config = getattr(transformers, kind + "Config")(**dict(sizes, **{where: length}))
    classes = {"GPT2": "GPT2LMHeadModel"}.get(kind, kind + "ForCausalLM")
    torch.set_default_dtype(torch.float32 if mixed else b.kind)
    try:
        with torch.device(b.device):
            model = getattr(transformers, classes)(config)
    finally:
        torch.set_default_dtype(torch.float32)
    folder = os.path.join(os.path.dirname(b.file), "traces", name)
    os.makedirs(folder, exist_ok=True)
    steps = WARM + TIMED + 1 + PROFILED
    arguments = transformers.TrainingArguments(
        output_dir=os.path.join(folder, "out"), per_device_train_batch_size=batch, gradient_accumulation_steps=accumulate,
        max_steps=steps, logging_steps=5, save_strategy="no", report_to="none", disable_tqdm=True, bf16=mixed and b.cuda,
        optim="adamw_torch_fused" if b.cuda else "adamw_torch", gradient_checkpointing=again,
        gradient_checkpointing_kwargs={"use_reentrant": False} if again else None, use_cpu=not b.cuda)
    made = torch.Generator().manual_seed(1)
    rows = [dict(input_ids=t, labels=t) for t in torch.randint(config.vocab_size, (steps * batch * accumulate, length),
                                                               generator=made)]
    watch = type("Callback", (Watch, transformers.TrainerCallback), {})()
    watch.trace = os.path.join(folder, "trace.json")
    watch.begin(b)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[watch])
    began = time.time()
    with open(os.path.join(folder, "train.log"), "w") as log, contextlib.redirect_stdout(log):
        trainer.train()
    timing = Timing(watch.times, began, time.time())
    count = sum(p.numel() for p in model.parameters())
    seen = {"model": kind, "parameters": count, "sequence": length, "micro_batch": batch, "accumulation": accumulate,
            "checkpointing": again, "masters_fp32_autocast": mixed, "step_s": timing.p50, "steps_s": watch.times}
    if b.cuda:
        seen.update(allocated_gib=torch.cuda.max_memory_allocated() / GIB, reserved_gib=torch.cuda.max_memory_reserved() / GIB)
    with open(os.path.join(folder, "case.json"), "w") as out:
        json.dump(seen, out, indent=1)
    config.architectures = [classes]
    config.to_json_file(os.path.join(folder, "config.json"))
    with open(os.path.join(folder, "training_args.json"), "w") as out:
        out.write(arguments.to_json_string())
    with open(watch.trace, "rb") as plain, gzip.open(watch.trace + ".gz", "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)
    os.unlink(watch.trace)
    shutil.rmtree(arguments.output_dir, ignore_errors=True)
    b.add("trace", timing, dtype="bf16", seq_len=length, M=batch, extra=name, note=f"{count} parameters")
