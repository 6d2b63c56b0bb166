// Simulates runs of a job on machines that fail, event by event.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "job/goodput.hpp"

namespace rehearsal::job {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The checkpoints of a tier, or in storage, nearest first.
struct Kept {
  Scope survives = Scope::group;
  double stall = 0, save = 0, down = 0;
  std::int64_t pieces = 1;               // of the shortest interval, between checkpoints
  double safe = 0;                       // useful seconds
  double pending = 0, safe_at = kNever;  // a checkpoint being written
  std::int64_t safe_piece = 0, pending_piece = 0;
};

std::vector<Kept> kept_in(const Cycle& c) {
  std::vector<Kept> all;
  const double shortest = c.nearer.empty() ? c.interval : c.nearer.front().interval;
  const auto pieces = [&](double interval) { return std::int64_t(std::llround(interval / shortest)); };
  for (const auto& tier : c.nearer)
    all.push_back({tier.survives, tier.stall, tier.save, tier.down, pieces(tier.interval)});
  all.push_back({Scope::group, c.stall, c.save, c.down, c.nearer.empty() ? 1 : pieces(c.interval)});
  return all;
}

// One run. Times are wall-clock seconds since its start; `done` and `safe` are useful seconds.
class Run {
 public:
  Run(const Cycle& cycle, const Fleet& fleet, std::uint64_t seed)
      : c_(cycle),
        f_(fleet),
        random_(seed),
        kept_(kept_in(cycle)),
        interval_(cycle.nearer.empty() ? cycle.interval : cycle.nearer.front().interval) {}

  double failures = 0, lost = 0, waited = 0, slow = 0, shrunk = 0;

  double length() {
    failure_ = exponential(failures_of(f_)), draw_slow(0);
    while (kept_.back().safe < c_.work && now_ < kHopeless * c_.work) step();
    return now_;
  }

 private:
  enum class Phase : std::uint8_t { work, stall, down };

  // Uniform in [0, 1), the same on every machine.
  double uniform() { return double(random_() >> 11) * 0x1p-53; }
  double exponential(double rate) { return rate > 0 ? -std::log1p(-uniform()) / rate : kNever; }

  // Exponential times have no memory, so they can be redrawn at any moment.
  void draw_slow(double since) { slow_at_ = since + exponential(double(f_.nodes) * f_.slow_rate); }

  double speed() const {
    double speed = notice_ < kNever ? 1 / f_.slowdown : 1;
    if (missing_ > 0) speed *= double(f_.replicas - lost_replicas()) / double(f_.replicas);
    return speed;
  }
  std::int64_t lost_replicas() const {
    return static_cast<std::int64_t>(std::ceil(double(missing_) * f_.replicas_per_node - 1e-9));
  }

  // Advances to the next event: end of this phase, a checkpoint becomes safe, a failure, a node becomes slow or is
  // noticed, a node returns.
  void step() {
    const double target = std::min(c_.work, begun_ + interval_);
    const double work_end = phase_ == Phase::work && done_ < target ? now_ + (target - done_) / speed() : kNever;
    const double phase_end = phase_ == Phase::work ? work_end : phase_end_;
    const double back = missing_ > 0 && !away_.empty() && phase_ == Phase::work ? away_.front() : kNever;
    double next = std::min({phase_end, failure_, slow_at_, notice_, back});
    for (const auto& kept : kept_) next = std::min(next, kept.safe_at);
    pass(next);
    if (next == failure_) return fail();
    for (auto& kept : kept_)
      if (next == kept.safe_at) kept.safe = kept.pending, kept.safe_piece = kept.pending_piece, kept.safe_at = kNever;
    if (next == slow_at_) become_slow();
    if (next == notice_) return noticed();
    if (next == back && back < kNever) return planned_stop();
    if (next == phase_end) end_of_phase();
    if (phase_ == Phase::work && done_ >= target && kept_.back().safe < done_) begin_checkpoint();
  }

  void pass(double until) {
    const double spent = until - now_;
    if (phase_ == Phase::work) {
      const double target = std::min(c_.work, begun_ + interval_);
      done_ = std::min(target, done_ + spent * speed());
      if (target - done_ < 1e-9 * interval_) done_ = target;
    }
    if (notice_ < kNever) slow += spent;
    if (missing_ > 0) shrunk += spent;
    now_ = until;
  }

  // In a tier, and all that are nearer, once the one before is safe there.
  void begin_checkpoint() {
    std::size_t tiers = 1;
    while (tiers < kept_.size() && (done_ >= c_.work || (piece_ + 1) % kept_[tiers].pieces == 0)) ++tiers;
    double stall = 0;
    for (std::size_t i = 0; i < tiers; ++i) {
      if (kept_[i].safe_at < kNever) return;
      stall = std::max(stall, kept_[i].stall);
    }
    ++piece_;
    for (std::size_t i = 0; i < tiers; ++i) {
      auto& kept = kept_[i];
      kept.pending = done_, kept.pending_piece = piece_, kept.safe_at = now_ + std::max(kept.save, kept.stall);
    }
    phase_ = Phase::stall, phase_end_ = now_ + stall;
    begun_ = done_;
    skip(tiers, stall);
  }

  // Pieces of the nearest tiers, all alike, that nothing interrupts: there may be a million in a run.
  void skip(std::size_t tiers, double stall) {
    if (tiers == kept_.size() || kept_[tiers].pieces == 1 || kept_[tiers - 1].pieces > 1) return;
    if (notice_ < kNever || missing_ > 0) return;
    double period = stall + interval_;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (i >= tiers && kept_[i].safe_at < kNever) return;
      if (i < tiers) period = std::max(period, kept_[i].save);
    }
    const double calm = (std::min(failure_, slow_at_) - now_) / period, left = (c_.work - done_) / interval_;
    const auto alike = double(kept_[tiers].pieces - piece_ % kept_[tiers].pieces - 1);
    const double pieces = std::min(alike, std::floor(std::min(calm, left)) - 1);
    if (pieces < 1) return;
    now_ += pieces * period, phase_end_ += pieces * period, piece_ += std::int64_t(pieces);
    begun_ = done_ += pieces * interval_;
    for (std::size_t i = 0; i < tiers; ++i) {
      auto& kept = kept_[i];
      kept.safe = done_ - interval_, kept.safe_piece = piece_ - 1;
      kept.pending = done_, kept.pending_piece = piece_, kept.safe_at += pieces * period;
    }
  }

  void end_of_phase() {
    if (phase_ == Phase::work) return;  // its checkpoint starts, or waits for the previous one
    if (phase_ == Phase::down && restore_) {
      const auto& from = kept_[*restore_];
      done_ = begun_ = from.safe, piece_ = from.safe_piece;
      for (std::size_t i = 0; i < *restore_; ++i) kept_[i].safe = from.safe, kept_[i].safe_piece = from.safe_piece;
      restore_.reset();
    }
    phase_ = Phase::work;
  }

  // Times at which nodes under repair return, earliest first.
  void take_back() {
    while (!away_.empty() && away_.front() <= now_) {
      away_.erase(away_.begin());
      if (missing_ > 0)
        --missing_;
      else
        ++free_;
    }
  }

  void replace(std::int64_t lost_nodes, double& until) {
    if (f_.spares < 0) return;
    take_back();
    for (std::int64_t i = 0; i < lost_nodes; ++i)
      away_.insert(std::upper_bound(away_.begin(), away_.end(), now_ + f_.repair), now_ + f_.repair);
    const auto taken = std::min(free_, lost_nodes);
    free_ -= taken, missing_ += lost_nodes - taken;
    if (missing_ == 0) return;
    if (f_.replicas > 0 && lost_replicas() < f_.replicas) return;  // continues with fewer
    // Until all missing nodes have returned, or enough for one replica.
    const double before = until;
    while (missing_ > 0 && (f_.replicas == 0 || lost_replicas() >= f_.replicas)) {
      until = std::max(until, away_.front());
      away_.erase(away_.begin()), --missing_;
    }
    waited += until - before;
  }

  void go_down(double seconds, std::int64_t lost_nodes) {
    double ready = now_;
    replace(lost_nodes, ready);
    phase_ = Phase::down, phase_end_ = ready + seconds;
    failure_ = ready + exponential(failures_of(f_));  // no failures while waiting for a repair
  }

  Scope failing() {
    if (f_.group_nodes <= 0 && f_.process_share <= 0) return Scope::node;
    const double drawn = uniform() * failures_of(f_), of_nodes = double(f_.nodes) * f_.node_rate;
    if (drawn >= of_nodes) return Scope::group;
    return drawn < of_nodes * f_.process_share ? Scope::process : Scope::node;
  }

  void fail() {
    const auto scope = failing();
    ++failures;
    std::size_t tier = 0;
    while (kept_[tier].survives < scope) ++tier;
    if (phase_ == Phase::down && restore_) tier = std::max(tier, *restore_);
    lost += (phase_ == Phase::down && restore_ ? kept_[*restore_].safe : done_) - kept_[tier].safe;
    // What is being written goes on where the checkpoint it comes from is still there.
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (i <= tier || kept_[i].pending > kept_[tier].safe) kept_[i].safe_at = kNever;
    restore_ = tier;
    go_down(kept_[tier].down, scope == Scope::process ? 0
                              : scope == Scope::node  ? 1
                                                      : std::min(f_.group_nodes, f_.nodes));
  }

  // Further nodes that become slow before the first is noticed have no effect.
  void become_slow() {
    notice_ = now_ + f_.notice;
    draw_slow(now_);
    if (slow_at_ < notice_) draw_slow(notice_);
  }

  // Removes the slow node; costs only a checkpoint and a restart.
  void noticed() {
    notice_ = kNever;
    if (phase_ == Phase::down) return;
    stop_to_restart(1);
  }

  void planned_stop() {
    take_back();
    stop_to_restart(0);
  }

  void stop_to_restart(std::int64_t lost_nodes) {
    for (auto& kept : kept_) kept.safe = begun_ = done_, kept.safe_piece = piece_, kept.safe_at = kNever;
    go_down(c_.save + f_.restart, lost_nodes);
  }

  const Cycle& c_;
  const Fleet& f_;
  std::mt19937_64 random_;
  Phase phase_ = Phase::work;
  double now_ = 0, phase_end_ = kNever;
  std::vector<Kept> kept_;
  double interval_;                             // of the nearest checkpoints
  double done_ = 0, begun_ = 0;                 // begun_: start of this cycle's work,
  std::int64_t piece_ = 0;                      // and its number
  std::optional<std::size_t> restore_;          // after `down`: return to the safe state of this tier
  double failure_ = kNever, slow_at_ = kNever;  // times of the next
  double notice_ = kNever;                      // when the slow node is noticed
  std::int64_t free_ = f_.spares, missing_ = 0;
  std::vector<double> away_;  // return times of nodes, ascending
};

// Decorrelates neighbouring seeds (SplitMix64).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

double failures_of(const Fleet& f) {
  const double groups = f.group_nodes > 0 ? std::ceil(double(f.nodes) / double(f.group_nodes)) : 0;
  return double(f.nodes) * f.node_rate + groups * f.group_rate;
}

std::array<double, kScopes> failures_by_scope(const Fleet& f) {
  const double nodes = double(f.nodes) * f.node_rate, all = failures_of(f);
  return {nodes * f.process_share, nodes * (1 - f.process_share), all - nodes};
}

Simulated simulate(const Cycle& cycle, const Fleet& fleet, std::uint64_t seed, int runs) {
  Simulated all;
  all.runs = runs;
  std::vector<double> lengths;
  double squares = 0;
  for (int i = 0; i < runs; ++i) {
    Run run(cycle, fleet, mixed(seed ^ mixed(std::uint64_t(i))));
    const double length = run.length();
    lengths.push_back(length);
    all.mean += length / runs;
    all.failures += run.failures / runs, all.lost += run.lost / runs, all.waited += run.waited / runs;
    all.slow += run.slow / runs, all.shrunk += run.shrunk / runs;
  }
  for (const double length : lengths) squares += (length - all.mean) * (length - all.mean);
  all.error = runs > 1 ? std::sqrt(squares / (runs - 1) / runs) : kNever;
  std::sort(lengths.begin(), lengths.end());
  const auto quantile = [&](double q) { return lengths[std::size_t(std::lround(q * double(lengths.size() - 1)))]; };
  all.p5 = quantile(.05), all.p50 = quantile(.5), all.p95 = quantile(.95);
  return all;
}

}  // namespace rehearsal::job
