// Assumptions of a prediction that no measurement supports, one sentence each, for the report.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cluster/fields.hpp"
#include "cost/constants.hpp"
#include "cost/cost_model.hpp"
#include "cost/device_memory.hpp"
#include "cost/measured_gpu.hpp"

namespace rehearsal::cost {
namespace {

using cluster::ClusterSpec;
using cluster::Gpu;

// Which measurements replace a GPU file's constants, and what of its kind they do not cover.
void add_measured_gpu(std::vector<Assumption>& all, const Profile& profile, const Gpu& gpu) {
  const auto& times = *profile.gpu;
  const auto say = [&](const std::string& text) {
    all.push_back({fmt::format("Profile {}: {}.", profile.name, text)});
  };
  if (const auto what = summary(times); !what.empty())
    say(fmt::format("measured on a {} on {}, driver {}: {}", times.gpu.name, profile.date,
                    times.gpu.driver.empty() ? "unknown" : times.gpu.driver, what));
  const auto main = main_precision(times);
  std::vector<std::string> others;
  for (const auto& [precision, peak] : gpu.peak)
    if (main && !times.gemm.count(precision)) others.emplace_back(rehearsal::name(precision));
  if (!others.empty())
    say(
        fmt::format("matrix products in {} were not measured; they are priced at their own peak with the constants of "
                    "{}",
                    fmt::join(others, ", "), rehearsal::name(*main)));
  if (!times.gemm.empty() && !times.settled_clock)
    say("matrix products were measured in bursts; the clock that training settles at is that of the GPU file");
}

// Values that somebody fitted to real runs, with what they were fitted to.
void add_fitted(std::vector<Assumption>& all, const char* kind, const fields::Description& described,
                const auto& owner) {
  for (const auto& key : owner.fitted)
    if (const auto* field = described.find(key)) {
      const auto source = owner.sources.find(key);
      all.push_back({fmt::format("{} {}: {} = {} is {}.", kind, owner.name, key, fields::shown(field->get(&owner)),
                                 source == owner.sources.end() ? "fitted to real runs" : source->second)});
    }
}

// What a profile does not cover. `missing`: native kernels that it does not hold.
void add_profile(std::vector<Assumption>& all, const Profile& profile, bool own, const std::set<KernelClass>& missing,
                 const ClusterSpec& machine) {
  const auto say = [&](const std::string& text) {
    all.push_back({fmt::format("Profile {}: {}.", profile.name, text)});
  };
  if (profile.gpu) add_measured_gpu(all, profile, machine.gpu);
  if (own && profile.kernels.empty()) {
    say("kernels were not measured; they are priced by formulas for a GPU's");
  } else if (own) {
    std::vector<std::string> names;
    for (const auto& kernels : missing) names.push_back(name(kernels));
    if (!missing.empty())
      say(fmt::format("kernels not measured, priced by formulas for a GPU's: {}", fmt::join(names, ", ")));
    if (profile.ranks != machine.gpus())
      say(fmt::format("kernels were measured with {} rank{} at once, and {} compute{} here", profile.ranks,
                      profile.ranks == 1 ? "" : "s", machine.gpus(), machine.gpus() == 1 ? "s" : ""));
  }
  if (profile.gpu && !own) return;  // a GPU by itself: its links are the cluster's
  if (!profile.has_messages()) say("messages were not measured");
  if (!profile.has_collectives()) say("collectives were not measured");
}

// The components of a step's works, in seconds that all ranks spend on them.
struct Spent {
  double dropout = 0, in_node = 0, across_nodes = 0, nested = 0;
  double optimizer_steps = 0;  // how many
  double host_steps = 0;
};

struct Count {
  Spent& spent;
  double runs, seconds;   // of one run
  std::int64_t per_node;  // GPUs
  void operator()(const MemoryBound& w) const {
    if (w.kind != Traffic::plain) spent.dropout += runs * seconds;
  }
  void operator()(const graph::Collective& w) const {
    const bool inside = std::int64_t(w.group.ranks - 1) * w.group.stride < per_node;
    (inside ? spent.in_node : spent.across_nodes) += runs * seconds;
    if (!inside && w.group.stride < per_node) spent.nested += runs * seconds;
  }
  void operator()(const graph::OptimizerStep&) const { spent.optimizer_steps += runs; }
  void operator()(const graph::HostStep&) const { spent.host_steps += runs * seconds; }
  void operator()(const auto&) const {}
};

// Works that others consist of run as often as those.
Spent spent_on(std::span<const graph::Work> works, std::span<const Time> durations, std::span<const double> runs,
               std::int64_t per_node) {
  std::vector<double> times(runs.begin(), runs.end());
  Spent spent;
  for (std::size_t w = works.size(); w-- > 0;) {
    if (const auto* all = std::get_if<graph::Sequence>(&works[w]))
      for (const auto& item : all->items) times[item.work.index()] += times[w] * item.count;
    if (const auto* both = std::get_if<graph::Overlapped>(&works[w]))
      times[both->kernel.index()] += times[w], times[both->collective.index()] += times[w];
    std::visit(Count{spent, times[w], to_seconds(durations[w]), per_node}, works[w]);
  }
  return spent;
}

constexpr double kTenth = .1;
// These decide what fits, and how a job is placed on nodes, in addition to any time.
constexpr const char* kBesidesTimes[] = {"memory", "gpus_per_node"};

}  // namespace

double CostModel::moves(const cluster::ClusterSpec& other, std::span<const graph::Work> works,
                        std::span<const Time> durations, std::span<const double> runs, Conditions conditions) const {
  const auto times = on(other).price(works, conditions);
  double sum = 0;
  for (std::size_t w = 0; w < times.size(); w++) {
    const Time change = times[w] - durations[w];
    sum += runs[w] * to_seconds(change < Time{} ? -change : change);
  }
  return sum;
}

std::set<KernelClass> CostModel::unmeasured(std::span<const graph::Work> works) const {
  std::set<KernelClass> missing;
  if (!profile_) return missing;
  for (const auto& work : works) {
    const auto* kernel = std::get_if<Kernel>(&work);
    if (!kernel || profile_->kernels.count(KernelClass(*kernel))) continue;
    const KernelClass priced_as(kernel->kind, computes_wide(*kernel) ? Precision::fp32 : kernel->precision);
    if (!profile_->kernels.count(priced_as)) missing.insert(priced_as);
  }
  return missing;
}

std::vector<Assumption> CostModel::assumptions(std::span<const graph::Work> works, std::span<const Time> durations,
                                               std::span<const double> runs, Conditions conditions) const {
  std::vector<Assumption> all;
  const auto add = [&](std::string text, double moved) { all.push_back({std::move(text), moved}); };
  // A number of a file counts as used if another value would change a time.
  const auto add_keys = [&](const char* kind, const fields::Description& described, const auto& owner, auto of) {
    for (const auto& key : owner.assumed) {
      const auto* field = described.find(key);
      if (!field) continue;
      const auto value = field->get(&owner);
      double most = 0;
      bool possible = false;
      // Counts that must divide others (NICs of a node) cannot be moved by a tenth; they are doubled or halved.
      for (const double factor : {1 + kTenth, 1 / (1 + kTenth), 2., .5}) {
        const auto other = fields::scaled(field->form, value, factor);
        if (!other || (possible && (factor == 2 || factor == .5))) continue;
        auto machine = machine_;
        field->set(&of(machine), *other);
        try {
          most = std::max(most, moves(machine, works, durations, runs, conditions));
          possible = true;
        } catch (const UserError&) {  // no such machine
        }
      }
      const bool besides =
          std::find(std::begin(kBesidesTimes), std::end(kBesidesTimes), key) != std::end(kBesidesTimes);
      // Constants that the samples of a measured GPU did not determine keep the file's value in its fit.
      const auto* times = measured_gpu();
      const bool kept = times && std::any_of(times->gemm.begin(), times->gemm.end(), [&](const auto& products) {
                          const auto& keys = products.second.fit.kept;
                          return std::find(keys.begin(), keys.end(), key) != keys.end();
                        });
      if (most == 0 && !besides && !kept) continue;
      const auto source = owner.sources.find(key);
      add(fmt::format("{} {}: {} = {} is assumed{}.", kind, owner.name, key, fields::shown(value),
                      source == owner.sources.end() ? "" : " (" + source->second + ")"),
          most);
    }
  };
  const bool own = framework_.native_kernels;
  add_fitted(all, "GPU", cluster::gpu_fields(), machine_.gpu);
  add_fitted(all, "Cluster", cluster::cluster_fields(), machine_);
  add_keys(
      "GPU", cluster::gpu_fields(), machine_.gpu, [](auto& machine) -> auto& { return machine.gpu; });
  add_keys(
      "Cluster", cluster::cluster_fields(), machine_, [](auto& machine) -> auto& { return machine; });
  if (profile_) add_profile(all, *profile_, own, unmeasured(works), machine_);
  if (own && !profile_)
    add("This program's kernels are priced by formulas for a GPU's; `rehearse calibrate` measures them on this "
        "machine.",
        0);
  const auto spent = spent_on(works, durations, runs, machine_.gpus_per_node);
  if (communication_.curves().empty() && spent.in_node + spent.nested > 0)
    add(fmt::format("Collectives inside a node of {} are priced from its links, taken as {}: {}.", machine_.name,
                    machine_.interconnect.title, machine_.interconnect.basis),
        kTenth * (spent.in_node + spent.nested));
  if (spent.dropout > 0)
    add(fmt::format("Memory-bound kernels of a model with dropout take {} (forward) and {} (backward) times bytes over "
                    "bandwidth, fitted on one profile without knowing the cause.",
                    framework_.dropout_forward, framework_.dropout_backward),
        kTenth * spent.dropout);
  if (const auto ratio = communication_.extrapolates(); ratio && spent.in_node + spent.nested > 0)
    add(fmt::format("Links inside a node are {:.3g} times those that the collectives {} were measured on: their times "
                    "are extrapolated by the closed forms of the algorithms.",
                    *ratio, communication_.curves().name),
        kTenth * (spent.in_node + spent.nested));
  if (machine_.fabric != 1 && machine_.nodes > 1) {
    auto wider = machine_;
    wider.fabric *= 1 + kTenth;
    if (const double moved = moves(wider, works, durations, runs, conditions); moved > 0)
      add(fmt::format("The fabric delivers {:.3g} of the rate of InfiniBand with adaptive routing.", machine_.fabric),
          moved);
  }
  if (spent.optimizer_steps > 0)
    add(fmt::format("An optimizer step costs {} beyond its memory traffic.",
                    show(seconds(framework_.optimizer_overhead))),
        kTenth * framework_.optimizer_overhead * spent.optimizer_steps);
  if (spent.host_steps > 0 && !measured_tiers())
    add(fmt::format("An optimizer on the host reaches {} of its memory bandwidth, as DeepSpeed's CPU-Adam on Grace: no "
                    "other host was measured.",
                    kHostStepShare),
        kTenth * spent.host_steps);
  if (!own)
    add(fmt::format(
            "A GPU holds {} for context and libraries and {} per communicator beyond what the framework reserves.",
            show(context(machine_.gpu, framework_)), show(kCommunicator)),
        0);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.moves > b.moves; });
  return all;
}

// "ring-all-reduce of 32 ranks on 4 nodes (3 hops)": sizes of one kind, group and algorithm are one item.
std::vector<std::string> CostModel::algorithms(std::span<const graph::Work> works) const {
  std::set<std::string> uses;
  for (const auto& work : works) {
    const auto* c = std::get_if<graph::Collective>(&work);
    if (!c) continue;
    const auto choice = choose(*c);
    if (!choice.algorithm) continue;
    uses.insert(fmt::format("{} of {} ranks{} ({})", choice.algorithm->name, c->group.ranks,
                            communication_.where(c->group), why(*c)));
  }
  if (uses.empty()) return {};
  const auto& links = machine_.interconnect;
  return {fmt::format("Collectives run as {} would choose{}: {}.", machine_.library.title,
                      links.kind == cluster::LinkKind::nvlink ? "" : " over " + links.title, fmt::join(uses, "; "))};
}

}  // namespace rehearsal::cost
