// How long a work takes alone on a machine: Work x ClusterSpec -> Time. No contention; the engine knows when.
// Equations and constants: models/README.md ("How long"), after the published runs they were checked on.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cost/communication.hpp"
#include "cost/profile.hpp"
#include "graph/condition.hpp"
#include "graph/footprint.hpp"
#include "graph/work.hpp"
#include "models/transformer.hpp"

namespace rehearsal::cost {

// One constant that an answer rests on and that was assumed rather than measured, as a sentence.
struct Assumption {
  std::string text;
  double moves = 0;  // seconds by which a change of a tenth changes all tasks together; 0: it acts elsewhere
};

class CostModel {
 public:
  // A profile was measured on the machine itself and takes precedence over the formulas. A GPU that it holds must have
  // been put into `machine` (measured_gpu.hpp).
  CostModel(cluster::ClusterSpec machine, collective::SizeCurves curves, models::Framework framework,
            std::shared_ptr<const Profile> profile = nullptr,
            const collective::Registry& algorithms = collective::registry());

  // Seconds of one kernel.
  double gemm(const Gemm& shape) const;
  double attention(const FusedAttention& shape) const;
  double memory_bound(const MemoryBound& shape) const;
  double kernel(const Kernel& kernel) const;
  double staging_copy(const graph::StagingCopy& work) const;
  // Seconds of one collective.
  double collective(const graph::Collective& work) const;
  // The same with the algorithm that NCCL runs, and in words why; empty when there is nothing to do.
  collective::Choice choose(const graph::Collective& work) const;
  std::string why(const graph::Collective& work) const;
  double dispatch(const graph::Dispatch& work) const;
  // Bytes of tokens that a rank sends inside its domain and out of it: the one that all wait for, or the mean of all.
  struct Hops {
    double inside = 0, out = 0;
  };
  enum class Of : std::uint8_t { busiest, mean };
  Hops hops(const graph::Dispatch& work, Of whom) const;
  // A copy for every expert, from ranks that all have as many rows as the busiest.
  static graph::Collective as_all_to_all(const graph::Dispatch& work);
  double message(const graph::Message& work) const;
  double on_the_wire(const graph::Message& work) const;  // of that; CommunicationModel
  double optimizer(const graph::OptimizerStep& work) const;
  // By the host of a rank, with its share of the cores. Throw UserError if the cluster lacks the rates that they need.
  double copy(const graph::Copy& work) const;
  double host_step(const graph::HostStep& work) const;

  // One Time per work, in WorkId order. Composite works (Sequence, HostBound, Overlapped) may
  // only refer to smaller ids. `conditions`: of each; none = all is as the cluster says. `known`: prices of the first
  // works, which stay as they are.
  using Conditions = std::span<const graph::Condition>;
  std::vector<Time> price(std::span<const graph::Work> works, Conditions conditions = {},
                          std::vector<Time> known = {}) const;
  // In the same order: how long a message occupies its wire, as part of its price. 0 for all other works.
  std::vector<Time> held(std::span<const graph::Work> works, Conditions conditions = {}) const;

  // In the same order: how collectives are performed as they were priced; no algorithm for all other works.
  std::vector<collective::Execution> executions(std::span<const graph::Work> works, Conditions conditions = {}) const;

  // In the same order: the load on resources while they run. `prices`: of the same works.
  std::vector<graph::Footprint> footprints(std::span<const graph::Work> works, std::span<const Time> prices,
                                           Conditions conditions = {}) const;

  // In the same order: the bytes that they move; for composite works, those of their components.
  std::vector<graph::Volume> volumes(std::span<const graph::Work> works) const;

  // In the same order: the bytes of GPU memory that they read and write, those that collectives touch included.
  std::vector<double> memory_traffic(std::span<const graph::Work> works) const;

  // Every constant behind these works that was assumed rather than measured, the most influential first. `durations`:
  // their prices; `runs`: how often tasks of all ranks run each of them.
  std::vector<Assumption> assumptions(std::span<const graph::Work> works, std::span<const Time> durations,
                                      std::span<const double> runs, Conditions conditions = {}) const;
  // The same model of a machine that differs in one number.
  CostModel on(cluster::ClusterSpec machine) const {
    return {std::move(machine), communication_.curves(), framework_, profile_};
  }
  // Which algorithms the collectives among `works` run and why, as one sentence; nothing without collectives.
  std::vector<std::string> algorithms(std::span<const graph::Work> works) const;
  // Which native kernels are priced as other kernels, as sentences.
  std::vector<std::string> substitutes(std::span<const graph::Work> works) const;

  const cluster::ClusterSpec& machine() const { return machine_; }
  const CommunicationModel& communication() const { return communication_; }

 private:
  void need_rates() const;  // throws UserError where the GPU lacks what every price rests on
  // The model for each of the works, by its GPU and its links.
  class ByLinks;
  // The seconds by which all runs of the works together take longer or shorter on another machine.
  double moves(const cluster::ClusterSpec& other, std::span<const graph::Work> works, std::span<const Time> durations,
               std::span<const double> runs, Conditions conditions) const;
  graph::Footprint footprint(const graph::Work& work, Time price) const;
  static void on_links_alone(graph::Footprint& footprint);
  graph::Footprint of_collective(const graph::Collective& work, Time price) const;
  double processors_held() const;  // by the kernels that send tokens
  graph::Footprint of_dispatch(const graph::Dispatch& work, Time price) const;
  graph::Moved moved(const graph::Dispatch& work) const;
  // The weight of a load of `bytes_per_s` at the rate of a footprint; the hold of `count` multiprocessors.
  static std::int64_t weight_of(const graph::Footprint& f, double bytes_per_s);
  std::int64_t processors_of(double count) const;
  graph::Share second_round() const;
  graph::Footprint of_message(const graph::Message& work, Time price) const;
  graph::Footprint of_copy(const graph::Copy& work, Time price) const;
  graph::Footprint of_host_step(const graph::HostStep& work, Time price) const;
  graph::Moved moved(const graph::Copy& work) const;
  graph::Moved moved(const graph::Collective& work) const;
  graph::Volume volume(const graph::Message& work) const;
  // On one GPU: rows one after the other, the items of a row concurrently, and `beside` concurrent with all of them;
  // until the last of them has ended.
  Time together(const std::vector<std::vector<graph::Footprint>>& row, const graph::Footprint& beside) const;
  bool measured(const graph::Message& work) const;
  bool computes_wide(const Kernel& kernel) const;
  // The kernels among these works that the profile, if there is one, does not hold.
  std::set<KernelClass> unmeasured(std::span<const graph::Work> works) const;
  const TierTimes* measured_tiers() const { return profile_ && profile_->tiers ? &*profile_->tiers : nullptr; }
  const GpuTimes* measured_gpu() const { return profile_ && profile_->gpu ? &*profile_->gpu : nullptr; }

  cluster::ClusterSpec machine_;
  CommunicationModel communication_;
  models::Framework framework_;
  std::shared_ptr<const Profile> profile_;               // may be null
  std::map<Precision, cluster::Gpu> measured_products_;  // the GPU with the constants measured in a precision
};

}  // namespace rehearsal::cost
