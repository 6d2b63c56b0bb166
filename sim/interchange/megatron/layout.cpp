// Arguments that say how a run is cut: degrees, stages, batch, and how many GPUs there are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interchange/megatron/reading.hpp"
#include "plan/partition.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

constexpr std::int64_t kUsualNodeGpus = 8;  // GPUs, where nobody says

class MegatronLayout {
 public:
  explicit MegatronLayout(MegatronReading& run) : run_(run), keys_(run.keys), draft_(run.draft) {}

  void read() {
    degrees();
    world();
    stages();
    zero();
    batch();
  }

 private:
  void degrees() {
    for (const auto& [key, name] :
         {std::pair("tensor", "tensor_model_parallel_size"), std::pair("pipeline", "pipeline_model_parallel_size"),
          std::pair("context", "context_parallel_size")})
      keys_.say_integer(fmt::format("parallelism.{}", key), {name});
    tensor_ = run_.integer("tensor_model_parallel_size", 1),
    pipeline_ = run_.integer("pipeline_model_parallel_size", 1);
    if (tensor_ > 1)
      keys_.say_boolean("parallelism.sequence", {"sequence_parallel"});
    else
      keys_.ignore({"sequence_parallel"});
    if (run_.is("use_tp_pp_dp_mapping"))
      draft_.say("placement", Json{"tensor", "context", "expert", "pipeline", "data"},
                 *keys_.boolean({"use_tp_pp_dp_mapping"})->at, run_.spelled("use_tp_pp_dp_mapping"));
    experts();
    context();
  }

  void experts() {
    const auto expert = keys_.integer({"expert_model_parallel_size"});
    const auto each = keys_.integer({"expert_tensor_parallel_size"});
    if (run_.experts == 0 && !draft_.has("model.experts")) {
      for (const auto* said : {&expert, &each})
        if (run_.layers > 0 && run_.arguments.typed && *said && (*said)->value > 1)
          draft_.no_word((*said)->at->where(), fmt::format("{} {}", (*said)->word, (*said)->value),
                         "there are no experts");
      if (run_.layers > 0) return;
      if (!expert && !each) return;
    }
    if (expert) draft_.say("parallelism.expert", expert->value, *expert->at, expert->word);
    if (each)
      draft_.say("parallelism.expert_tensor", each->value, *each->at, each->word);
    else if (tensor_ > 1)
      draft_.derive("parallelism.expert_tensor", tensor_,
                    fmt::format("Megatron's {} is the degree of tensor parallelism",
                                run_.spelled("expert_tensor_parallel_size")));
  }

  void context() {
    const auto kind = run_.word("cp_comm_type");
    if (run_.integer("context_parallel_size", 1) < 2) {
      keys_.ignore({"hierarchical_context_parallel_sizes"});
      return;
    }
    run_.no_word("hierarchical_context_parallel_sizes", "context parallelism in one group");
    const auto name = kind ? kind->value : "p2p";
    const char* ours = name == "a2a"                                 ? "all-to-all"
                       : name == "allgather" || name == "all_gather" ? "all-gather"
                                                                     : "ring";
    if (!kind) return draft_.derive("training.context", ours, "Megatron's --cp-comm-type p2p");
    if (name != "p2p" && std::string_view(ours) == "ring")
      draft_.no_word(kind->at->where(), kind->word + " " + name, "taken as p2p, a ring");
    draft_.say("training.context", ours, *kind->at, kind->word + " " + name);
  }

  void world() {
    keys_.say(Fact::world, {"world_size"});
    keys_.say(Fact::data, {"data_parallel_size"});
    Keys around(draft_, run_.arguments.environment());
    around.say(Fact::gpus_per_node, {"GPUS_PER_NODE", "NPROC_PER_NODE", "SLURM_NTASKS_PER_NODE"});
    around.say(Fact::nodes, {"NNODES", "NUM_NODES", "SLURM_NNODES"});
    around.say(Fact::world, {"WORLD_SIZE", "SLURM_NTASKS"});
  }

  std::int64_t per_node() const {
    return draft_[Fact::gpus_per_node] ? draft_[Fact::gpus_per_node]->value : kUsualNodeGpus;
  }

  // A stage for each rank and chunk.
  void stages() {
    layout_ = keys_.node({"pipeline_model_parallel_layout"});
    chunks_ = 1;
    if (layout_)
      layout();
    else
      chunked();
    if (pipeline_ > 1 && chunks_ > 1) {
      const auto group = keys_.integer({"microbatch_group_size_per_vp_stage"});
      const bool grouped = group && group->value != pipeline_;
      draft_.derive(grouped ? "schedule.name" : "schedule", "interleaved-1f1b",
                    fmt::format("{} stages on each pipeline rank", chunks_));
      if (grouped) draft_.say("schedule.group", group->value, *group->at, group->word);
    } else {
      keys_.ignore({"microbatch_group_size_per_vp_stage"});
    }
    if (!layout_) uneven();
  }

  void say_chunks(std::int64_t chunks, const std::string& how, const Node* at = nullptr) {
    if (pipeline_ < 2) return;
    chunks_ = std::max<std::int64_t>(chunks, 1);
    if (chunks_ == 1) return;
    if (run_.layers > 0 && chunks_ > run_.layers)
      run_.contradict("num_layers",
                      fmt::format("{} stages on each pipeline rank ({}) are more than there are layers, {}", chunks_,
                                  how, run_.layers));
    if (at)
      draft_.say("parallelism.chunks", chunks_, *at, how);
    else
      draft_.derive("parallelism.chunks", chunks_, how);
  }

  // Configurations may hold it resolved: a list of the kinds of layers of each stage.
  std::string layout_text() const {
    const Node& node = *layout_->value;
    if (node.kind == Node::Kind::scalar) return node.text;
    if (node.kind != Node::Kind::sequence)
      wrong(node, fmt::format("'{}' must be a layout such as Et*3|(tt|)*29m|L; found {}", layout_->word,
                              scenario::flow_text(node)));
    std::string text;
    for (const Node* stage : node.items) {
      if (stage != node.items.front()) text += "|";
      if (stage->kind == Node::Kind::scalar) {
        text += stage->text;
        continue;
      }
      for (const Node* part : stage->items) {
        const auto& name = part->text;
        text += name == "embedding" ? "E" : name == "decoder" ? "t" : name == "mtp" ? "m" : name == "loss" ? "L" : "?";
      }
    }
    return text;
  }

  void layout() {
    const auto text = layout_text();
    if (pipeline_ < 2) return;
    std::vector<plan::Stage> all;
    try {
      all = plan::stages_of_layout(text);
    } catch (const std::exception& e) {
      wrong(*layout_->at, fmt::format("'{}': {}", layout_->word, e.what()));
    }
    const auto pipeline = run_.place("pipeline_model_parallel_size");
    if (std::int64_t(all.size()) % pipeline_ != 0)
      wrong(*layout_->at,
            fmt::format("'{}' has {} stages, which are no multiple of '{}' {} ({}); one of the two is wrong",
                        layout_->word, all.size(), run_.spelled("pipeline_model_parallel_size"), pipeline_,
                        to_text(pipeline)));
    std::int64_t layers = 0;
    for (const auto& stage : all) layers += stage.layers;
    if (run_.layers > 0 && layers != run_.layers)
      wrong(*layout_->at,
            fmt::format("'{}' has {} layers (t), and '{}' ({}) says {}; one of the two is wrong", layout_->word, layers,
                        run_.spelled("num_layers"), to_text(run_.place("num_layers")), run_.layers));
    draft_.say("partition.layout", text, *layout_->at, layout_->word);
    say_chunks(std::int64_t(all.size()) / pipeline_,
               fmt::format("{} stages of the layout / {} pipeline ranks", all.size(), pipeline_));
    for (const char* name : {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"})
      if (const auto said = keys_.integer({name}); said && said->value != chunks_)
        wrong(*said->at,
              fmt::format("'{}' is {}, and '{}' ({}) has {} stages for each of {} pipeline ranks", said->word,
                          said->value, layout_->word, to_text(layout_->at->where()), chunks_, pipeline_));
    keys_.ignore({"num_layers_per_virtual_pipeline_stage"});
  }

  void chunked() {
    const auto by_layers = keys_.integer({"num_layers_per_virtual_pipeline_stage"});
    const auto by_number =
        keys_.integer({"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"});
    if (by_number) {
      say_chunks(by_number->value, by_number->word, by_number->at);
    } else if (by_layers && pipeline_ > 1 && run_.layers > 0) {
      const auto all = run_.layers + run_.is("account_for_embedding_in_pipeline_split") +
                       run_.is("account_for_loss_in_pipeline_split");
      if (by_layers->value < 1 || all % (pipeline_ * by_layers->value) != 0)
        wrong(*by_layers->at,
              fmt::format("'{}' {} x '{}' {} ({}) do not divide {} layers ({}); one of these is wrong", by_layers->word,
                          by_layers->value, run_.spelled("pipeline_model_parallel_size"), pipeline_,
                          to_text(run_.place("pipeline_model_parallel_size")), all, to_text(run_.place("num_layers"))));
      say_chunks(all / pipeline_ / by_layers->value,
                 fmt::format("{} layers / {} pipeline ranks / {} of a stage", all, pipeline_, by_layers->value));
    } else if (const auto parts = std::int64_t(run_.segments.size()); parts > 0) {
      if (parts % pipeline_ != 0)
        run_.contradict(
            "hybrid_layer_pattern",
            fmt::format("'{}' has {} stages between |, which are no multiple of '{}' {} ({}); one of the two "
                        "is wrong",
                        run_.spelled("hybrid_layer_pattern"), parts, run_.spelled("pipeline_model_parallel_size"),
                        pipeline_, to_text(run_.place("pipeline_model_parallel_size"))));
      say_chunks(parts / pipeline_, fmt::format("{} stages of the pattern / {} pipeline ranks", parts, pipeline_));
    }
  }

  // Layers of each stage, where they are not all alike.
  void uneven() {
    const auto first = keys_.integer({"decoder_first_pipeline_num_layers"});
    const auto last = keys_.integer({"decoder_last_pipeline_num_layers"});
    const bool embedding = run_.is("account_for_embedding_in_pipeline_split");
    const bool loss = run_.is("account_for_loss_in_pipeline_split");
    if (pipeline_ < 2 || run_.layers == 0) return;
    if (!run_.segments.empty()) {
      for (const auto layers : run_.segments)
        if (layers != run_.segments.front()) return list(run_.segments, run_.spelled("hybrid_layer_pattern"));
      return;
    }
    const auto stages = pipeline_ * chunks_;
    if (const auto split = keys_.list({"decoder_pipeline_manual_split_list"}); split && !split->value.empty())
      return by_hand(*split, stages);
    if (first || last) return middle(first, last);
    const auto places = run_.layers + embedding + loss;
    if (places % stages != 0)
      run_.contradict(
          "num_layers",
          fmt::format("{} layers{} are no multiple of '{}' {} ({}) x {} stages on each rank; one of these is "
                      "wrong, or the layers of each stage must be said ({})",
                      run_.layers, embedding || loss ? " and the ends that count as one" : "",
                      run_.spelled("pipeline_model_parallel_size"), pipeline_,
                      to_text(run_.place("pipeline_model_parallel_size")), chunks_,
                      run_.spelled("pipeline_model_parallel_layout")));
    if (!embedding && !loss) {
      // Megatron deals layers alone; modules of multi-token prediction are on the last stage besides.
      if (run_.modules > 0)
        list(std::vector<std::int64_t>(std::size_t(stages), run_.layers / stages), "equally many on each stage");
      return;
    }
    std::vector<std::int64_t> layers(std::size_t(stages), places / stages);
    layers.front() -= embedding, layers.back() -= loss;
    list(layers, "the ends count as a layer");
  }

  // transformer_block.py, get_num_layers_to_build: what first and last ranks do not have is dealt equally; each rank's
  // layers are cut into its chunks.
  void middle(const std::optional<Said<std::int64_t>>& first, const std::optional<Said<std::int64_t>>& last) {
    const auto ends = (first ? first->value : 0) + (last ? last->value : 0);
    const auto ranks = pipeline_ - (first ? 1 : 0) - (last ? 1 : 0);
    const auto rest = run_.layers - ends;
    const auto& said = first ? *first : *last;
    if (rest < 0 || (ranks == 0 ? rest != 0 : rest % ranks != 0))
      wrong(*said.at, fmt::format("'{}' ({}) leave {} of {} layers ({}) to {} pipeline ranks, which do not divide them",
                                  said.word, ends, rest, run_.layers, to_text(run_.place("num_layers")), ranks));
    std::vector<std::int64_t> of_rank(std::size_t(pipeline_), ranks > 0 ? rest / ranks : 0);
    if (first) of_rank.front() = first->value;
    if (last) of_rank.back() = last->value;
    std::vector<std::int64_t> layers;
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk)
      for (const auto count : of_rank) {
        if (count % chunks_ != 0)
          wrong(*said.at, fmt::format("{} layers of a pipeline rank are no multiple of its {} stages", count, chunks_));
        layers.push_back(count / chunks_);
      }
    list(layers, said.word);
  }

  // Primus' list of the layers of each stage.
  void by_hand(const Said<std::vector<const Node*>>& split, std::int64_t stages) {
    std::vector<std::int64_t> layers;
    std::int64_t all = 0;
    for (const Node* item : split.value) {
      const auto count = integer_of(item->text);
      if (!count || *count < 0 || *count > run_.layers)
        wrong(*item, fmt::format("'{}' must be numbers of layers; found {}", split.word, scenario::flow_text(*item)));
      layers.push_back(*count), all += *count;
    }
    if (all != run_.layers || std::int64_t(layers.size()) != stages)
      wrong(*split.at,
            fmt::format("'{}' has {} layers in {} stages, and there are {} layers ({}) in {} stages; one of "
                        "these is wrong",
                        split.word, all, layers.size(), run_.layers, to_text(run_.place("num_layers")), stages));
    list(layers, split.word);
  }

  void list(const std::vector<std::int64_t>& layers, const std::string& how) {
    draft_.derive("partition.layers", Json(layers), how);
  }

  void zero() {
    const auto distributed = keys_.boolean({"use_distributed_optimizer"});
    const auto strategy = run_.word("data_parallel_sharding_strategy");
    const auto megatron = keys_.boolean({"use_megatron_fsdp"});
    const auto torch = keys_.boolean({"use_torch_fsdp2"});
    const auto optimizer = run_.word_or("optimizer", "adam");
    if (torch && torch->value) {
      draft_.say("parallelism.zero", 3, *torch->at, torch->word);
    } else if (megatron && megatron->value) {
      const auto name = strategy ? strategy->value : "no_shard";
      const int level = name == "optim_grads_params" ? 3 : name == "optim_grads" ? 2 : name == "optim" ? 1 : 0;
      const auto& said = strategy ? *strategy->at : *megatron->at;
      draft_.say("parallelism.zero", level, said, (strategy ? strategy->word : megatron->word) + " " + name);
      draft_.no_word(megatron->at->where(), megatron->word,
                     "Megatron-FSDP is priced as ZeRO with this framework's buffers, and not with its own");
      run_.no_word("outer_dp_sharding_strategy", "copies of sharded groups hold all", {"no_shard"});
    } else if (distributed && distributed->value) {
      draft_.say("parallelism.zero", 1, *distributed->at, distributed->word);
    } else if (optimizer == "dist_muon") {
      draft_.derive("parallelism.zero", 1, "dist_muon: each matrix is stepped on by one of the replicas");
    } else {
      return;
    }
    const auto copies = keys_.integer({"num_distributed_optimizer_instances"});
    if (!copies || copies->value < 2) return;
    if (draft_.integer("parallelism.expert", 1) * draft_.integer("parallelism.expert_tensor", 1) > 1)
      draft_.no_word(copies->at->where(), fmt::format("{} {}", copies->word, copies->value),
                     "with experts over several GPUs states are taken to be split over all replicas");
    else
      draft_.say(Fact::replicas, copies->value, *copies->at, copies->word);
  }

  void batch() {
    const auto ramp = keys_.node({"rampup_batch_size"});
    if (ramp)
      draft_.no_word(ramp->at->where(), ramp->word + " " + scenario::flow_text(*ramp->value),
                     "steps of the full batch are predicted");
    keys_.say_integer("batch.micro", {"micro_batch_size"});
    if (!keys_.has("micro_batch_size")) draft_.derive("batch.micro", 1, "Megatron's --micro-batch-size");
    const auto steps = run_.word("step_batch_size_schedule");
    const bool said = keys_.say_integer("batch.global", {"global_batch_size"});
    if (steps && !said) {
      const auto last = integer_of(steps->value.substr(steps->value.rfind(':') + 1));
      if (!last) wrong(*steps->at, fmt::format("'{}' must be START:SIZE pairs; found '{}'", steps->word, steps->value));
      draft_.derive("batch.global", *last, fmt::format("the last of {} {}", steps->word, steps->value));
    } else if (!said && run_.layers > 0) {
      // validate_args: as many as the replicas have micro-batches.
      draft_.derive(Fact::accumulation, 1, "Megatron: one micro-batch a step where no global batch is said");
    }
    limit_nodes();
  }

  // Groups of the router are nodes where the experts of a layer take one node a group.
  void limit_nodes() {
    const auto groups = keys_.integer({"moe_router_num_groups"});
    const auto chosen = keys_.integer({"moe_router_group_topk"});
    if (!groups || !chosen || run_.experts == 0) return;
    const auto expert = run_.integer("expert_model_parallel_size", 1);
    if (groups->value == chosen->value) return;
    if (expert == groups->value * per_node())
      draft_.derive("experts.limit_nodes", chosen->value,
                    fmt::format("{} {} of {} groups, which are nodes", chosen->word, chosen->value, groups->value));
    else
      draft_.no_word(chosen->at->where(), fmt::format("{} {}", chosen->word, chosen->value),
                     fmt::format("{} groups of the router are not nodes of {} GPUs", groups->value, per_node()));
  }

  MegatronReading& run_;
  Keys& keys_;
  ScenarioDraft& draft_;
  std::optional<Said<const Node*>> layout_;
  std::int64_t tensor_ = 1, pipeline_ = 1, chunks_ = 1;
};

}  // namespace

void read_megatron_layout(MegatronReading& run) { MegatronLayout(run).read(); }

}  // namespace rehearsal::interchange
