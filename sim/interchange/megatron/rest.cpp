// Arguments without effect on time and memory of a training step, as far as a scenario knows them.
#include <algorithm>
#include <utility>

#include "interchange/megatron/reading.hpp"

namespace rehearsal::interchange {

namespace {

// Names without effect on time and memory of a step, as far as a scenario knows them; * for all that begin so. Data,
// checkpoints, logs, learning rates, tokenizers, inference, and what other arguments have said by then.
constexpr std::string_view kWithoutEffect = R"(
_target_ account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split accumulate_allreduce_grads_in_fp32
activation_func activation_func_clamp_value activation_func_fp8_input_store activations_checkpoint_* adam_*
add_position_embedding adlr_* align_* app_tag_* apply_layernorm_1p apply_query_key_layer_scaling
apply_residual_connection_post_layernorm apply_wd_to_qk_layernorm async_ckpt_* async_grad_allreduce async_mode
async_save async_strategy async_tensor_model_parallel_allreduce attention_softmax_in_fp32 auto_continue_train
auto_detect_ckpt_format autocast_dtype autocast_enabled barrier_with_L1_time batch_p2p_comm batch_p2p_sync batch_size
beginning_* bert_* bf16 bias_activation_fusion bias_dropout_add_fusion bias_dropout_fusion bias_gelu_fusion
bias_swiglu_fusion biencoder_* block_data_path cache_mla_latents calc_ft_timeouts check_for_large_grads
check_for_nan_in_grad check_for_nan_in_loss check_for_nan_in_loss_and_grad check_for_spiky_loss
check_weight_hash_across_dp_replicas_interval ckpt_* classes_fraction clip_grad clone_scatter_output_in_embedding
config_logger_dir consumed_* conv_L_cache create_attention_mask_in_dataloader cross_entropy_fusion_impl cuda_graph_*
data_args_path data_cache_path data_parallel_random_init data_parallel_size data_path data_per_class_fraction
data_sharding dataloader_* dataset_* ddp_average_in_collective deallocate_pipeline_outputs
delay_offload_until_cuda_graph decode_only_cuda_graphs decoder_seq_length decoder_tp_comm_overlap decoupled_*
decrease_batch_size_if_needed default_* deprecated_* dino_* disable_bf16_reduced_precision_matmul
disable_compile_dependencies disable_gloo_process_groups disable_last_saving disable_mamba_mem_eff_path disable_mlflow
disable_parameter_transpose_cache disable_primus_topk_router disable_profiler_activity_cpu
disable_straggler_on_startup disable_symmetric_registration disable_tensorboard disable_vision_class_token
disable_wandb dist_ckpt_* distributed_backend distributed_timeout_* do_layer_norm_weight_decay eidx embedding_init_*
embedding_path empty_unused_memory_level enable_autocast enable_experimental enable_ft_package
enable_gloo_process_groups enable_megatron_core_experimental enable_msc enable_one_logger encoder_num_layers
encoder_pipeline_model_parallel_size encoder_seq_length encoder_tensor_model_parallel_size end_weight_decay
eod_mask_loss error_injection_* eval_* evidence_data_path exit_* exp_avg_dtype exp_avg_sq_dtype export_*
file_sink_level fim_* finalize_model_grads_func finetune flash_decode fp16 fp16_lm_cross_entropy fp32 fp4_* fp8_amax_*
fp8_interval fp8_margin fp8_param fp8_param_gather fp8_recipe fp8_wgrad full_validation generation_config
gpu_sniff_test_interval grad_allreduce_chunk_size_mb grad_div_ar_fusion grad_scale_func grad_sync_func
gradient_as_bucket_view gradient_reduce_div_fusion grpo_* head_lr_mult headscale hetereogenous_* heterogeneous_*
hidden_act high_freq_factor hybrid_attention_ratio hybrid_mlp_ratio hysteresis ict_* incoming_requests_* indexer_*
inference_* init_* initial_loss_scale inprocess_restart is_hybrid_model iter_per_epoch iteration iterations_to_skip
keep_fp8_transpose_cache* langrl_* language_model_checkpoint lazy_* linear_attention_freq linear_conv_kernel_dim
linear_key_head_dim linear_num_key_heads linear_num_value_heads linear_scaler_end linear_scaler_start
linear_value_head_dim load load_* local_rank log_* logging_* loss_scale* low_freq_factor lr lr_* main_grads_dtype
main_params_dtype mamba_head_dim mamba_inference_* mamba_int_list mamba_num_groups mamba_num_heads mamba_state_dim
manual_gc* mask_* max_seqlen_per_dp_cp_rank max_tokens_to_oom mcore_* megatron_amp_O2 megatron_fsdp_* memory_*
merge_file mid_level_dataset_surplus min_loss_scale min_lr min_offloaded_tensor_size mlflow_* mlp_chunks_*
mmap_bin_files mock_data model_parallel_size model_provider moe_apply_probs_on_input moe_aux_loss_coeff
moe_enable_routing_replay moe_expert_capacity_factor moe_expert_int_list moe_extended_tp moe_ffn_hidden_size
moe_grouped_gemm moe_input_jitter_eps moe_latent_size moe_layer_freq moe_layer_recompute
moe_pad_expert_input_to_capacity moe_pad_experts_for_cuda_graph_inference moe_per_layer_logging moe_permute_fusion
moe_router_bias_update_rate moe_router_dtype moe_router_enable_expert_bias moe_router_force_biased
moe_router_force_load_balancing moe_router_fusion moe_router_group_topk moe_router_load_balancing_type
moe_router_num_groups moe_router_padding_for_fp8 moe_router_padding_for_quantization moe_router_pre_softmax
moe_router_score_function moe_router_topk moe_router_topk_limited_devices moe_router_topk_scaling_factor
moe_routing_trace_* moe_shared_expert_gate moe_shared_expert_intermediate_size moe_shared_expert_overlap
moe_token_dispatcher_type moe_token_drop_policy moe_token_dropping moe_use_fused_router_with_aux_score
moe_use_upcycling moe_z_loss_coeff mrope_section mhc_* mscale* mtp_detach_heads mtp_loss_scaling_factor
mtp_use_repeated_layer multiple_validation_sets muon_* mxfp4_* native_amp_* nccl_* no_align_*
no_check_for_nan_in_loss_and_grad no_ckpt_* no_create_attention_mask_in_dataloader no_initialization no_load_*
no_log_* no_mmap_bin_files no_pin_* no_record_throughput no_rl_* no_rope_freq no_save_* no_sync_func
no_use_layer_wise_param_layout no_use_tokenizer_model_from_checkpoint_args no_weight_decay_cond_type no_yarn_*
non_persistent_* norm_epsilon normalize_attention_scores nsys_profile num_channels num_classes
num_dataset_builder_threads num_distributed_optimizer_instances num_residual_streams
num_microbatches_with_partial_activation_checkpoints num_tokens_to_generate num_workers nvtx_ranges
object_storage_cache_path old_context_len one_logger_* onnx_safe openai_gelu original_* outer_dp_sharding_strategy
output_bert_embeddings output_every_n_results output_layer_init_method output_path overlap_cpu_optimizer_d2h_h2d
override_* packing_* parallel_output param_sync_func params_dtype patch_* per_split_data_args_path
perform_initialization perform_rl_step persist_layer_norm pin_cpu_* pipeline_dtype
pipeline_model_parallel_comm_backend pipeline_model_parallel_split_rank position_embedding_type post_process pp_warmup
pre_process preserve_fp32_weights pretrained_* profile* prompt* qk_clip* query_* random_* rank record_memory_history
refit_* relative_attention_* replication* rerun_* reset_* result_* resume_from_checkpoint retriever_* retro_* return_*
reuse_grad_buf_for_mxfp8_param_ag rl_* rope_* rotary_* router_* run_workload_inspector_server runtime_time_unit
sample_rate save save_* scale_factor scatter_embedding_sequence_parallel seed seq_len_* sft* sgd_momentum
share_token_embeddings sharp_* short_seq_prob should_pad_vocab sink_window_even_layers_only skip_* skipped_*
softmax_scale spec split split_* standalone_embedding_stage start_eval_at_iter start_weight_decay stderr_sink_level
stop_words store_param_remainders straggler* suggested_communication_unit_size suspend_* swin_* sync_batch_comm
te_rng_tracker temperature tensorboard_* termination_id test_data_path test_mode throughput_window_size tiktoken_*
timers timing_* titles_data_path tokenizer_* top_k top_n_logprobs top_p torch_profiler_* tp_comm_* tp_only_amax_red
train_data_path train_iters train_samples train_sync_interval trainable transformer_engine transformer_impl
transformer_layer_spec transformer_pipeline_model_parallel_size turbo_* ub_* untie_* use_checkpoint_args
use_checkpoint_opt_param_scheduler use_coordinator use_cpu_initialization use_dist_ckpt* use_emha
use_flashinfer_fused_rope use_fused_weighted_squared_relu use_gloo_process_groups use_legacy_* use_mamba_mem_eff_path
use_mcore_models use_mlflow use_mp_args_* use_one_sent_docs use_persistent_ckpt_worker use_precision_aware_optimizer
use_pytorch_profiler use_ring_exchange_p2p use_rocm_mem_info use_rocm_mem_info_iters use_rope_scaling
use_rotary_position_embeddings use_sharp use_te_rng_tracker use_tokenizer_* use_torch_optimizer_for_cpu_offload
use_tp_pp_dp_mapping use_transformer_engine_full_layer_spec use_turbo_* use_wandb v_head_dim valid_data_path
validation_set_names variable_seq_lengths verify_integrity vision_* vocab_extra_ids vocab_file wandb_* warmup
wd_incr_steps weight_decay* wgrad_deferral_limit wsd_decay_steps yaml_cfg yarn_*
)";

// Of 2025 and 2026, core/transformer/transformer_config.py and training/config: what is taken in their place.
constexpr std::pair<const char*, const char*> kTakenOtherwise[] = {
    {"hybrid_context_parallel", "sequences are cut over all context ranks, whatever their length"},
    {"dynamic_context_parallel", "sequences are cut over all context ranks, whatever their length"},
    {"sequence_packing_scheduler", "micro-batches are alike; batch.lengths and batch.packing say others"},
    {"overlap_dispatch_backward_with_experts_wgrad", "gradients of experts' weights hide no all-to-all"},
    {"ep_overlap_early_attn_memory_release", "activations of attention stay until their usual end"},
    {"enable_hyper_connections", "residual streams; one is taken"},
    {"moe_n_hash_layers", "layers that choose experts by the token; taken with a router"},
    {"csa_compress_ratios", "attention over compressed keys is taken as the usual one"},
    {"moe_paged_stash", "experts' activations are kept as large as they are"},
    {"moe_expert_rank_capacity_factor", "buffers of experts are as large as their tokens"},
    {"moe_use_device_initiated_grouped_gemm", "priced as grouped products of Transformer Engine"},
    {"use_transformer_engine_op_fuser", "kernels are fused as the framework's profile has them"},
    {"use_layer_wise_distributed_optimizer", "states are sharded by bytes, and not layer by layer"},
    {"offload_optimizer_states",
     "states stay on the GPU between steps; training.offload.optimizer says that they leave"},
    {"optimizer_cuda_graph", "launches of the optimizer's kernels are as the framework's"},
    {"fsdp_double_buffer", "buffers of gathered parameters are the framework's"},
    {"qk_l2_norm", "norms of queries and keys without weights, not priced"},
    {"use_kitchen_attention", "taken as the usual fused attention"},
    {"batch_invariant_mode", "kernels are priced as the fastest ones"},
    {"disable_jit_fuser", "kernels are fused as the framework's profile has them"}};

}  // namespace

void ignore_megatron_rest(MegatronReading& run) {
  // Of trainers that sample or serve beside training steps.
  run.no_word("perform_rl_step", "what is sampled between steps is no part of a scenario; the training step is taken");
  run.no_word("flextron", "the whole network is taken, and no part of it");
  run.no_word("export_kd_teacher_load", "the teacher of a distillation is no part of a scenario");
  run.no_word("heterogeneous_layers_config_path", "layers are taken as the other arguments have them");
  run.no_word("enable_primus_turbo", "kernels of Primus Turbo are priced as the framework's");
  run.no_word("recompute_layer_ids", "--recompute-granularity and its layers are taken");
  run.no_word("patch_moe_overlap", "framework.expert_overlap says it");
  run.no_word("patch_zero_bubble", "the pipeline is taken in Megatron's order; schedule says another");
  run.no_word("retro_add_retriever", "the retriever is left out");
  run.no_word("use_packed_sequence", "sequences are taken as one document; batch.lengths and batch.packing say others");
  run.no_word("total_seq_length", "sequences are taken as one document; batch.lengths and batch.packing say others");
  run.no_word("rl_use_sequence_packing", "sequences are taken as one document");
  run.no_word("add_qkv_bias", "biases of queries, keys and values, below 0.1 % of the parameters");
  run.no_word("moe_use_legacy_grouped_gemm", "priced as grouped products of Transformer Engine");
  run.no_word("glu_linear_offset", "not priced");
  run.no_word("ddp_pad_buckets_for_high_nccl_busbw", "buckets are not padded");
  run.no_word("high_priority_stream_groups", "all groups are alike");
  run.no_word("no_persist_layer_norm", "norms are priced as Transformer Engine's");
  for (const auto& [name, why] : kTakenOtherwise) run.no_word(name, why);
  for (std::size_t at = 0; at < kWithoutEffect.size();) {
    const auto end = std::min(kWithoutEffect.find_first_of(" \n", at), kWithoutEffect.size());
    if (end > at) run.keys.ignore({kWithoutEffect.substr(at, end - at)});
    at = end + 1;
  }
}

}  // namespace rehearsal::interchange
