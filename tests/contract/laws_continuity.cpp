// Laws of continuity: a little more or less of anything changes the step by about its share. Jumps are named: GPUs
// compute a product in tiles, and tiles in waves, so one more row may cost a row of tiles.
#include <fmt/format.h>

#include <cmath>

#include "laws.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::contract {

namespace {

// Beyond its share one more unit may cost or save this much: partially filled tiles and waves.
constexpr double kTiles = .03;

// Of a dimension of size `was`, of which cost grows by the power `power` at most: steps at `is` and at `was`.
// From no change to the whole step growing with it.
void shared(Trial& trial, double was, double is, double power, const std::string& what, const Sets& sets,
            const Allowed* allowed = nullptr) {
  const auto before = trial.ask(), after = trial.ask(sets);
  if (!before || !after) return;
  const double share = std::pow(is / was, power), ratio = step(*after) / step(*before);
  trial.within(ratio, std::min(1., share) * (1 - kTiles), std::max(1., share) * (1 + kTiles), sets,
               fmt::format("{} {} -> {}: {:.6g} -> {:.6g} s, times", what, was, is, step(*before), step(*after)),
               allowed);
}

// Reductions of gradients that become longer than the time between stages meet on the NICs.
constexpr Allowed kMeeting{"reductions of several stages meet", .1};

std::string key(const char* name, std::int64_t value) { return fmt::format("{}={}", name, value); }

// What a sequence must be a multiple of.
std::int64_t token_unit(const plan::Parallelism& p) {
  return (p.sequence ? p.tensor : 1) * (p.context > 1 ? 2 * p.context : 1);
}

}  // namespace

TEST_CASE("law: a token more or less costs a token") {
  keeps({"a token more or less costs a token", 100}, [](Trial& trial) {
    const auto unit = token_unit(trial.parallelism()), tokens = trial.scenario().batch.sequence;
    const Allowed row{"a row of tiles, 128 tokens", 128. / double(tokens)};
    for (const auto d : {unit, -unit})
      if (tokens + d > 0)
        shared(trial, double(tokens), double(tokens + d), 2, "tokens", {key("batch.sequence", tokens + d)}, &row);
  });
}

TEST_CASE("law: a head more costs a head") {
  keeps({"a head more costs a head", 70}, [](Trial& trial) {
    const auto& m = trial.model();
    const auto t = trial.parallelism().tensor;
    const auto group = m.heads / m.kv_heads, more = m.heads + t * (m.mla ? 1 : group);
    Sets sets{key("model.heads", more)};
    if (!m.mla) sets.push_back(key("model.kv_heads", more / group)), sets.push_back(key("model.head_dim", m.head_dim));
    shared(trial, double(m.heads), double(more), 1, "heads", sets);
  });
}

TEST_CASE("law: a hidden unit more costs a hidden unit") {
  keeps({"a hidden unit more costs a hidden unit", 70}, [](Trial& trial) {
    const auto& m = trial.model();
    const auto unit = trial.parallelism().tensor * 8;
    Sets sets{key("model.hidden", m.hidden + unit)};
    if (!m.mla) sets.push_back(key("model.head_dim", m.head_dim));
    // 2560 are 20 tiles, a few more are 21.
    const Allowed column{"a column of tiles, 128 units", std::min(.1, 128. / double(m.hidden))};
    shared(trial, double(m.hidden), double(m.hidden + unit), 1, "hidden", sets, &column);
  });
}

TEST_CASE("law: a wider layer costs its width") {
  keeps({"a wider layer costs its width", 70}, [](Trial& trial) {
    const auto& m = trial.model();
    const auto unit = trial.parallelism().tensor * 8;
    const bool experts = m.is_moe();
    const auto was = experts ? m.expert_ffn : m.ffn;
    shared(trial, double(was), double(was + unit), 1, "width of the feed-forward layer",
           {key(experts ? "model.expert_ffn" : "model.ffn", was + unit)});
  });
}

TEST_CASE("law: an expert more or less costs an expert") {
  keeps({"an expert more or less costs an expert", 100}, [](Trial& trial) {
    const auto& m = trial.model();
    if (!m.is_moe() || !trial.settle({"experts.skew=uniform"})) return;
    const auto unit = trial.parallelism().expert;
    // Number of ranks that hold one of a token's experts: with fewer experts, its choices cover more of the ranks.
    const auto met = [&](std::int64_t experts) {
      double none = 1;
      for (std::int64_t i = 0; i < m.experts_per_token; ++i)
        none *= std::max(0., double(experts - experts / unit - i)) / double(experts - i);
      return 1 - none;
    };
    for (const auto d : {unit, -unit}) {
      if (m.experts + d < m.experts_per_token || m.experts + d <= 0) continue;
      const Allowed more{"a token goes to more ranks", std::max(0., met(m.experts + d) / met(m.experts) - 1)};
      shared(trial, double(m.experts), double(m.experts + d), 1, "experts", {key("model.experts", m.experts + d)},
             &more);
    }
  });
}

TEST_CASE("law: a word more costs a word") {
  keeps({"a word more costs a word", 60}, [](Trial& trial) {
    const auto words = trial.model().vocabulary, unit = trial.parallelism().tensor;
    // Frameworks pad to 128 rows a tensor rank (Megatron-LM, --make-vocab-size-divisible-by).
    const double padded = 1 + 128. * double(unit) / double(words);
    shared(trial, double(words), double(words) * padded, 1, "words", {key("model.vocabulary", words + unit)});
  });
}

TEST_CASE("law: a layer more costs a layer") {
  keeps({"a layer more costs a layer", 70}, [](Trial& trial) {
    const auto& m = trial.model();
    // Layers of two kinds are no shares of each other.
    if (m.is_moe() && !trial.settle({"model.dense_layers=0"})) return;
    if (!trial.settle({"training.recompute=full"})) return;
    const auto unit = trial.parallelism().stages();
    shared(trial, double(m.layers), double(m.layers + unit), 1, "layers", {key("model.layers", m.layers + unit)},
           &kMeeting);
  });
}

TEST_CASE("law: a micro-batch more costs a micro-batch") {
  keeps({"a micro-batch more costs a micro-batch", 70}, [](Trial& trial) {
    const auto& b = trial.scenario().batch;
    // Schedules with several stages per rank, or two directions, process micro-batches in rounds of the pipeline.
    const bool rounds =
        trial.scenario().parallelism.chunks > 1 || trial.scenario().schedule.name.starts_with("dualpipe");
    const auto m = trial.scenario().microbatches(), unit = rounds ? 2 * trial.parallelism().pipeline : 1;
    if (m % unit != 0) return;
    shared(trial, double(m), double(m + unit), 1, "micro-batches", {key("batch.global", b.global / m * (m + unit))});
  });
}

TEST_CASE("law: a replica more costs a replica's share of the reductions") {
  keeps({"a replica more costs no more than its share", 70}, [](Trial& trial) {
    const auto& p = trial.parallelism();
    const auto& b = trial.scenario().batch;
    const auto& c = trial.concrete().cluster;
    if (p.data < 2 || trial.model().is_moe()) return;
    // Shards of states that leave the GPU shrink with each replica, and with them a step that waits for disks.
    if (p.zero > 0 && trial.concrete().training.offload.any()) return;
    // So does an owner's part of the products of a step on whole matrices.
    if (trial.concrete().training.optimizer->on_matrices) return;
    // Only where nodes and everything else stay the same: groups that leave a node, share one or cross a leaf change.
    const auto of_stage = p.gpus() / p.pipeline;
    if (of_stage % c.gpus_per_node != 0 || of_stage / p.data % c.gpus_per_node != 0) return;
    if (!trial.settle({"cluster.topology=one-switch", "placement=[tensor, context, expert, data, pipeline]"})) return;
    const Sets sets{key("parallelism.data", p.data + 1), key("batch.global", b.global / p.data * (p.data + 1)),
                    key("cluster.nodes", c.nodes / p.data * (p.data + 1))};
    shared(trial, double(p.data), double(p.data + 1), 1, "replicas", sets);
  });
}

TEST_CASE("law: a breath of skew costs a breath") {
  keeps({"a breath of skew costs a breath", 100}, [](Trial& trial) {
    if (!trial.model().is_moe()) return;
    const double zipf = trial.chance(30) ? 0 : double(trial.random.below(120)) / 100;
    // Without a capacity, which would drop more tokens with more skew.
    if (!trial.settle({fmt::format("experts.skew={{zipf: {}}}", zipf), "experts.capacity=dropless"})) return;
    const Sets sets{fmt::format("experts.skew={{zipf: {}}}", zipf + .001)};
    const auto before = trial.ask(), after = trial.ask(sets);
    if (!before || !after) return;
    // d ln(load) / dA = a mean of ln n under ln E: of 64 experts 4.2 a unit of A.
    trial.within(step(*after) / step(*before), .995, 1.005 * (1 + kTiles), sets, "zipf + .001, times");
  });
}

TEST_CASE("law: a thousandth of any number of the machine moves the step by a thousandth") {
  keeps({"a thousandth of a number moves the step by a thousandth", 300}, [](Trial& trial) {
    const auto before = trial.ask();
    if (!before) return;
    const auto& all = scenario::scenario_fields().fields;
    for (int tries = 0, asked = 0; tries < 60 && asked < 4; ++tries) {
      const auto& field = all[trial.random.below(all.size())];
      const auto kind = field.form.kind;
      if (!field.key.starts_with("cluster.") && !field.key.starts_with("framework.") &&
          !field.key.starts_with("training.bucket"))
        continue;
      if (!field.form.measurable() || kind == fields::Form::Kind::integer) continue;
      const auto value = field.get(&trial.scenario());
      const auto more = fields::scaled(field.form, value, trial.chance(50) ? 1.001 : .999);
      if (!more || *more == value) continue;
      if (std::atof(fields::written(value).c_str()) == 0) continue;  // there is no such thing
      const Sets sets{fmt::format("{}={}", field.key, fields::written(*more))};
      const auto after = trial.ask(sets);
      if (!after) continue;
      ++asked;
      trial.within(step(*after) / step(*before), .998, 1.002, sets,
                   fmt::format("{} {} -> {}, times", field.key, fields::shown(value), fields::shown(*more)));
    }
  });
}

}  // namespace rehearsal::contract
