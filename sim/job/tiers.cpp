// Runs whose checkpoints are also kept in memory, nearer than the storage: how long they take, and how often to write.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "job/goodput.hpp"

namespace rehearsal::job {
namespace {

// A tier, or the storage, as the run meets it.
struct Level {
  double interval = 0, stall = 0, save = 0, down = 0, failures = 0;
  std::int64_t pieces = 1;  // of the nearest tier's interval, from one checkpoint to the next
};

std::vector<Level> levels_of(const Cycle& c) {
  std::vector<Level> all;
  double others = c.failures;
  for (const auto& tier : c.nearer) {
    all.push_back({tier.interval, tier.stall, tier.save, tier.down, tier.failures});
    others -= tier.failures;
  }
  all.push_back({c.interval, c.stall, c.save, c.down, std::max(0., others)});
  if (all.front().interval <= 0) return all;  // not chosen yet
  for (auto& level : all)
    level.pieces = std::max(std::int64_t{1}, std::int64_t(std::llround(level.interval / all.front().interval)));
  return all;
}

// Work in pieces of the nearest tier's interval, each with a checkpoint at its start, one after the other: the expected
// time of each until the next one begins for the first time. A failure goes back to an earlier piece, whose time is
// known by then, so all follow from linear equations of two unknowns: the time of a piece, and the time when its
// checkpoint is there already, since a failure led back to it.
class Pieces {
 public:
  explicit Pieces(const std::vector<Level>& levels) : levels_(levels), rate_(0) {
    for (const auto& level : levels_) rate_ += level.failures;
    last_.resize(levels_.size()), older_.resize(levels_.size());
    recover();
  }

  double seconds() const { return sum_.back(); }

  // `level`: the farthest that the checkpoint at its start goes to; `next`: of the one at its end, which waits until
  // the last of the same level is safe. The first piece starts from a safe state.
  void add(std::size_t level, double work, std::size_t next) {
    const auto here = known_.size();
    const double now = clock_;
    double stall = 0;
    for (std::size_t l = 0; l <= level && here > 0; ++l) {
      older_[l] = last_[l], last_[l] = here;
      stall = std::max(stall, levels_[l].stall);
    }
    began_.push_back(now);
    double length = stall + work;
    for (std::size_t l = 0; l <= next; ++l)
      if (last_[l] > 0) length = std::max(length, levels_[l].save - (now - began_[last_[l]]));
    clock_ += length;
    solve(here, level, length, work);
  }

 private:
  // The sum of a time and of shares of the two unknowns of a piece.
  struct Equation {
    double time = 0, whole = 0, known = 0;
  };
  double fails(double within) const { return -std::expm1(-rate_ * within); }
  // Until the first failure, or the end.
  double until(double length) const { return rate_ > 0 ? fails(length) / rate_ : length; }

  // After a failure further ones may come before the run is back, which then goes back to the farthest tier of them
  // all. weight_[l]: the share of failures after which that is tier l; down_: the mean time until the run is back.
  void recover() {
    const auto n = levels_.size();
    weight_.assign(n, 0), down_ = 0;
    if (rate_ <= 0) return;
    std::vector<double> time(n);
    std::vector<std::vector<double>> to(n, std::vector<double>(n));
    for (std::size_t k = n; k-- > 0;) {
      const double again = fails(levels_[k].down);
      double stays = 0, farther = 0;
      for (std::size_t j = 0; j <= k; ++j) stays += levels_[j].failures / rate_;
      for (std::size_t j = k + 1; j < n; ++j) farther += levels_[j].failures / rate_ * time[j];
      const double leaves = 1 - again * stays;
      time[k] = (again / rate_ + again * farther) / leaves;
      to[k][k] = (1 - again) / leaves;
      for (std::size_t j = k + 1; j < n; ++j)
        for (std::size_t m = j; m < n; ++m) to[k][m] += again * levels_[j].failures / rate_ * to[j][m] / leaves;
    }
    for (std::size_t k = 0; k < n; ++k) {
      down_ += levels_[k].failures / rate_ * time[k];
      for (std::size_t m = k; m < n; ++m) weight_[m] += levels_[k].failures / rate_ * to[k][m];
    }
  }

  // Back from `here` to the checkpoint of piece `from`, with this probability.
  void back(Equation& to, double probability, std::size_t from, std::size_t here) const {
    if (from == here) {
      to.known += probability;
    } else {
      to.time += probability * (known_[from] + sum_[here] - sum_[from + 1]);
      to.whole += probability;
    }
  }

  void solve(std::size_t here, std::size_t level, double length, double work) {
    Equation whole{until(length) + fails(length) * down_}, known{until(work) + fails(work) * down_};
    for (std::size_t m = 0; m < levels_.size(); ++m) {
      // The newest checkpoint of this tier is safe only from here on; before, a failure takes the older one.
      const double late = last_[m] == 0 ? 0 : std::max(0., levels_[m].save - (began_[here] - began_[last_[m]]));
      const auto meet = [&](Equation& equation, double span, double from) {
        const double early = fails(std::min(from, span));
        back(equation, weight_[m] * early, older_[m], here);
        back(equation, weight_[m] * (fails(span) - early), last_[m], here);
      };
      meet(whole, length, late);
      if (m <= level || here == 0)
        known.known += weight_[m] * fails(work);
      else
        meet(known, work, late);
    }
    const double self = 1 - known.known;
    const double time =
        (whole.time + whole.known * known.time / self) / (1 - whole.whole - whole.known * known.whole / self);
    known_.push_back((known.time + known.whole * time) / self);
    sum_.push_back(sum_.back() + (here == 0 ? known_.back() : time));
  }

  const std::vector<Level>& levels_;
  double rate_, clock_ = 0, down_ = 0;
  std::vector<double> weight_;
  std::vector<std::size_t> last_, older_;  // pieces with the newest checkpoint of each tier, and with the one before
  std::vector<double> began_, known_, sum_{0};
};

// The farthest tier that the checkpoint before this piece goes to.
std::size_t farthest(const std::vector<Level>& levels, std::int64_t piece) {
  std::size_t level = 0;
  while (level + 1 < levels.size() && piece % levels[level + 1].pieces == 0) ++level;
  return level;
}

constexpr double kSteady = 1e-13;

// Wall-clock seconds of a run of these pieces. Once a round, from one checkpoint in storage to the next, takes as long
// as the one before, all do but the last.
double length_of(const std::vector<Level>& levels, double work) {
  const double piece = std::min(levels.front().interval, work);
  const auto pieces = static_cast<std::int64_t>(std::ceil(work / piece - 1e-9)), round = levels.back().pieces;
  const auto end = levels.size() - 1;
  Pieces run(levels);
  double skipped = 0, before = 0, last_round = 0;
  std::int64_t i = 0;
  const auto add = [&](double seconds) {
    run.add(farthest(levels, i), seconds, i + 1 < pieces ? farthest(levels, i + 1) : end);
    ++i;
  };
  while (i + 1 < pieces) {
    add(piece);
    if (i % round != 0) continue;
    const double took = run.seconds() - before;
    before = run.seconds();
    const auto left = (pieces - 1 - i) / round - 1;
    if (left > 0 && std::abs(took - last_round) <= kSteady * took) i += left * round, skipped += double(left) * took;
    last_round = took;
  }
  add(work - double(pieces - 1) * piece);
  run.add(end, 0, end);  // the last checkpoint, with nothing behind it
  const double all = run.seconds() + skipped;
  return std::isfinite(all) ? all : std::numeric_limits<double>::infinity();
}

constexpr std::int64_t kMostPieces = 1000;  // checkpoints of a tier for one of the next

// First-order optimum of a tier by itself (Young's; each of several tiers has its own, Di et al., IEEE TPDS 28 (2017)).
double first_order(const Level& level, double work) {
  return level.failures > 0 ? std::sqrt(2 * std::max(level.stall, 1e-3) / level.failures) : work;
}

// Of a cycle of these tiers, all of them kept.
Cycle chosen(Cycle cycle, double step) {
  const auto levels = levels_of(cycle);
  std::vector<std::int64_t> multiples{1};
  double interval = 0;
  for (const auto& level : levels) {
    const double wanted = level.interval > 0 ? level.interval : std::min(first_order(level, cycle.work), cycle.work);
    if (interval > 0)
      multiples.push_back(std::clamp(std::int64_t(std::llround(wanted / interval)), std::int64_t{1}, kMostPieces));
    interval = interval > 0 ? interval * double(multiples.back()) : wanted;
  }
  const auto at = [&](double piece) {
    auto other = cycle;
    double longer = std::max(1., std::round(piece / step)) * step;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      const double fits = std::max(1., std::round(levels[l].interval / longer));  // of a given interval
      if (l > 0) longer *= levels[l].interval > 0 ? fits : double(multiples[l]);
      (l < cycle.nearer.size() ? other.nearer[l].interval : other.interval) = longer;
    }
    return other;
  };
  const double given = levels.front().interval;
  auto best = at(given > 0 ? given : std::min(first_order(levels.front(), cycle.work), cycle.work));
  if (given > 0) return best;
  // Better intervals of the same multiples: steps that grow smaller.
  double least = expected(best);
  for (double factor = 2; factor > 1.01; factor = std::sqrt(factor))
    for (const double by : {factor, 1 / factor})
      for (bool better = true; better;) {
        auto other = at(best.nearer.front().interval * by);
        const double length = expected(other);
        better = length < least;
        if (better) best = std::move(other), least = length;
      }
  return best;
}

}  // namespace

double expected_in_tiers(const Cycle& cycle) { return cycle.work > 0 ? length_of(levels_of(cycle), cycle.work) : 0; }

Cycle with_intervals(const Cycle& cycle, double step) {
  const auto free = [](const NearTier& tier) { return tier.interval <= 0; };
  std::optional<Cycle> best;
  double least = 0;
  for (unsigned left_out = 0; left_out < 1U << cycle.nearer.size(); ++left_out) {
    Cycle some = cycle;
    some.nearer.clear();
    bool allowed = true;
    double passed_on = 0;  // what a tier that is left out would survive, the next has to
    for (std::size_t l = 0; l < cycle.nearer.size(); ++l) {
      auto tier = cycle.nearer[l];
      tier.failures += passed_on, passed_on = 0;
      if (left_out >> l & 1U)
        passed_on = tier.failures, allowed = allowed && free(cycle.nearer[l]);
      else
        some.nearer.push_back(tier);
    }
    if (!allowed) continue;
    if (some.nearer.empty()) {
      const double wanted = some.interval > 0 ? some.interval : best_interval(some);
      some.interval = std::max(1., std::round(wanted / step)) * step;
    } else {
      some = chosen(std::move(some), step);
    }
    const double length = expected(some);
    if (!best || length < least) best = std::move(some), least = length;
  }
  return *best;
}

// Failures come at any moment of a round alike.
double lost_work(const Cycle& cycle, std::size_t tier) {
  const auto levels = levels_of(cycle);
  const auto& of = levels.at(tier);
  const double piece = levels.front().interval;
  const auto round = levels.back().pieces;
  std::vector<double> began(levels.size());
  double clock = 0, done = 0, before = 0, safe = 0, lost = 0, counted = 0;
  for (std::int64_t i = 0; i < 2 * round; ++i) {  // of the first round only what it leaves to the second counts
    if (i % of.pieces == 0) before = safe, safe = done;
    double stall = 0;
    for (std::size_t l = 0; l <= farthest(levels, i); ++l) began[l] = clock, stall = std::max(stall, levels[l].stall);
    double length = stall + piece;
    for (std::size_t l = 0; l <= farthest(levels, i + 1); ++l)
      length = std::max(length, levels[l].save - (clock - began[l]));
    if (i >= round) {
      const double late = std::clamp(of.save - (clock - began[tier]), 0., length);
      lost += done * length + piece * piece / 2 + piece * (length - stall - piece);
      lost -= before * late + safe * (length - late);
      counted += length;
    }
    clock += length, done += piece;
  }
  return lost / counted;
}

}  // namespace rehearsal::job
