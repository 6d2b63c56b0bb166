// What a prediction rests on without a measurement, one sentence each, for the report.
#include <fmt/format.h>

#include <algorithm>
#include <set>

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

template <class Owner, class Used>
void add(std::vector<std::string>& all, const char* kind, const fields::Description& described, const Owner& owner,
         Used&& used) {
  for (const auto& key : owner.assumed) {
    if (!used(key)) continue;
    std::string line = fmt::format("{} {}: {}", kind, owner.name, key);
    if (const auto* field = described.find(key)) line += " = " + fields::shown(field->get(&owner));
    line += " is assumed";
    if (const auto source = owner.sources.find(key); source != owner.sources.end()) line += " (" + source->second + ")";
    all.push_back(line + ".");
  }
}

// Which measurements stand in the place of a GPU file's constants, and what of its kind they leave open.
void add_measured_gpu(std::vector<std::string>& all, const Profile& profile, const Gpu& gpu) {
  const auto& times = *profile.gpu;
  const auto say = [&](const std::string& text) { all.push_back(fmt::format("Profile {}: {}.", profile.name, text)); };
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

// In which a profile holds kernels of this program.
std::set<Precision> precisions(const Profile& profile) {
  std::set<Precision> all;
  for (const auto& [kernels, times] : profile.kernels) all.insert(kernels.precision);
  return all;
}

// What a profile leaves open.
void add_profile(std::vector<std::string>& all, const Profile& profile, bool own, const ClusterSpec& machine) {
  const auto say = [&](const std::string& text) { all.push_back(fmt::format("Profile {}: {}.", profile.name, text)); };
  if (profile.gpu) add_measured_gpu(all, profile, machine.gpu);
  if (own && profile.kernels.empty()) {
    say("kernels were not measured; they are priced by formulas for a GPU's");
  } else if (own) {
    std::vector<std::string> missing;
    for (const auto precision : precisions(profile))
      for (std::size_t k = 0; k < kKernelKinds; k++)
        if (const KernelClass kernels(static_cast<KernelKind>(k), precision); !profile.kernels.count(kernels))
          missing.push_back(name(kernels));
    if (!missing.empty())
      say(fmt::format("kernels not measured, priced by formulas for a GPU's: {}", fmt::join(missing, ", ")));
    if (profile.ranks != machine.gpus())
      say(fmt::format("kernels were measured with {} rank{} at once, and {} compute{} here", profile.ranks,
                      profile.ranks == 1 ? "" : "s", machine.gpus(), machine.gpus() == 1 ? "s" : ""));
  }
  if (profile.gpu && !own) return;  // a GPU by itself: its links are the cluster's
  if (!profile.has_messages()) say("messages were not measured");
  if (!profile.has_collectives()) say("collectives were not measured");
}

}  // namespace

std::vector<std::string> CostModel::assumptions() const {
  std::vector<std::string> all;
  const bool own = software_.own_kernels;
  const bool kernels = own && profile_ && !profile_->kernels.empty() &&
                       profile_->kernels.size() == kKernelKinds * precisions(*profile_).size();
  const bool messages = profile_ && profile_->has_messages();
  const bool collectives = profile_ && profile_->has_collectives();
  add(all, "GPU", cluster::gpu_fields(), machine_.gpu,
      [&](const std::string& key) { return !kernels || key == "memory"; });
  add(all, "Cluster", cluster::cluster_fields(), machine_, [&](const std::string& key) {
    const bool message = key == "links.nvlink.message" || key == "message_overhead";
    return key.starts_with("links.nic.") || !(message ? messages : messages && collectives);
  });
  if (profile_) add_profile(all, *profile_, own, machine_);
  if (own && !profile_)
    all.push_back(
        "This program's kernels are priced by formulas for a GPU's; `rehearse calibrate` measures them on this "
        "machine.");
  if (communication_.curves().empty() && machine_.nvlink.value() > 0) {
    all.push_back(fmt::format(
        "Collectives inside a node of {} are priced from its links, taken as NVLink {}: systems left out of the "
        "fit are met within 3 to 16 % above 256 MB, and within 6 to 25 % over all sizes.",
        machine_.name, collective::nvlink(machine_.nvlink_generation, machine_.nvlink).generation));
  }
  if (const auto ratio = communication_.extrapolates())
    all.push_back(fmt::format(
        "Links inside a node are {:.3g} times those that the collectives {} were measured on: their times are "
        "extrapolated by the closed forms of the algorithms.",
        *ratio, communication_.curves().name));
  if (software_.dropout) {
    all.push_back(fmt::format(
        "Memory-bound kernels of a model with dropout take {} (forward) and {} (backward) times bytes over bandwidth, "
        "fitted on one profile without knowing the cause.",
        kDropoutForward, kDropoutBackward));
  }
  if (!own)
    all.push_back(fmt::format(
        "A reduction or gather that runs under computation lengthens it by {} of the time they share.", kInterference));
  if (machine_.nodes > 1) {
    all.push_back(fmt::format("A collective across nodes hides all but {} of the shorter of its wire and in-node parts.",
                              collective::kOverlapLoss));
    if (machine_.fabric != 1)
      all.push_back(
          fmt::format("The fabric passes on {:.3g} of what InfiniBand with adaptive routing does.", machine_.fabric));
  }
  if (!own) {
    all.push_back(fmt::format(
        "A GPU holds {} for context and libraries and {} per communicator besides what the framework reserves.",
        show(kContext + kLibraries), show(kCommunicator)));
    all.push_back(
        fmt::format("An optimizer step costs {} besides its memory traffic.", show(seconds(kOptimizerFixed))));
  }
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
  return {fmt::format("Collectives run as NCCL would choose: {}.", fmt::join(uses, "; "))};
}

}  // namespace rehearsal::cost
