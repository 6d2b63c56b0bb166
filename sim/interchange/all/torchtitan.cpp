// torchtitan: the TOML that it read until February 2026 (config/job_config.py), and the JSON of
// --debug.save_config_file since (config/configs.py, training.py, parallelism.py). The sections are the same; a model
// is a name and a flavor, whose dimensions are in torchtitan/models/NAME/__init__.py.
#include "interchange/torchtitan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interchange/keys.hpp"
#include "interchange/names.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

// Before 0.1, which had batch and degrees in one section.
bool is_old(const Source& source) {
  return source.kind == Source::Kind::toml && source.has({"training.batch_size", "training.seq_len"});
}

bool recognises(const Source& source) {
  return source.has({"model.flavor"}) || source.has({"model_spec", "parallelism"}) ||
         source.has({"parallelism.data_parallel_shard_degree"}) ||
         source.has({"parallelism.tensor_parallel_degree", "training"}) ||
         source.has({"training.local_batch_size", "training.seq_len"}) || is_old(source);
}

class Titan {
 public:
  Titan(Sources& sources, const Source& source, ScenarioDraft& draft)
      : files_(sources.files()), draft_(draft), root_(draft, source.tree) {}

  void read() {
    model();
    parallelism();
    training();
    recomputation();
    compilation();
    optimizer();
    checkpoint();
    draft_.assume("framework.use", "titan-2025", "its release is not said; the newest profile of torchtitan");
    if (auto job = root_.below("job"); job.map()) {
      if (const auto title = job.text({"description"})) draft_.say("name", title->value, *title->at, title->word);
    }
    if (auto experiment = root_.below("experimental"); experiment.map()) {
      experiment.no_word("custom_import", {""});
      experiment.no_word("custom_args_module", {""});
      experiment.finish();
    }
    if (auto tolerance = root_.below("fault_tolerance"); tolerance.map()) tolerance.no_word("enable");
    root_.ignore({"profiling", "profiler", "metrics", "comm", "debug", "lr_scheduler", "validation", "validator",
                  "memory_estimation", "dump_folder", "tokenizer", "dataloader", "hf_assets_path", "description",
                  "loss", "print_config", "structured_logger"});
    root_.finish();
  }

 private:
  void model() {
    auto section = root_.below("model");
    if (section.map()) {
      name_ = section.text({"name"}), flavor_ = section.text({"flavor"});
      converters_by_name(section);
      section.ignore({"hf_assets_path", "tokenizer_path", "print_after_conversion"});
      section.finish();
    }
    if (auto spec = root_.below("model_spec"); spec.map())
      name_ = spec.text({"name"}), flavor_ = spec.text({"flavor"});  // the rest are functions and every module
    if (auto converters = root_.below("model_converters"); converters.map())
      if (const auto list = converters.list({"converters"}))
        for (const Node* one : list->value) converter(Keys(draft_, one, "model_converters.converters."));
    if (!flavor_) return;
    const std::string name = name_ ? name_->value : "llama3";
    std::string flavor = flavor_->value;
    for (const std::string_view ending : {"_flex_attn", "_varlen_attn", "_flex", "_varlen", "_fused_qkv"})
      if (flavor.ends_with(ending)) {
        draft_.no_word(flavor_->at->where(), flavor_->word + ": " + flavor, "the usual attention is taken");
        flavor = flavor.substr(0, flavor.size() - ending.size());
      }
    if (const auto ours = model_named(name + " " + flavor, files_))
      draft_.say("model.use", *ours, *flavor_->at, fmt::format("{} of {}", flavor, name));
    else
      draft_.wanted(flavor_->at->where(), "model", fmt::format("flavor {} of {}", flavor_->value, name),
                    fmt::format("torchtitan/models/{}/__init__.py: give the config.json of that model beside this file "
                                "(rehearse list models has those that are known)",
                                name));
  }

  // model.converters of TOML, whose settings are in sections of their own.
  void converters_by_name(Keys& section) {
    const auto list = section.list({"converters"});
    for (const Node* one : list ? list->value : std::vector<const Node*>{}) {
      const auto& word = one->text;
      const bool grouped = word.find("grouped_mm") != word.npos;
      if (word.find("float8") != word.npos && !grouped) {
        draft_.say("training.precision", "fp8", *one, "model.converters");
        auto float8 = root_.below("float8").map() ? root_.below("float8") : root_.below("quantize.linear.float8");
        settings(float8, "tensorwise", *one);
      } else if (word.find("mx") != word.npos && !grouped) {
        draft_.say("training.precision", "fp8", *one, "model.converters");
        auto mx = root_.below("mx").map() ? root_.below("mx") : root_.below("quantize.linear.mx");
        settings(mx, "mx", *one);
      } else if (grouped) {
        draft_.no_word(one->where(), "model.converters: " + word,
                       "products of experts have the precision of the others");
      } else {
        draft_.not_understood(one->where(), "model.converters: " + word);
      }
    }
    // Until 2025 a switch of the section, and no converter.
    if (auto float8 = root_.below("float8"); !list && float8.map())
      if (const auto on = float8.boolean({"enable_float8_linear"}); on && on->value) {
        draft_.say("training.precision", "fp8", *on->at, on->word);
        settings(float8, "tensorwise", *on->at);
      }
    root_.ignore({"float8", "mx", "quantize"});
  }

  // One of JSON, which does not say of which class it is; its fields do.
  void converter(Keys fields) {
    const auto recipe = fields.has("recipe_name") ? fields.text({"recipe_name"}) : std::nullopt;
    const bool mx = (recipe && recipe->value.starts_with("mx")) || fields.has("mxfp8_dim1_cast_kernel_choice") ||
                    (fields.map() && fields.map()->find("linears_saving_inputs_for_backward_in_mxfp8"));
    const bool lora = fields.has("rank"), float8 = fields.has("filter_fqns") || fields.has("emulate") || recipe;
    const auto& at = *fields.map();
    if (lora) {
      fields.say_integer("training.lora.rank", {"rank"});
      fields.no_word("target_modules", {"[]", "null"}, "all linear layers are taken");
      fields.ignore({"alpha", "save_format"});
      fields.finish();
    } else if (mx || float8) {
      draft_.say("training.precision", "fp8", at, "model_converters.converters");
      settings(fields, mx ? "mx" : "tensorwise", at);
    } else {
      draft_.not_understood(at.where(), "model_converters.converters: " + scenario::flow_text(at));
    }
  }

  // components/quantization/float8.py: without a recipe the scale is a tensor's.
  void settings(Keys& section, const char* usual, const Node& converter) {
    const auto recipe = section.text({"recipe_name"});
    const auto& word = recipe ? recipe->value : std::string();
    const std::string scaling = word.starts_with("rowwise")      ? "rowwise"
                                : word.starts_with("tensorwise") ? "tensorwise"
                                : word.starts_with("mx")         ? "mx"
                                                                 : usual;
    if (word == "rowwise_with_gw_hp")
      draft_.no_word(recipe->at->where(), recipe->word + ": " + word, "taken as rowwise in all products");
    section.ignore({"enable_float8_linear"});
    if (recipe)
      draft_.say("framework.fp8_scaling", scaling, *recipe->at, recipe->word);
    else
      draft_.say("framework.fp8_scaling", scaling, converter, "a converter without recipe_name");
    if (const auto gather = section.boolean({"enable_fsdp_float8_all_gather"}))
      draft_.say("framework.fp8_gather", gather->value, *gather->at, gather->word);
    section.no_word("emulate");
    section.ignore({"precompute_float8_dynamic_scale_for_fsdp", "force_recompute_fp8_weight_in_bwd", "filter_fqns",
                    "moe_fqns_prototype", "mxfp8_dim1_cast_kernel_choice", "model_compile_enabled", "fqns",
                    "linears_saving_inputs_for_backward_in_mxfp8"});
    section.finish();
  }

  // Until 2025 degrees were where nobody looks for them now: torchtitan 0.1 has a section of them.
  void refuse_old_degrees() {
    for (const char* old : {"training", "experimental"}) {
      const Node* section = root_.map()->find(old);
      if (!section || section->kind != Node::Kind::map) continue;
      for (const auto& [key, value] : section->entries) {
        const std::string_view name = key->text;
        if (name == "data_parallel_degree" ||
            (!name.ends_with("_parallel_degree") && name != "data_parallel_shard_degree" &&
             name != "data_parallel_replicate_degree" && !name.starts_with("pipeline_parallel_") &&
             name != "enable_async_tensor_parallel"))
          continue;
        wrong(*key, fmt::format("'{}.{}' is a word of torchtitan before 0.1; since then such words are below "
                                "[parallelism]: move it and its likes there",
                                old, name));
      }
    }
  }

  void parallelism() {
    refuse_old_degrees();
    auto section = root_.below("parallelism");
    const auto degree = [&](const char* key, const char* ours) {
      const auto said = section.integer({key});
      if (said && said->value < 1)
        wrong(*said->at, fmt::format("'{}' must be 1 or more; found {}", said->word, said->value));
      if (said && ours) draft_.say(ours, said->value, *said->at, said->word);
      return said ? said->value : 1;
    };
    const auto tensor = degree("tensor_parallel_degree", "parallelism.tensor");
    context_ = degree("context_parallel_degree", "parallelism.context");
    pipeline_ = degree("pipeline_parallel_degree", "parallelism.pipeline");
    degree("expert_parallel_degree", "parallelism.expert");
    degree("expert_tensor_parallel_degree", "parallelism.expert_tensor");
    if (tensor > 1) {
      const auto sequence = section.boolean({"enable_sequence_parallel"});
      if (sequence)
        draft_.say("parallelism.sequence", sequence->value, *sequence->at, sequence->word);
      else
        draft_.derive("parallelism.sequence", true, "torchtitan's tensor parallelism has it");
    }
    sharding(section);
    contexts(section);
    micro_ = section.integer({"pipeline_parallel_microbatch_size"});
    rounds_ = section.integer({"num_pp_microbatches"});
    torchtitan_pipeline(section, pipeline_);
    if (const auto async = section.boolean({"enable_async_tensor_parallel"}); async && tensor > 1) async_ = async;
    section.no_word("enable_compiled_autograd");
    section.no_word("disable_loss_parallel");
    section.no_word("full_dtensor");
    section.no_word("enable_fsdp_symm_mem");
    section.no_word("fsdp_symm_mem_scope");
    section.no_word("fsdp_defer_gradient_reduction");
    section.no_word("pp_max_unsharded_active_stages");
    section.no_word("pipeline_parallel_expert_parallel_overlap", {}, "--set framework.expert_overlap=true says so");
    section.no_word("expert_parallel_comm_backend", {"standard"}, "--set framework.dispatcher=deepep says so");
    section.ignore({"enable_sequence_parallel", "enable_async_tensor_parallel", "pp_num_unshard_lookahead_factor",
                    "pipeline_parallel_max_outstanding_sends", "save_parallelism_file"});
    section.finish();
  }

  // distributed/fsdp.py: fully_shard over data_parallel_shard_degree x context_parallel_degree.
  void sharding(Keys& section) {
    const auto replicate = section.integer({"data_parallel_replicate_degree"});
    const auto shard = section.integer({"data_parallel_shard_degree"});
    if (replicate) draft_.say(Fact::replicas, replicate->value, *replicate->at, replicate->word);
    if (shard && shard->value != -1) {
      if (shard->value < 1)
        wrong(*shard->at, fmt::format("'{}' must be -1, which is all that are left, or 1 and more; found {}",
                                      shard->word, shard->value));
      draft_.say(Fact::shards, shard->value, *shard->at, shard->word);
    }
    if (shard && shard->value == 1 && context_ == 1)
      draft_.say("parallelism.zero", 0, *shard->at, shard->word + ": parameters are not sharded");
    else if (shard)
      draft_.say("parallelism.zero", 3, *shard->at, shard->word + ": fully_shard");
    else
      draft_.derive("parallelism.zero", 3, "data_parallel_shard_degree -1, the default: fully_shard");
    const auto reshard = section.text({"fsdp_reshard_after_forward"});
    const std::string when = reshard ? reshard->value : "default";
    if (when != "default" && when != "always" && when != "never")
      wrong(*reshard->at, fmt::format("'{}' must be default, always or never; found {}", reshard->word, when));
    if (draft_.integer("parallelism.zero", 0) != 3) return;
    const std::string key = "training.fsdp.reshard_after_forward";
    if (when != "default")
      draft_.say(key, when == "always", *reshard->at, reshard->word + ": " + when);
    else if (pipeline_ > 1)
      draft_.derive(key, false, "fsdp_reshard_after_forward default: not with a pipeline");
  }

  // distributed/context_parallel.py; alltoall there sends keys and values around, and is not Ulysses.
  void contexts(Keys& section) {
    const auto way = section.text({"context_parallel_rotate_method"});
    const bool balances = section.map() && section.map()->find("context_parallel_load_balancer");
    const auto balancer = section.node({"context_parallel_load_balancer"});
    if (context_ == 1) return;
    if (way && way->value != "allgather" && way->value != "alltoall")
      wrong(*way->at, fmt::format("'{}' must be allgather or alltoall; found {}", way->word, way->value));
    if (way)
      draft_.say("training.context", way->value == "allgather" ? "all-gather" : "ring", *way->at,
                 way->word + ": " + way->value);
    else
      draft_.derive("training.context", "all-gather", "context_parallel_rotate_method allgather, the default");
    if (balances) draft_.derive("training.context_balance", balancer.has_value(), "context_parallel_load_balancer");
  }

  void training() {
    auto section = root_.below("training");
    section.say_integer("batch.sequence", {"seq_len", "max_context_length"});
    section.say_integer("job.steps", {"steps"});
    batch(section);
    precision(section);
    if (const auto offload = section.boolean({"enable_cpu_offload"}); offload && offload->value)
      for (const char* states : {"parameters", "gradients", "optimizer"})
        draft_.say(std::string("training.offload.") + states, "host", *offload->at, offload->word);
    if (const auto graphs = section.boolean({"disable_cuda_graphs"}))
      draft_.say("framework.cuda_graph", graphs->value ? "none" : "full", *graphs->at, graphs->word);
    old_compile_ = section.boolean({"compile"});
    section.ignore({"dataset", "dataset_path", "max_norm", "gc_freq", "gc_debug", "seed", "deterministic",
                    "data_parallel_degree"});
    section.finish();
  }

  // train.py: a step has gradient accumulation up to global_batch_size, of local_batch_size each time, which a pipeline
  // cuts into its micro-batches.
  void batch(Keys& section) {
    const auto local = section.integer({"local_batch_size", "batch_size"});
    const auto global = section.integer({"global_batch_size"});
    const auto tokens = section.integer({"num_tokens_per_microbatch_per_dp_rank"});
    const auto all = section.integer({"num_tokens_per_train_step"});
    const auto sequence = draft_.integer("batch.sequence", 2048);
    std::int64_t rounds = 1;
    if (tokens) {
      if (tokens->value % sequence != 0)
        draft_.no_word(tokens->at->where(), fmt::format("{}: {}", tokens->word, tokens->value),
                       fmt::format("no whole number of sequences of {}", sequence));
      draft_.say("batch.micro", std::max<std::int64_t>(1, tokens->value / sequence), *tokens->at,
                 fmt::format("{} {} / {}", tokens->word, tokens->value, sequence));
      rounds = pipeline_ > 1 && rounds_ ? rounds_->value : 1;
      if (all && all->value > 0)
        draft_.say("batch.global", std::max<std::int64_t>(1, all->value / sequence), *all->at,
                   fmt::format("{} {} / {}", all->word, all->value, sequence));
    } else if (local) {
      const auto micro = pipeline_ > 1 ? (micro_ ? micro_->value : 1) : local->value;
      if (micro < 1 || local->value % micro != 0)
        wrong(micro_ ? *micro_->at : *local->at,
              fmt::format("{} {} is no multiple of pipeline_parallel_microbatch_size {}; torchtitan refuses that, too",
                          local->word, local->value, micro));
      rounds = local->value / micro;
      if (pipeline_ == 1)
        draft_.say("batch.micro", micro, *local->at, local->word);
      else if (micro_)
        draft_.say("batch.micro", micro, *micro_->at, micro_->word);
      else
        draft_.derive("batch.micro", micro, "pipeline_parallel_microbatch_size 1, the default");
      if (global && global->value > 0) draft_.say("batch.global", global->value, *global->at, global->word);
    }
    if ((tokens || local) && !draft_.has("batch.global"))
      draft_.derive(Fact::accumulation, rounds, "global_batch_size -1: no accumulation over batches");
  }

  void precision(Keys& section) {
    const auto dtype = section.text({"dtype"});
    const auto parameters = section.text({"mixed_precision_param"});
    const auto reduced = section.text({"mixed_precision_reduce"});
    if (dtype && dtype->value == "bfloat16") {
      draft_.say("training.master_copy", false, *dtype->at, dtype->word);
      draft_.say("training.moments", "bf16", *dtype->at, dtype->word);
      draft_.say("training.gradient_precision", "bf16", *dtype->at, dtype->word);
    }
    if (draft_.has("training.precision")) return;  // of a converter
    if (parameters)
      draft_.say("training.precision", parameters->value == "float32" ? "fp32" : "bf16", *parameters->at,
                 parameters->word);
    else
      draft_.derive("training.precision", "bf16", "mixed_precision_param bfloat16, the default");
    if (reduced && reduced->value == "bfloat16" && !(dtype && dtype->value == "bfloat16"))
      draft_.no_word(reduced->at->where(), reduced->word + ": bfloat16",
                     "gradients travel in what they add up in, which is fp32");
  }

  void recomputation() {
    auto section = root_.below("activation_checkpoint");
    const auto mode = section.text({"mode"});
    const auto option = section.text({"selective_ac_option"});
    const std::string word = mode ? mode->value : "selective";
    const std::string key = "training.recompute.mode";
    const auto put = [&](const std::string& which, Json value) {
      if (mode)
        draft_.say(which, std::move(value), *mode->at, mode->word);
      else
        draft_.derive(which, std::move(value), "activation_checkpoint.mode selective, the default");
    };
    // Until 2026 every second layer was the default of selective; there is no such option since.
    const bool toml = root_.has("model.flavor") || root_.has("job");
    if (word == "none" || word == "full") {
      put(key, word);
    } else if (word == "selective") {
      const std::string how = option ? option->value : toml ? "2" : "op";
      const auto every = integer_of(how);
      if (how == "op") {
        put(key, "selective");
      } else if (every && *every > 0) {
        put(key, "full");
        if (option)
          draft_.say("training.recompute.every", *every, *option->at, option->word);
        else
          draft_.derive("training.recompute.every", *every, "selective_ac_option 2, the default");
      } else {
        wrong(*option->at, fmt::format("'{}' must be op or a number of layers; found {}", option->word, how));
      }
    } else if (word == "memory_budget") {
      draft_.no_word(mode->at->where(), mode->word + ": " + word, "taken as selective");
      draft_.assume(key, "selective", "activation_checkpoint.mode memory_budget has no word");
    } else {
      wrong(*mode->at, fmt::format("'{}' must be none, selective, full or memory_budget; found {}", mode->word, word));
    }
    if (const auto early = section.boolean({"early_stop"}); early && word != "none")
      draft_.say("training.recompute.early_stop", early->value, *early->at, early->word);
    section.ignore({"early_stop", "per_op_sac_force_recompute_mm_shapes_by_fqns", "memory_budget", "preserve_rng_state",
                    "visualize_memory_budget_pareto", "determinism_check", "debug"});
    section.finish();
  }

  void compilation() {
    auto section = root_.below("compile");
    auto enabled = section.boolean({"enable"});
    const auto components = section.list({"components"});
    section.ignore({"backend"});
    section.finish();
    if (!enabled) enabled = old_compile_;
    const bool on = enabled && enabled->value;
    const auto has = [&](std::string_view part) {
      return !components || std::any_of(components->value.begin(), components->value.end(),
                                        [part](const Node* one) { return one->text == part; });
    };
    const bool model = on && has("model"), loss = on && has("loss");
    if (enabled && on && components)
      draft_.say("framework.compiled", model, *components->at, components->word);
    else if (enabled)
      draft_.say("framework.compiled", model, *enabled->at, enabled->word);
    else
      draft_.derive("framework.compiled", false, "compile.enable false, the default");
    if (!model) draft_.derive("training.kernels", "unfused", "without compile.components model each operation is one");
    if (model && !loss) draft_.derive("framework.loss", "torch", "compile.components without loss");
    if (!model && loss) draft_.derive("framework.loss", "fused", "compile.components: the loss is one kernel");
    if (async_ && async_->value && model)
      draft_.say("training.overlap.tensor", true, *async_->at, async_->word);
    else if (async_ && async_->value)
      draft_.no_word(async_->at->where(), async_->word, "it acts only where the model is compiled");
    else if (async_)
      draft_.say("training.overlap.tensor", false, *async_->at, async_->word);
  }

  void optimizer() {
    auto section = root_.below("optimizer");
    if (const auto name = section.text({"name"})) {
      const auto& word = name->value;
      if (word == "Adam" || word == "AdamW")
        draft_.say("training.optimizer", "adamw", *name->at, name->word);
      else if (word == "Muon" || word == "DistributedMuon")
        draft_.say("training.optimizer", "muon", *name->at, name->word);
      else
        draft_.no_word(name->at->where(), name->word + ": " + word, "taken as adamw");
    }
    if (const auto how = section.text({"implementation"}); how && how->value == "foreach")
      draft_.say("framework.foreach_step", true, *how->at, how->word);
    else if (how && how->value != "fused")
      draft_.no_word(how->at->where(), how->word + ": " + how->value, "taken as fused");
    if (const auto early = section.boolean({"early_step_in_backward"}); early && early->value)
      draft_.later([early](ScenarioDraft& draft, const scenario::Files&) {
        const auto replica = draft.integer("parallelism.tensor", 1) * draft.integer("parallelism.pipeline", 1);
        if (draft[Fact::world]->value > replica)
          draft.no_word(early->at->where(), early->word, "of several replicas it is not known; the step is at the end");
        else
          draft.say("training.optimizer_in_backward", true, *early->at, early->word);
      });
    section.ignore({"lr", "beta1", "beta2", "eps", "weight_decay", "param_groups"});
    section.finish();
  }

  // Checkpoints act on a training that something stops, which no file of torchtitan says.
  void checkpoint() {
    auto section = root_.below("checkpoint");
    const auto enabled = section.boolean({"enable", "enable_checkpoint"});
    if (!enabled || !enabled->value) return;
    section.no_word("interval", {}, "in steps; with --set job.failures.per_1000_node_days=N, job.checkpoint.interval");
    section.no_word("async_mode", {"disabled"}, "with job.failures, --set job.checkpoint.async=true");
  }

  const scenario::Files& files_;
  ScenarioDraft& draft_;
  Keys root_;
  std::optional<Said<std::string>> name_, flavor_;
  std::optional<Said<std::int64_t>> micro_, rounds_;
  std::optional<Said<bool>> async_, old_compile_;
  std::int64_t pipeline_ = 1, context_ = 1;
};

void read(Sources& sources, const Source& source, ScenarioDraft& draft) { Titan(sources, source, draft).read(); }

}  // namespace

void register_torchtitan(Registry& registry) {
  registry.add({.name = "torchtitan",
                .title = "a configuration of torchtitan",
                .summary = "torchtitan's TOML, or the JSON of --debug.save_config_file",
                .recognises = recognises,
                .read = read,
                .write = torchtitan_text});
}

}  // namespace rehearsal::interchange
