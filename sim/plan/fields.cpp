#include "plan/fields.hpp"

#include <fmt/format.h>

namespace rehearsal::plan {

using namespace fields;

constexpr double kMostDegree = 1e6, kMostCount = 1e9;
constexpr double kMostStages = 65'535;  // schedule::kMaxStages
constexpr const char* kOfAll = "is of all stages; give it under 'parallelism' of the file";

namespace {

const Description& layout_fields() {
  using L = StageLayout;
  constexpr const char* kUsual = "that of `parallelism`";
  static const Description all = describe<L>(
      {.misplaced = {{"parallelism.pipeline", kOfAll},
                     {"parallelism.chunks", kOfAll},
                     {"parallelism.zero", kOfAll},
                     {"parallelism.secondary_shard", kOfAll},
                     {"parallelism.expert", kOfAll},
                     {"parallelism.expert_tensor", kOfAll}}},
      field<&L::tensor>("parallelism.tensor", whole(1, kMostDegree), {[](const L& l) { return l.tensor; }, kUsual}, ""),
      field<&L::sequence>("parallelism.sequence", boolean(), {[](const L& l) { return l.sequence; }, kUsual}, ""),
      field<&L::context>("parallelism.context", whole(1, kMostDegree), {[](const L& l) { return l.context; }, kUsual},
                         ""),
      field<&L::data>("parallelism.data", whole(1, kMostDegree), {[](const L& l) { return l.data; }, kUsual}, ""),
      parsed<&L::sharding>("sharding", reshard::parse_spec, reshard::to_text,
                           "how its boundary activations are sharded over its GPUs, such as S0RS1 of (sequences, "
                           "tokens, hidden) over (data x context, tensor)"),
      field<&L::gpus>("gpus", list_of(whole(0, kMostDegree), "the GPUs of the stage, such as [0, 1, 2, 3]"), kDefault,
                      "GPUs of the stage (by default the next free ones)"));
  return all;
}

// Of all-reduce, nothing else is said.
void of_servers(const DataParallel& data, Keys& keys) {
  for (const char* key : {"servers", "placement", "update", "delay"})
    if (!data.served() && keys.given(key))
      keys.refuse(key, fmt::format("'{}' is of 'kind: parameter-server', and 'kind' is all-reduce", key));
}

}  // namespace

Form stage_list() {
  return entries<StageLayout>(
      layout_fields(), "a mapping for each stage, such as {parallelism: {tensor: 2, data: 2}, gpus: [0, 1, 2, 3]}");
}

const Description& parallelism_fields() {
  using P = Parallelism;
  static const Description all = describe<P>(
      {},
      field<&P::tensor>("tensor", whole(1, kMostDegree), kDefault,
                        "tensor-parallel degree; divides heads, kv_heads and ffn"),
      field<&P::sequence>(
          "sequence", boolean(), kDefault,
          "sequence parallelism inside the tensor group (Megatron); the sequence must divide by `tensor`"),
      field<&P::context>("context", whole(1, kMostDegree), kDefault,
                         "GPUs that share each sequence; `training.context` says how attention spans them"),
      field<&P::pipeline>("pipeline", whole(1, kMostStages), kDefault, "pipeline ranks"),
      field<&P::chunks>("chunks", whole(1, kMostStages), kDefault,
                        "stages per pipeline rank (interleaving); bidirectional schedules (dualpipe, chimera) always "
                        "hold one stage of each direction"),
      field<&P::data>("data", whole(1, kMostDegree),
                      {[](const P&) -> std::int64_t { return 1; }, "GPUs / (`tensor` x `context` x `pipeline`), or 1"},
                      "replicas"),
      field<&P::expert>("expert", whole(1, kMostDegree), kDefault,
                        "GPUs that share a layer's experts; times `expert_tensor` it must divide tensor x context x "
                        "data, and it adds no GPUs"),
      field<&P::expert_tensor>("expert_tensor", whole(1, kMostDegree), kDefault, "GPUs that share each expert"),
      field<&P::shard>(
          "shard", whole(0, kMostDegree), kDefault,
          "neighboring replicas that `zero` splits states over; the `data` / `shard` groups hold copies and all-reduce "
          "gradients between them (HSDP, Megatron's optimizer instances, MiCS); 0: all replicas"),
      field<&P::secondary_shard>(
          "secondary_shard", whole(0, kMostDegree), kDefault,
          "with zero 3: neighboring GPUs that share a second, 16-bit copy of the parameters; after a step's first "
          "gather from all replicas, later ones come from these (hpZ of ZeRO++); 0: none"),
      aside<&P::again>("follows from other keys, which the plan reads"),
      aside<&P::near>("follows from the cluster, which the plan reads"),
      field<&P::zero>("zero", whole(0, 3), kDefault,
                      "1: optimizer states split over the replicas; 2: gradients too; 3: parameters too"),
      settled(list_of<&P::layouts>("stages", stage_list(), "")));
  return all;
}

const Description& resharding_fields() {
  using R = Resharding;
  using reshard::Strategy;
  static const Description all = describe<R>(
      {}, settled(field<&R::asked>("asked", boolean(), kDefault, "")),
      choice<&R::strategy>("strategy",
                           {{"auto", Strategy::automatic},
                            {"broadcast", Strategy::broadcast},
                            {"send-recv", Strategy::send_recv},
                            {"local-allgather", Strategy::local_allgather},
                            {"alpa-allgather", Strategy::alpa_allgather},
                            {"global-allgather", Strategy::global_allgather},
                            {"signal", Strategy::signal}},
                           kDefault,
                           "how activations and their gradients reach the next stage, above all one that is split "
                           "differently (`stages`); auto: whichever makes the step shortest; local-allgather: send one "
                           "part to each GPU of a host, then gather there; alpa-allgather: the same under the "
                           "original's narrower rule; signal: data arrives at once, a lower bound for every strategy"),
      field<&R::planner>("planner", name_of("planner"), kDefault,
                         "planner that decides who sends what, and when: one of `rehearse reshard`"),
      or_word(field<&R::chunks>("chunks", whole(1, kMostCount), {[](const R&) -> std::int64_t { return 0; }, "auto"},
                                "chunks per broadcast; auto: the number that makes it shortest"),
              "auto", std::int64_t{0}));
  return all;
}

const Description& batch_fields() {
  using B = Batch;
  static const Description all = describe<B>(
      {},
      field<&B::global>("global", whole(1, kMostCount), kRequired,
                        "sequences per step over all replicas; a multiple of data x `micro`"),
      field<&B::micro>("micro", whole(1, kMostCount), kDefault,
                       "sequences per micro-batch; micro-batches per pipeline = `global` / (data x `micro`)"),
      field<&B::sequence>("sequence", whole(1, kMostCount), {[](const B& b) { return b.sequence; }, "the model's"},
                          "tokens per sequence"),
      field<&B::lengths>("lengths", list_of(whole(1, kMostCount)), kDefault,
                         "tokens per document: {fixed: N}; {list: [N, ...]}, all equally frequent; {file: NAME} with "
                         "one number per line; or {lognormal: [MU, SIGMA]}; longer ones are cut to the sequence"),
      choice<&B::packed>("packing", {{"none", false}, {"pack", true}}, kDefault,
                         "none: one document per sequence, the rest is padding; pack: documents fill sequences"),
      field<&B::document_mask>("document_mask", boolean(), kDefault,
                               "packed documents do not attend to each other, and attention skips those scores"));
  return all;
}

const Description& partition_fields() {
  using P = Partition;
  static const std::initializer_list<Named<Ends>> counts{{"free", Ends::free}, {"layer", Ends::layer}};
  static const Description all = describe<P>(
      {},
      settled(choice<&P::kind>(
          "kind", {{"uniform", P::Kind::uniform}, {"balanced", P::Kind::balanced}, {"listed", P::Kind::listed}},
          kDefault, "")),
      field<&P::layers>("layers", list_of(whole(0, 100'000)), kRequired,
                        "number of layers of each stage (pipeline x chunks numbers)"),
      field<&P::layout>("layout", text(), kDefault,
                        "in place of `layers`, Megatron's string: E embedding, t layer, m module of multi-token "
                        "prediction, L loss, | between stages, x*n and (..)*n repeat, such as Et*3|(tt|)*29m|L"),
      choice<&P::embedding>("embedding", counts, kDefault,
                            "layer: counts as one layer of its stage; free: does not count"),
      choice<&P::head>("head", counts, kDefault, "layer: counts as one layer of its stage; free: does not count"));
  return all;
}

const Description& data_parallel_fields() {
  using D = DataParallel;
  static const Description all = describe<D>(
      {.rules = {check(of_servers)}},
      choice<&D::kind>("kind", {{"all-reduce", D::Kind::all_reduce}, {"parameter-server", D::Kind::parameter_server}},
                       kDefault, "who sums the replicas' gradients: the replicas by all-reduce, or parameter servers"),
      field<&D::servers>("servers", whole(1, kMostDegree), kDefault,
                         "number of servers, which share the parameters by bytes"),
      choice<&D::placement>(
          "placement", {{"dedicated", D::Placement::dedicated}, {"colocated", D::Placement::colocated}}, kDefault,
          "dedicated: each server has its own node, added to the cluster; colocated: servers run on the workers' GPUs"),
      choice<&D::update>("update", {{"server", D::Update::server}, {"worker", D::Update::worker}}, kDefault,
                         "who holds optimizer states and updates: server, which sends parameters back; or every "
                         "worker, from the summed gradients"),
      or_word(field<&D::delay>("delay", whole(0, 100), kDefault,
                               "iterations that a worker may run ahead of the slowest gradient; 0: synchronous"),
              "unbounded", D::kUnbounded),
      aside<&D::performed>("simulate.iterations, where they are one graph"));
  return all;
}

}  // namespace rehearsal::plan
