// What trainers on top of Hugging Face's Trainer have in common: axolotl, LLaMA-Factory, ms-swift; and the sections of
// FSDP that they share with Accelerate.
#pragma once
#include <string>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"

namespace rehearsal::interchange {

// FSDP's section, whose keys may begin with fsdp_. Finishes it.
void read_fsdp(Keys fsdp, ScenarioDraft& draft);
// "full_shard auto_wrap offload", TrainingArguments.fsdp: a text, or a list of such words.
void read_fsdp_words(ScenarioDraft& draft, const Said<std::vector<const scenario::Node*>>& words);

// The model by its name on the Hub, or the last folder of its path.
void say_model(ScenarioDraft& draft, const Said<std::string>& name, const scenario::Files& files);

// TrainingArguments.optim.
void say_optimizer(ScenarioDraft& draft, const Said<std::string>& name);

// Linear layers with adapters, by the names of their modules in transformers: q_proj, gate_proj; "all" and the like.
void say_adapted(ScenarioDraft& draft, const Said<std::vector<const scenario::Node*>>& modules);

// Bits of the frozen weights beside adapters: 8, or 4 (nf4, whose scales have scales).
void say_frozen(ScenarioDraft& draft, std::int64_t bits, bool doubly, const scenario::Node& at,
                const std::string& word);

// "attn_implementation" and its likes.
void say_attention(ScenarioDraft& draft, const Said<std::string>& name);

// Layers are recomputed, or are not. A false of one file does not forbid it in another.
void say_recomputation(ScenarioDraft& draft, const Said<bool>& said);

// DeepSpeed's configuration: in place, or a file that is wanted.
void read_deepspeed_reference(Sources& sources, const Source& source, ScenarioDraft& draft,
                              const Said<const scenario::Node*>& said);

// Sequences without the lengths of documents.
void say_packing(ScenarioDraft& draft, const Said<bool>& packs);

// Micro-batch, accumulation, precision, steps of TrainingArguments.
void read_training_arguments(Keys& keys, ScenarioDraft& draft);

// Parallelism in Megatron-Core's words, of trainers that hand it on; whether any was there.
bool read_megatron_words(Keys& keys, ScenarioDraft& draft);

// The framework that none of the files names, and how eager layers compute.
void assume_trainer(ScenarioDraft& draft, bool fused_kernels);

// Ignores what TrainingArguments say without effect on time and memory.
void ignore_training_arguments(Keys& keys);

}  // namespace rehearsal::interchange
