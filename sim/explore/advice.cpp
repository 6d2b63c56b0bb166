#include "explore/advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "answer/simulated.hpp"
#include "base/parallel.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::explore {
namespace {

using fields::Value;
using scenario::Scenario;

// Training choices that affect when and where things are computed, but not the result: all other values are tried.
constexpr const char* kChoices[] = {"training.attention",
                                    "training.kernels",
                                    "training.context",
                                    "training.context_balance",
                                    "training.partition_activations",
                                    "training.defragment",
                                    "training.allocator",
                                    "training.optimizer_sync",
                                    "training.fsdp.reshard_after_forward",
                                    "training.offload.optimizer",
                                    "training.offload.gradients",
                                    "training.offload.parameters",
                                    "training.offload.activations.to",
                                    "training.offload.owner",
                                    "experts.dispatch",
                                    "experts.balance",
                                    "parallelism.sequence"};
// An allocator without fragmentation is for comparison only; no real run has one.
constexpr const char* kNoChoice = "exact";
// Without a setting the framework decides, so both values are tried.
constexpr const char* kSwitches[] = {"training.overlap.gradients", "training.overlap.parameters",
                                     "training.overlap.pipeline", "training.overlap.tensor"};
// Each is doubled and halved.
constexpr const char* kNumbers[] = {
    "batch.micro",           "parallelism.chunks",    "parallelism.expert",        "parallelism.expert_tensor",
    "training.bucket",       "training.buffers.size", "training.offload.prefetch", "training.offload.tiles",
    "training.fsdp.prefetch"};
constexpr Bytes kUsualBucket{25'000'000};  // of torch's DDP, if none is given (contract: `bucket`)

class Changes {
 public:
  explicit Changes(const Scenario& scenario) : scenario_(scenario) {}

  std::vector<Change> run() {
    schedules();
    if (!scenario_.concrete) return std::move(all_);
    for (const char* key : kNumbers) doubled(key);
    degrees();
    for (const char* key : kChoices) choices(key);
    for (const char* key : kSwitches)
      for (const char* value : {"true", "false"}) add({fmt::format("{}={}", key, value)});
    for (int zero = 0; zero <= 3; ++zero)
      if (zero != scenario_.parallelism.zero) add({fmt::format("parallelism.zero={}", zero)});
    for (const char* mode : {"none", "selective", "full", "{mode: full, every: 2}", "{mode: full, every: 4}"})
      add({fmt::format("training.recompute={}", mode)});
    for (const char* partition : {"uniform", "balanced"}) add({fmt::format("partition={}", partition)});
    placements();
    return std::move(all_);
  }

 private:
  void add(Change change) {
    if (std::find(all_.begin(), all_.end(), change) == all_.end()) all_.push_back(std::move(change));
  }

  // If a schedule does not support the current number of chunks, the nearest one that it does is tried; otherwise also
  // twice as many, if supported. Given times belong to one stage each, so abstract scenarios keep their chunks.
  void schedules() {
    for (const auto& [name, schedule] : schedule::registry()) {
      if (name == scenario_.schedule.name) continue;
      if (schedule.placement == schedule::Placement::vocabulary) continue;  // a framework that cuts its ends otherwise
      Change change{"schedule=" + name};
      const auto chunks = scenario_.parallelism.chunks;
      if (scenario_.abstract) {
        const bool both_ways = schedule.placement == schedule::Placement::bidirectional;  // two copies of the model
        if (both_ways || (schedule.min_chunks <= chunks && chunks <= schedule.max_chunks)) add(std::move(change));
        continue;
      }
      const auto fitting = std::clamp<std::int64_t>(chunks, schedule.min_chunks, schedule.max_chunks);
      if (fitting != chunks) change.push_back(fmt::format("parallelism.chunks={}", fitting));
      add(change);
      if (fitting == chunks && 2 * chunks <= schedule.max_chunks)
        add({change.front(), fmt::format("parallelism.chunks={}", 2 * chunks)});
    }
  }

  void doubled(const char* key) {
    const auto& field = scenario::scenario_fields().at(key);
    auto value = field.get(&scenario_);
    if (value.absent()) value = key == std::string_view("training.bucket") ? Value(kUsualBucket) : field.when_absent;
    if (value.absent()) return;
    for (const double factor : {2., .5}) {
      const auto* whole = std::get_if<std::int64_t>(&value);
      if (whole && factor < 1 && *whole % 2 != 0) continue;
      if (const auto to = fields::scaled(field.form, value, factor))
        add({fmt::format("{}={}", key, fields::written(*to))});
    }
  }

  // Moves a factor of two from one axis to another: the number of GPUs stays the same.
  void degrees() {
    const auto& p = scenario_.parallelism;
    const std::pair<const char*, std::int64_t> axes[] = {
        {"tensor", p.tensor}, {"context", p.context}, {"pipeline", p.pipeline}, {"data", p.data}};
    for (const auto& [more, degree] : axes)
      for (const auto& [less, from] : axes) {
        if (more == less || from % 2 != 0) continue;
        Change change{fmt::format("parallelism.{}={}", less, from / 2),
                      fmt::format("parallelism.{}={}", more, 2 * degree)};
        if (less == std::string_view("tensor") && from == 2 && p.sequence)
          change.emplace_back("parallelism.sequence=false");
        if (less == std::string_view("pipeline") && from == 2 && p.chunks > 1)
          change.emplace_back("parallelism.chunks=1");
        add(std::move(change));
      }
  }

  void choices(const char* key) {
    const auto& field = scenario::scenario_fields().at(key);
    const auto now = field.get(&scenario_);
    for (const auto& value : fields::others(field, now)) {
      // Different names for the same value ("cpu", "host") count once.
      auto other = scenario_;
      field.set(&other, value);
      const auto meant = field.get(&other);
      if (meant != now && meant != Value(std::string(kNoChoice)))
        add({fmt::format("{}={}", key, fields::written(meant))});
    }
  }

  void placements() {
    const auto& field = scenario::scenario_fields().at("placement");
    for (const auto& order : fields::others(field, field.get(&scenario_))) add({"placement=" + fields::written(order)});
  }

  const Scenario& scenario_;
  std::vector<Change> all_;
};

double memory_of(const answer::Summary& summary) { return summary.peak.device.value_or(summary.peak.allocated); }

}  // namespace

std::vector<Change> changes(const Scenario& scenario) { return Changes(scenario).run(); }

Advised advise(const Asked& asked, unsigned jobs, const Done& done) {
  enum class Outcome : std::uint8_t { illegal, failed, legal };
  struct Tried {
    std::optional<scenario::Scenario> scenario;
    std::string digest;
    Outcome outcome = Outcome::illegal;
    Advice row;
  };
  const auto& base = *asked.prediction;
  const auto all = changes(base.scenario());
  std::vector<Tried> tried(all.size());
  const auto attempt = [](Tried& one, const auto& act) {
    try {
      act();
      one.outcome = Outcome::legal;
    } catch (const UserError&) {
      one.outcome = Outcome::illegal;
    } catch (const InternalError&) {
      one.outcome = Outcome::failed;
    }
  };
  in_parallel(all.size(), jobs, [&](std::size_t i) {
    attempt(tried[i], [&] { tried[i].digest = tried[i].scenario.emplace(asked.with(all[i])).digest; });
  });

  // Changes that result in the same scenario count once, and are predicted once.
  std::map<std::string, std::size_t> first;
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (tried[i].scenario && tried[i].digest != base.summary.digest && first.try_emplace(tried[i].digest, i).second)
      own.push_back(i);
  const auto predict = [&](std::size_t k) {
    auto& one = tried[own[k]];
    attempt(one, [&] {
      const auto summary = answer::predict_beside(base, *one.scenario, answer::Options::summary_alone()).summary;
      one.row = {all[own[k]], summary.iteration, memory_of(summary), memory_of(summary) - memory_of(base.summary),
                 summary.fits.value_or(true)};
    });
    one.scenario.reset();
  };
  in_parallel(own.size(), jobs, predict, done);

  Advised advised;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const auto found = first.find(tried[i].digest);
    const auto at = found == first.end() ? i : found->second;
    const auto outcome = tried[at].outcome;
    const auto& row = tried[at].row;
    if (outcome == Outcome::failed) {
      advised.failed.push_back(all[i]);
    } else if (outcome == Outcome::illegal) {
      ++advised.illegal;
    } else if (tried[i].digest == base.summary.digest || at != i ||
               (row.iteration == base.summary.iteration && row.memory_change == 0)) {
      ++advised.same;
    } else {
      advised.all.push_back(row);
    }
  }
  std::stable_sort(advised.all.begin(), advised.all.end(), [](const Advice& a, const Advice& b) {
    return std::pair(!a.fits, a.iteration) < std::pair(!b.fits, b.iteration);
  });
  return advised;
}

}  // namespace rehearsal::explore
