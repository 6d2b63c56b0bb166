// What a configuration of transformers says besides the model's shape (configuration_utils.py, PretrainedConfig, and
// configurations of single models).
#include <algorithm>

#include "interchange/huggingface/config.hpp"

namespace rehearsal::interchange {
namespace {

// Words between spaces.
constexpr std::string_view kWithoutEffect[] = {
    // The class, the file and who wrote it.
    "_* architectures auto_map model_type tokenizer_class transformers_version name name_or_path finetuning_task "
    "task_specific_params problem_type id2label label2id return_dict* custom_pipelines source verbose unsloth_*",
    // How weights lie in the checkpoint; what training computes in, `training.precision` says.
    "torch_dtype dtype expert_dtype params_dtype quantization_config compression_config",
    // Tokens, and how text is generated.
    "bos_* eos_* pad_* sep_* unk_* cls_* mask_* boa_* boi_* eoa_* eoi_* image_token* video_* audio_token* "
    "vision_start_token_id vision_end_token_id vision_soft_tokens_per_image media_placeholder_token_id ignore_index "
    "decoder_start_token_id bad_words_ids begin_suppress_tokens suppress_tokens forced_* do_sample early_stopping "
    "length_penalty max_length min_length no_repeat_ngram_size encoder_no_repeat_ngram_size num_beams num_beam_groups "
    "num_return_sequences diversity_penalty exponential_decay_length_penalty remove_invalid_values repetition_penalty "
    "temperature top_k top_p typical_p output_* use_cache num_logits_to_keep generation_* keys_to_ignore_at_inference "
    "cache_implementation",
    // Positions: all ways of rotating cost the same.
    "rope_* rotary_* rotary rope partial_rotary_factor use_mrope mrope_* compress_rope_theta indexer_rope_interleave "
    "initial_context_length original_max_position_embeddings position_embedding_type relative_attention_* alibi* "
    "mla_use_nope "
    "attention_layers max_relative_positions no_rope_layer new_decoder_architecture multi_query",
    // Norms, scales and clamps; numbers of a training's loss and start.
    "rms_norm_eps layer_norm_eps* norm_eps layernorm_* norm_epsilon layer_norm_epsilon layer_norm_elementwise_affine "
    "initializer_* init_* scale_* attention_softmax_in_fp32 final_logit_softcapping attn_logit_softcapping "
    "query_pre_attn_scalar embedding_multiplier attention_multiplier residual_multiplier logits_scaling logit_scale* "
    "mup_* z_loss_* norm_topk_prob norm_type qk_norm_type norm_before_gate rescale_prenorm_residual residual_in_fp32 "
    "time_step_* hc_eps hc_sinkhorn_iters moe_router_scaling_factor linear_attn_* clip_qkv",
    // Which experts, not how many.
    "router_* output_router_logits routed_scaling_factor scoring_func score_function topk_method aux_loss_alpha "
    "seq_aux "
    "use_routing_bias use_moe_router_bias ep_size moe_router_* route_scale jitter_noise input_jitter_noise "
    "moe_shared_expert_overlap moe_capacity moe_use_aux_free moe_num_shared_experts moe_renormalize",
    // Dropouts of fine-tuning are the framework's (framework.dropout).
    "attention_dropout* attention_probs_dropout_prob hidden_dropout* resid_* embd_pdrop emb_pdrop attn_pdrop dropout "
    "activation_dropout classifier_dropout layerdrop summary_*",
    // Of other tasks and code paths; biases where the family has them, or none.
    "add_cross_attention cross_attention_hidden_size is_decoder is_encoder_decoder tie_encoder_decoder "
    "tie_word_embeddings tie_weights_* pruned_heads prefix torchscript tf_* use_bfloat16 pretraining_tp "
    "chunk_size_feed_forward type_vocab_size use_bias bias no_bias use_conv_bias mamba_proj_bias use_mamba_kernels "
    "use_mtp mtp_* use_unified_vision_chunk use_bidirectional_attention vocab_size_per_layer_input enable_moe_block "
    "do_layer_norm_before apply_residual_connection_post_layernorm slow_but_exact masked_softmax_fusion skip_bias_add* "
    "bias_dropout_fusion hidden_act flex_attention_mask use_flash_attn* gradient_checkpointing attn_config ffn_config "
    "moe_config vision_config text_config audio_config"};

void ignore_words(Keys& keys, std::string_view words) {
  for (std::size_t begin = 0; begin < words.size();) {
    const auto end = std::min(words.find(' ', begin), words.size());
    keys.ignore({words.substr(begin, end - begin)});
    begin = end + 1;
  }
}

}  // namespace

void ignore_hf_keys(Keys& keys) {
  // Weights of a checkpoint in fewer bits say nothing of a training, but for those that adapters are trained beside.
  if (const auto method = keys.text({"quantization_config.quant_method"});
      method && (method->value == "bitsandbytes" || method->value == "gptq" || method->value == "awq"))
    keys.draft().no_word(method->at->where(), method->word + ": " + method->value,
                         "how the checkpoint lies on disk; where adapters are trained beside it, say "
                         "training.frozen_precision");
  for (const auto words : kWithoutEffect) ignore_words(keys, words);
}

}  // namespace rehearsal::interchange
