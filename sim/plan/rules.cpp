#include "plan/rules.hpp"

#include <fmt/format.h>

#include <cmath>

namespace rehearsal::plan {
namespace {

using models::RecomputeModule;

// "; nearest: 4 or 8": the next values below and above that are legal, from `least` to `most`.
template <class Legal>
std::string nearest(std::int64_t value, std::int64_t least, std::int64_t most, Legal&& legal) {
  std::string text;
  const auto add = [&](std::int64_t n) { text += fmt::format("{}{}", text.empty() ? "; nearest: " : " or ", n); };
  std::int64_t below = std::min(value - 1, most), above = value + 1;
  while (below >= least && !legal(below)) --below;
  if (below >= least) add(below);
  while (above <= most && !legal(above)) ++above;
  if (above <= most) add(above);
  return text;
}

std::string nearest_divisor(std::int64_t value, std::int64_t of) {
  return nearest(value, 1, of, [&](std::int64_t n) { return of % n == 0; });
}

struct Checks {
  const models::Transformer& model;
  const models::Training& training;
  const models::ExpertSettings& experts;
  const Parallelism& p;
  std::vector<Violation> all{};

  void add(const char* key, std::string rule) { all.push_back({key, std::move(rule)}); }
  const models::LayerTable table = models::layer_table(model);
  bool any(bool (*holds)(const models::LayerSpec&)) const {
    return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return holds(row.spec); });
  }
  bool has_dense() const {
    return any([](const models::LayerSpec& layer) { return layer.ffn.width > 0; });
  }

  // Shards must be whole.
  void shards() {
    const auto divides = [&](const char* key, std::int64_t degree, std::int64_t count, const char* what) {
      if (count % degree == 0) return;
      auto rule = fmt::format("'{}' {} does not divide the {} {} of model '{}'{}", key, degree, count, what, model.name,
                              nearest_divisor(degree, count));
      if (std::none_of(all.begin(), all.end(), [&](const Violation& broken) { return broken.rule == rule; }))
        add(fmt::format("parallelism.{}", key).c_str(), std::move(rule));
    };
    if (model.vision) {
      divides("tensor", p.tensor, model.vision->heads, "heads of the tower");
      divides("tensor", p.tensor, model.vision->ffn, "ffn columns of the tower");
      divides("tensor", p.tensor, model.vision->projected(), "projector columns of the tower");
    }
    for (const auto& [layer, count] : table.rows) {
      const auto& [mixer, ffn, skip] = layer;
      divides("tensor", p.tensor, mixer.heads, "heads");
      if (mixer.kv_heads != mixer.heads) divides("tensor", p.tensor, mixer.kv_heads, "kv_heads");
      if (!ffn.has_experts()) divides("tensor", p.tensor, ffn.width, "ffn columns");
      if (!ffn.has_experts()) continue;
      divides("tensor", p.tensor, ffn.shared_width, "columns of the shared experts");
      divides("expert_tensor", p.expert_tensor, ffn.expert_width, "columns of an expert");
    }
  }

  // Experts fold the GPUs of a pipeline rank a second time (plan/mesh.hpp).
  void folding() {
    if (!model.is_moe()) {
      const auto needs = [&](const char* key, std::int64_t degree) {
        if (degree > 1)
          add(fmt::format("parallelism.{}", key).c_str(),
              fmt::format("'{}' {} needs experts, and model '{}' has none; leave it out", key, degree, model.name));
      };
      needs("expert", p.expert), needs("expert_tensor", p.expert_tensor);
      return;
    }
    const std::int64_t stage = p.tensor * p.context * p.data;
    const auto folds = [&](std::int64_t expert) { return stage % (expert * p.expert_tensor) == 0; };
    const auto legal = [&](std::int64_t expert) { return model.experts % expert == 0 && folds(expert); };
    const auto near = [&] { return nearest(p.expert, 1, model.experts, legal); };
    const auto gpus = [&] {
      return fmt::format("tensor x context x data = {} x {} x {} = {} GPUs", p.tensor, p.context, p.data, stage);
    };
    if (stage % p.expert_tensor != 0)
      add("parallelism.expert_tensor", fmt::format("'expert_tensor' {} does not divide {}{}", p.expert_tensor, gpus(),
                                                   nearest_divisor(p.expert_tensor, stage)));
    else if (model.experts % p.expert != 0)
      add("parallelism.expert", fmt::format("'expert' {} does not divide the {} experts of model '{}'{}", p.expert,
                                            model.experts, model.name, near()));
    else if (!folds(p.expert))
      add("parallelism.expert", fmt::format("'expert' {} x 'expert_tensor' {} does not divide {}{}", p.expert,
                                            p.expert_tensor, gpus(), near()));
  }

  // Groups of replicas that share states, and hold copies of each other's.
  void copies() {
    if (p.shard == 0) return;
    if (p.data % p.shard != 0)
      add("parallelism.shard",
          fmt::format("'shard' {} does not divide 'data' {}{}", p.shard, p.data, nearest_divisor(p.shard, p.data)));
    else if (p.shard == p.data)
      return;
    else if (p.zero == 0)
      add("parallelism.shard",
          "'shard' says over how many replicas 'zero' splits states, and 'zero' is 0; set it to 1, 2 "
          "or 3, or leave 'shard' out");
    else if (p.expert * p.expert_tensor > 1)
      add("parallelism.shard",
          "'shard' is not supported with experts over several GPUs; leave 'shard' or 'expert' out");
    else if (training.updates_at_once())
      add("parallelism.shard", "an optimizer that steps inside the backward sums whole gradients; leave 'shard' out");
    else if (training.offload.one_owner)
      add("parallelism.shard",
          "a single owner of each parameter has no copies; leave 'shard' out, or set "
          "'training.offload.owner' to all");
  }

  void placement() {
    if (!model.is_moe()) return;
    const bool placed = experts.balance != models::ExpertBalance::none;
    if (experts.redundant > 0 && !placed)
      add("experts.redundant", "'redundant' needs 'balance': eplb or best, which choose the experts to replicate");
    else if (experts.redundant > 0 && (model.experts + experts.redundant) % p.expert != 0)
      add("experts.redundant",
          fmt::format("'redundant' {}: {} experts and {} replicas do not divide over 'expert' {}{}", experts.redundant,
                      model.experts, experts.redundant, p.expert,
                      nearest(experts.redundant, 0, experts.redundant + p.expert,
                              [&](std::int64_t n) { return (model.experts + n) % p.expert == 0; })));
    if (experts.every && !placed)
      add("experts.every", "'every' needs 'balance': eplb or best, which place the experts again");
    const auto said = [&](std::size_t loads, const char* what) {
      if (std::int64_t(loads) != model.experts)
        add("experts.skew", fmt::format("{} has {} loads, but a layer of model '{}' has {} experts", what, loads,
                                        model.name, model.experts));
    };
    if (experts.skew.kind == models::Skew::Kind::loads) said(experts.skew.loads.size(), "'skew'");
    if (experts.skew.kind == models::Skew::Kind::trace) said(experts.skew.trace.front().front().size(), "the trace");
  }

  void context() {
    if (p.context == 1) return;
    if (model.family == models::Family::mlp) {
      add("parallelism.context",
          fmt::format("'context' {} splits sequences, and family 'mlp' has none; leave it out", p.context));
      return;
    }
    if (training.attention == models::AttentionKind::unfused)
      add("training.attention", fmt::format("'context' {} splits sequences, and unfused attention computes the scores "
                                            "of whole ones; set 'attention' to "
                                            "flash, or leave 'context' out",
                                            p.context));
    if (training.context == models::ContextKind::ring &&
        any([](const models::LayerSpec& layer) { return layer.mixer.sees_part(); }))
      add("training.context",
          "'ring' would pass keys and values to queries that cannot see them, which no framework does; set "
          "'training.context' to all-gather or all-to-all");
    if (training.context != models::ContextKind::all_to_all || model.heads % p.tensor != 0) return;
    const std::int64_t heads = model.heads / p.tensor;
    // A key-value head goes whole to one rank, or a copy of it to each rank that has some of its queries.
    const auto legal = [&](std::int64_t c) {
      const std::int64_t kv = std::max<std::int64_t>(1, model.kv_heads / p.tensor);
      return heads % c == 0 && (kv % c == 0 || c % kv == 0);
    };
    if (!legal(p.context))
      add("parallelism.context",
          fmt::format("'context' {} does not divide the {} heads and {} kv_heads of a GPU (model '{}' over tensor {}), "
                      "which 'all-to-all' of 'training.context' distributes{}",
                      p.context, heads, model.kv_heads / p.tensor, model.name, p.tensor,
                      nearest(p.context, 1, heads, legal)));
  }

  void recomputation() {
    const auto idle = [&](RecomputeModule module, bool there, const char* name, const char* needs) {
      if (training.recompute_modules.count(module) && !there)
        add("training.recompute.modules",
            fmt::format("'{}' of 'modules' needs {}, and model '{}' has none", name, needs, model.name));
    };
    const bool moe = model.is_moe();
    idle(RecomputeModule::mla_up_proj, model.mla.has_value(), "mla_up_proj", "latent attention ('mla')");
    idle(RecomputeModule::moe_act, moe, "moe_act", "experts");
    idle(RecomputeModule::moe, moe, "moe", "experts");
    idle(RecomputeModule::shared_experts, moe && model.shared_ffn > 0, "shared_experts", "shared experts");
    idle(RecomputeModule::mlp, has_dense(), "mlp", "dense layers");
    idle(RecomputeModule::mlp_act, has_dense(), "mlp_act", "dense layers");
  }
};

// Only a causal model can process the first tokens of a sequence before the others.
std::vector<Violation> broken_by_pieces(const models::Transformer& model, const models::Training& training,
                                        const Parallelism& p, const Batch& batch, std::int64_t pieces) {
  std::vector<Violation> all;
  if (pieces == 1) return all;
  const auto add = [&](const char* key, std::string rule) { all.push_back({key, std::move(rule)}); };
  if (model.family == models::Family::mlp)
    add("schedule", "the schedule splits sequences into pieces, and family 'mlp' has no sequences; choose another one");
  else if (!training.causal)
    add("training.causal",
        "the schedule computes the first tokens of a sequence before the later ones, which 'causal: false' lets them "
        "see; "
        "choose another one");
  else if (training.attention == models::AttentionKind::unfused)
    add("training.attention",
        "the schedule splits sequences, and unfused attention computes the scores of whole ones; set 'attention' to "
        "flash, or choose "
        "another one");
  else if (p.context > 1)
    add("parallelism.context", fmt::format("'context' {} splits sequences that the schedule already splits into {} "
                                           "pieces; set 'context' to 1, or choose "
                                           "another schedule",
                                           p.context, pieces));
  else if (batch.sequence % pieces != 0)
    add("schedule.pieces", fmt::format("'pieces' {} does not divide the {} tokens of a sequence{}", pieces,
                                       batch.sequence, nearest_divisor(pieces, batch.sequence)));
  return all;
}

}  // namespace

std::vector<Violation> broken_by_degrees(const models::Transformer& model, const models::Training& training,
                                         const models::ExpertSettings& experts, const Parallelism& parallelism) {
  Checks checks{model, training, experts, parallelism};
  checks.shards();
  checks.folding();
  checks.copies();
  checks.placement();
  checks.context();
  checks.recomputation();
  for (auto& broken : broken_by_shards(training, parallelism)) checks.all.push_back(std::move(broken));
  return std::move(checks.all);
}

std::vector<Violation> broken_by_servers(const models::Training& training, const models::Framework& framework,
                                         const Parallelism& p, const DataParallel& data) {
  std::vector<Violation> all;
  if (!data.served()) return all;
  const auto add = [&](const char* key, std::string rule) { all.push_back({key, std::move(rule)}); };
  const std::pair<const char*, std::int64_t> degrees[] = {{"tensor", p.tensor},
                                                          {"context", p.context},
                                                          {"pipeline", p.pipeline},
                                                          {"expert", p.expert},
                                                          {"expert_tensor", p.expert_tensor}};
  for (const auto& [key, degree] : degrees)
    if (degree > 1)
      add(fmt::format("parallelism.{}", key).c_str(),
          fmt::format(
              "'{}' {} cannot be combined with parameter servers: every worker holds the whole model; set it to 1, or "
              "'data_parallel' to all-reduce",
              key, degree));
  if (p.zero > 0)
    add("parallelism.zero",
        fmt::format(
            "'zero' {} would shard what the servers already hold; set it to 0, or 'data_parallel' to all-reduce",
            p.zero));
  if (training.updates_at_once())
    add("training.optimizer",
        "an optimizer that steps inside the backward leaves no gradients to push to parameter servers; use adamw or "
        "sgd, "
        "or set 'data_parallel' to all-reduce");
  if (training.scales_loss())
    add("training.loss_scaling",
        "an overflow must be detected before any update, and servers update part by part; leave 'loss_scaling' "
        "out, or set 'data_parallel' to all-reduce");
  if (training.offload.any() || training.cuts_checkpoints())
    add(training.offload.any() ? "training.offload" : "training.partition_activations",
        "states and checkpoints of workers with parameter servers stay on their GPUs; leave it out, or set "
        "'data_parallel' to all-reduce");
  if (training.buffers != models::Buffers::framework)
    add("training.buffers",
        "'buffers' are for reductions among replicas, and parameter servers get gradients bucket by bucket; leave it "
        "out, or set 'data_parallel' to all-reduce");
  if (data.placement == DataParallel::Placement::colocated && data.servers > p.data)
    add("data_parallel.servers",
        fmt::format("'servers' {} are more than the {} workers that they share GPUs with; at most one each: {}",
                    data.servers, p.data, p.data));
  if (data.unbounded() && data.update == DataParallel::Update::worker)
    add("data_parallel.delay",
        "'unbounded' waits for no worker, and 'update: worker' waits for the sum of all; set 'update' to server, or "
        "'delay' to "
        "a "
        "number");
  else if (data.unbounded() && framework.native_kernels)
    add("data_parallel.delay",
        "'unbounded' updates in an order that no serial run repeats, and this program's own kernels are checked "
        "against one; set 'delay' to a number, or name a framework");
  return all;
}

std::vector<Violation> broken_by_sequence(const models::Transformer& model, const models::Training& training,
                                          const models::ExpertSettings& experts, const Parallelism& p,
                                          const Batch& batch, std::int64_t pieces) {
  if (auto broken = broken_by_pieces(model, training, p, batch, pieces); !broken.empty()) return broken;
  std::vector<Violation> all;
  const std::int64_t tokens = batch.sequence / pieces;
  const bool halves = p.context > 1 && training.balances_context();
  const std::int64_t runs = halves ? 2 : 1, cut = p.sequence ? p.tensor : 1;
  const auto legal = [&](std::int64_t context) { return tokens % (context > 1 ? runs * context : 1) == 0; };
  const auto of = [&] {
    return pieces > 1      ? fmt::format("pieces {} x ", pieces)
           : p.context > 1 ? fmt::format("context {} x ", p.context)
                           : "";
  };
  if (model.family == models::Family::mlp) return all;
  if (!legal(p.context))
    all.push_back({"parallelism.context",
                   fmt::format("{}'context' {}{} does not divide the {} tokens of a sequence{}{}", halves ? "2 x " : "",
                               p.context, halves ? fmt::format(" = {}", 2 * p.context) : "", tokens,
                               halves ? ", as 'training.context_balance' of causal attention needs" : "",
                               nearest(p.context, 1, tokens, legal))});
  else if (tokens / p.context % cut != 0)
    all.push_back({"batch.sequence",
                   fmt::format("'sequence' {} tokens do not divide over {}tensor {}, as sequence parallelism needs{}",
                               batch.sequence, of(), p.tensor,
                               nearest(batch.sequence, 1, batch.sequence + pieces * p.context * cut * runs,
                                       [&](std::int64_t n) { return n % (pieces * p.context * cut * runs) == 0; }))});
  else if (model.is_moe() && batch.micro * tokens / p.context % p.tensor != 0)
    all.push_back({"batch.sequence",
                   fmt::format("the {} tokens of a micro-batch on a GPU do not divide over tensor {}, whose ranks send "
                               "each their own to the experts{}",
                               batch.micro * tokens / p.context, p.tensor,
                               nearest_divisor(p.tensor, batch.micro * tokens / p.context))});
  if (!model.is_moe() || !experts.capacity) return all;
  // Each tensor rank sends its own tokens.
  const double mean = double(batch.micro) * double(tokens) / double(p.context * p.tensor) *
                      double(model.experts_per_token) / double(model.experts);
  if (mean * *experts.capacity < 1)
    all.push_back({"experts.capacity",
                   fmt::format("'capacity' {:.4g} leaves an expert {:.2g} of the {:.4g} tokens of a micro-batch that "
                               "it gets on average; at least {:.4g}",
                               *experts.capacity, mean * *experts.capacity, mean, std::ceil(1e4 / mean) / 1e4)});
  return all;
}

}  // namespace rehearsal::plan
