// Laws of order: more work, a smaller machine or more faults are never faster, and options that save memory do save it.
//
// A step as a whole may violate an order slightly: a task that ends earlier may start another one that delays others
// (Graham's anomalies, SIAM J. Appl. Math. 17, 1969). No such anomaly may cost more than kAnomaly.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "laws.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::contract {

namespace {

constexpr double kAnomaly = .01;

// Selective recomputation that repeats very little saves that little, but holds it twice while it is repeated.
constexpr Allowed kWorkspace{"what is repeated lives beside what it is for", .02};

// The step with `more` is not shorter than with `less`.
void longer(Trial& trial, const Sets& less, const Sets& more, const std::string& what,
            const Allowed* allowed = nullptr) {
  const auto a = trial.ask(less), b = trial.ask(more);
  if (!a || !b) return;
  trial.within(step(*b) / step(*a), 1 - kAnomaly, 1e9, more,
               fmt::format("{} (beside {}): {:.6g} -> {:.6g} s, times", what, fmt::join(less, " "), step(*a), step(*b)),
               allowed);
}

// Without contention, collectives of one lane still wait for each other, in another order.
constexpr Allowed kOrders{"another order of the same tasks", .02};

double part(const answer::Result& answer, graph::Category category) {
  return to_seconds(answer.summary.breakdown[static_cast<std::size_t>(category)]);
}

double peak(const answer::Result& answer) { return answer.summary.peak.allocated; }
// Parameters, gradients and optimizer states, of the rank that holds most; activations in the same way.
double states(const answer::Result& answer) {
  double most = 0;
  for (const auto& rank : answer.summary.ranks)
    most = std::max(most, held(rank, graph::MemoryCategory::parameters) + held(rank, graph::MemoryCategory::gradients) +
                              held(rank, graph::MemoryCategory::optimizer));
  return most;
}

// Rates of a machine, and whether more is better.
struct Rate {
  const char* key;
  double worse;
};
constexpr Rate kRates[] = {{"cluster.links.scale_out.bandwidth", .5},
                           {"cluster.links.scale_out.bandwidth", .9},
                           {"cluster.links.scale_up.bandwidth", .5},
                           {"cluster.links.scale_up.bandwidth", .9},
                           {"cluster.links.scale_out.latency", 2},
                           {"cluster.links.scale_up.latency", 2},
                           {"cluster.links.scale_out.efficiency", .7},
                           {"cluster.links.scale_up.p2p_bandwidth", .6},
                           {"cluster.message_overhead", 2},
                           {"cluster.gpu.memory_bandwidth", .6},
                           {"cluster.gpu.sustained_memory_bandwidth", .6},
                           {"cluster.gpu.sustained_clock", .8},
                           {"cluster.gpu.gemm_efficiency", .7},
                           {"cluster.gpu.peak.bf16", .5},
                           {"cluster.gpu.peak.fp16", .5},
                           {"cluster.gpu.kernel_gap", 3},
                           {"cluster.gpu.gemm_overhead", 3},
                           {"cluster.launch_factor", 2},
                           {"framework.host_time_per_kernel", 2},
                           {"cluster.host.pcie.bandwidth", .5}};

}  // namespace

TEST_CASE("law: a worse machine is never faster") {
  keeps({"a worse machine is never faster", 250}, [](Trial& trial) {
    const auto before = trial.ask();
    if (!before) return;
    for (int asked = 0; asked < 3; ++asked) {
      const auto& rate = kRates[trial.random.below(std::size(kRates))];
      const auto& field = scenario::scenario_fields().at(rate.key);
      const auto value = field.get(&trial.scenario());
      const auto worse = fields::scaled(field.form, value, rate.worse);
      if (!worse || *worse == value) continue;
      Sets sets{fmt::format("{}={}", field.key, fields::written(*worse))};
      // Attention is given by its rate in 16 bits: with half the peak and the same rate it were a better kernel, in
      // fp32 too.
      if (field.key.starts_with("cluster.gpu.peak."))
        for (const char* kernel : {"fused", "flash3", "cudnn"}) {
          const auto& own = scenario::scenario_fields().at(fmt::format("cluster.gpu.{}_attention_rate", kernel));
          if (const auto less = fields::scaled(own.form, own.get(&trial.scenario()), rate.worse))
            sets.push_back(fmt::format("{}={}", own.key, fields::written(*less)));
        }
      const auto after = trial.ask(sets);
      if (!after) continue;
      trial.within(step(*after) / step(*before), 1 - kAnomaly, 1e9, sets,
                   fmt::format("{} {} -> {}: {:.6g} -> {:.6g} s, times", rate.key, fields::shown(value),
                               fields::shown(*worse), step(*before), step(*after)));
    }
  });
}

TEST_CASE("law: more skew is never faster") {
  keeps({"more skew is never faster", 150}, [](Trial& trial) {
    if (!trial.model().is_moe()) return;
    // Without a capacity: tokens that are dropped take no time.
    if (!trial.settle({"experts.capacity=dropless"})) return;
    std::optional<double> before;
    for (const double zipf : {0., .1, .4, .7, .95, 1., 1.2, 1.3}) {
      const Sets sets{fmt::format("experts.skew={{zipf: {}}}", zipf)};
      const auto answer = trial.ask(sets);
      if (!answer) return;
      if (before)
        trial.within(step(*answer) / *before, 1 - kAnomaly, 1e9, sets, fmt::format("zipf up to {}: step, times", zipf));
      before = step(*answer);
    }
  });
}

TEST_CASE("law: experts balanced with replicas are never slower than as they come") {
  keeps({"balanced experts are never slower", 70}, [](Trial& trial) {
    const auto& m = trial.model();
    const auto degree = trial.parallelism().expert;
    if (!m.is_moe() || degree == 1) return;
    const double zipf = double(trial.random.below(14)) / 10;
    if (!trial.settle({fmt::format("experts.skew={{zipf: {}}}", zipf)})) return;
    for (const auto replicas : {std::int64_t{0}, degree, 2 * degree})
      for (const char* method : {"eplb", "best"}) {
        const Sets sets{fmt::format("experts.balance={}", method), fmt::format("experts.redundant={}", replicas)};
        const auto before = trial.ask(), after = trial.ask(sets);
        if (!before || !after) continue;
        // A replica is launched, held, reduced and stepped like any other expert, and others wait for that.
        const double replica = double(replicas) / double(m.experts);
        double states = 0;
        using graph::Category;
        for (const auto category : {Category::data_comm, Category::optimizer, Category::offload, Category::host,
                                    Category::contention, Category::bubble})
          states += part(*before, category) / step(*before);
        trial.within(step(*after) / step(*before), 0, 1 + kAnomaly + replica * states, sets,
                     fmt::format("zipf {}: step, times", zipf));
      }
  });
}

TEST_CASE("law: more work is never faster") {
  keeps({"more work is never faster", 200}, [](Trial& trial) {
    const auto& s = trial.scenario();
    const auto& m = trial.model();
    const auto set = [](const char* name, std::int64_t value) { return fmt::format("{}={}", name, value); };
    const std::vector<Sets> works{
        {set("batch.global", s.batch.global * 2)},
        {set("batch.global", s.batch.global * 2), set("batch.micro", s.batch.micro * 2)},
        {set("batch.sequence", s.batch.sequence * 2)},
        {set("model.layers", m.layers + s.parallelism.stages())},
        {set("model.layers", m.layers * 2)},
        {set("model.vocabulary", m.vocabulary * 2)},
        {set(m.is_moe() ? "model.expert_ffn" : "model.ffn", (m.is_moe() ? m.expert_ffn : m.ffn) * 2)},
        {set("model.experts_per_token", std::min(m.experts, m.experts_per_token + 1))},
        {"training.causal=false"}};
    longer(trial, {}, works[trial.random.below(works.size())], "more work");
  });
}

TEST_CASE("law: recomputation takes time and saves memory") {
  keeps({"recomputation takes time and saves memory", 100, true}, [](Trial& trial) {
    std::optional<answer::Result> before;
    for (const char* mode : {"none", "selective", "full"}) {
      const Sets sets{fmt::format("training.recompute={}", mode)};
      const auto answer = trial.ask(sets);
      if (!answer) return;
      if (before) {
        trial.within(step(*answer) / step(*before), 1 - kAnomaly, 1e9, sets, "recomputation: step, times");
        trial.within(peak(*answer) / peak(*before), 0, 1, sets, "recomputation: peak, times", &kWorkspace);
      }
      before = answer;
    }
  });
}

TEST_CASE("law: each level of ZeRO holds less") {
  keeps({"each level of ZeRO holds less", 90, true}, [](Trial& trial) {
    if (trial.parallelism().data == 1) return;
    std::optional<double> before;
    for (int level = 0; level <= 3; ++level) {
      const Sets sets{fmt::format("parallelism.zero={}", level)};
      const auto answer = trial.ask(sets);
      if (!answer) continue;
      const double now = states(*answer);
      if (before) trial.within(now / *before, 0, 1, sets, fmt::format("states of ZeRO-{}, times", level));
      before = now;
    }
  });
}

TEST_CASE("law: larger micro-batches hold more, and leave the states alone") {
  keeps({"larger micro-batches hold more", 80, true}, [](Trial& trial) {
    const auto& b = trial.scenario().batch;
    const Sets sets{fmt::format("batch.micro={}", 2 * b.micro), fmt::format("batch.global={}", 2 * b.global)};
    const auto before = trial.ask(), after = trial.ask(sets);
    if (!before || !after) return;
    trial.within(peak(*after) / peak(*before), 1, 2, sets, "peak, times");
    trial.within(states(*after) / states(*before), 1, 1, sets, "states, times");
  });
}

TEST_CASE("law: sharing only adds") {
  keeps({"sharing only adds", 100}, [](Trial& trial) {
    longer(trial, {"simulate.contention=off"}, {"simulate.contention=auto"}, "who meets whom", &kOrders);
  });
}

TEST_CASE("law: a machine twice as fast in everything takes between half the time and all of it") {
  keeps({"twice as fast in everything", 70}, [](Trial& trial) {
    Sets now, sets;
    for (const auto& field : scenario::scenario_fields().fields) {
      if (!field.key.starts_with("cluster.") && !field.key.starts_with("framework.")) continue;
      using Kind = fields::Form::Kind;
      const bool time = field.form.kind == Kind::time,
                 rate = field.form.kind == Kind::bandwidth || field.form.kind == Kind::flop_rate;
      if (!time && !rate) continue;
      const auto value = field.get(&trial.scenario());
      if (value.absent() || std::atof(fields::written(value).c_str()) == 0) continue;
      const auto faster = fields::scaled(field.form, value, time ? .5 : 2);
      if (!faster) continue;
      now.push_back(fmt::format("{}={}", field.key, fields::written(value)));
      sets.push_back(fmt::format("{}={}", field.key, fields::written(*faster)));
    }
    // For a job on a part of a node, its share of the host differs from the node's total: both are set.
    if (!trial.settle(now)) return;
    const auto before = trial.ask(), after = trial.ask(sets);
    if (!before || !after) return;
    trial.within(step(*after) / step(*before), .499, .8, sets, "step, times");
  });
}

TEST_CASE("law: a fault never helps") {
  keeps({"a fault never helps", 100}, [](Trial& trial) {
    const auto& c = trial.concrete().cluster;
    const auto gpu = trial.random.below(std::uint64_t(c.gpus()));
    const auto nics = std::uint64_t(std::max<std::int64_t>(1, c.nics_per_node * c.nodes));
    const std::array faults{fmt::format("{{gpu: {}, slowdown: 1.3}}", gpu),
                            fmt::format("{{nvlink: {}, rate: 0.5}}", gpu),
                            fmt::format("{{nic: {}, rate: 0.5}}", trial.random.below(nics))};
    longer(trial, {}, {fmt::format("faults=[{}]", faults[trial.random.below(faults.size())])}, "a fault");
  });
}

TEST_CASE("law: fewer bits are never slower") {
  keeps({"fewer bits are never slower", 70}, [](Trial& trial) {
    // States stay: in 16 bits there are masters beside the parameters, which travel where the optimizer is elsewhere.
    // Kernels are fused: operations of 16 bits one by one copy to fp32 and back, which are more launches.
    const Sets same{"training.offload={}", "training.kernels=fused"};
    longer(trial, with(same, {"training.precision=bf16"}), with(same, {"training.precision=fp32"}),
           "twice as many bits");
  });
}

TEST_CASE("law: what leaves the device makes room there") {
  keeps({"what leaves the device makes room there", 60, true}, [](Trial& trial) {
    for (const char* what : {"{optimizer: host}", "{optimizer: host, gradients: host}"}) {
      const Sets sets{"training.offload={}", fmt::format("training.offload={}", what)};
      const auto before = trial.ask({"training.offload={}"}), after = trial.ask(sets);
      if (before && after) trial.within(peak(*after) / peak(*before), 0, 1, sets, "peak, times");
    }
  });
}

}  // namespace rehearsal::contract
