#include "search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <tuple>

#include "answer/estimate.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "search/bounds.hpp"

namespace rehearsal::search {
namespace {

// How far an item has been evaluated. Its key is a lower bound of all layouts below it; for `timed` it is exact without
// contention, for `done` it is the result of `run`.
enum class Step : std::uint8_t { kin, family, order, bounded, timed, done };

struct Item {
  Key key;
  Layout layout;
  Step step = Step::family;
  std::uint64_t layouts = 1;  // number of layouts below it
  double device = 0;          // lower bound of the bytes on the fullest GPU

  std::uint64_t settings = 0;            // of an order: bit mask over the settings of its family
  std::size_t kin = 0, first = 0;        // of kin: its index, and its first family that is not refused
  std::shared_ptr<const Found> found{};  // set when done
};
struct Later {
  bool operator()(const Item& a, const Item& b) const {
    if (a.key < b.key || b.key < a.key) return b.key < a.key;
    return std::tie(a.layout, a.step) > std::tie(b.layout, b.step);
  }
};

// The results of expanding one item.
struct Result {
  std::vector<Item> items;
  Counts counts;
  std::vector<Outcome::Nearest> too_large;
  std::vector<Refusal> refusals;

  void refuse(const Layout& layout, std::uint64_t layouts, const std::string& why) {
    counts.refused += layouts;
    refusals.push_back({layout, why, layouts});
  }
};

// Refusals grouped by rule: messages that differ only in numbers have the same rule.
class Refusals {
 public:
  void add(const Refusal& refusal) {
    std::string rule = refusal.why;
    std::erase_if(rule, [](char c) { return c >= '0' && c <= '9'; });
    auto& kept = by_rule_.emplace(rule, Refusal{refusal.layout, refusal.why, 0}).first->second;
    if (refusal.layout < kept.layout) kept.layout = refusal.layout, kept.why = refusal.why;
    kept.layouts += refusal.layouts;
  }
  std::vector<Refusal> sorted() const {
    std::vector<Refusal> all;
    for (const auto& [rule, refusal] : by_rule_) all.push_back(refusal);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.layouts > b.layouts; });
    return all;
  }

 private:
  std::map<std::string, Refusal> by_rule_;
};

// Reorders to sample the whole space early, so that a search that is stopped here has seen every region: steps by the
// golden section, made coprime to the number of items so that each is visited exactly once.
std::vector<Kin> spread(std::vector<Kin> kins) {
  const auto count = kins.size();
  auto step = std::max<std::size_t>(1, std::size_t(double(count) * 0.618));
  while (std::gcd(step, count) > 1) ++step;
  std::vector<Kin> all;
  for (std::size_t i = 0, at = 0; i < count; ++i, at = (at + step) % count) all.push_back(std::move(kins[at]));
  return all;
}

class Search {
 public:
  Search(const Space& space, const Options& options, const Goal& goal)
      : space_(space), options_(options), goal_(goal), kins_(spread(space.kins())) {}

  Outcome run() {
    counts_.layouts = space_.layouts();
    open_kins();
    bool stopped = opened_ < kins_.size();
    while (!stopped) {
      for (; !queue_.empty() && queue_.top().step == Step::done; queue_.pop()) found_.push_back(*queue_.top().found);
      if (queue_.empty() || enough()) break;
      stopped = !go_on();
      if (!stopped) take(next_round());
    }
    if (stopped && found_.empty()) dive();
    return finish(stopped);
  }

 private:
  static constexpr std::size_t kRound = 64, kSimulated = 8;  // items per round, and simulated graphs among them

  // The first `proven` results are proven; the rest are the best of those found on the way.
  bool enough() const { return found_.size() >= options_.proven && fits_ >= options_.best; }
  bool go_on() const {
    if (!options_.go_on) return true;
    return options_.go_on(counts_, best_ ? std::optional(best_->time) : std::nullopt);
  }
  // The key of an iteration of at least this length.
  Key bound(const Layout& layout, Time time) const {
    return key_of(goal_, space_.gpus(layout), time, space_.runs().least(layout.base, time));
  }
  bool too_much(const Layout& layout, Time time) const {
    return goal_.limited() && !goal_.met_by(space_.runs().least(layout.base, time));
  }
  Item item(Step step, const Layout& layout, Time time, std::uint64_t layouts = 1) const {
    return {bound(layout, time), layout, step, layouts};
  }

  // Always opens the first batch, so that a search that is stopped at once still has a result.
  void open_kins() {
    constexpr std::size_t kAtOnce = 64;
    for (std::size_t begin = 0; begin < kins_.size() && (go_on() || begin == 0); begin += kAtOnce) {
      const auto count = std::min(kAtOnce, kins_.size() - begin);
      std::vector<Result> results(count);
      in_parallel(count, options_.threads, [&](std::size_t i) { open_kin(begin + i, results[i]); });
      for (auto& result : results) merge(result);
      opened_ = begin + count;
    }
  }
  // Computation takes at least as long in the others as in the first, which therefore bounds them all.
  void open_kin(std::size_t which, Result& result) const {
    const Kin& families = kins_[which];
    for (std::size_t i = 0; i < families.size(); ++i) {
      const auto prices = family_compute(space_, families[i]->layout);
      result.counts.stagings++;
      if (!prices.refused.empty()) {
        result.refuse(families[i]->layout, families[i]->layouts, prices.refused);
        continue;
      }
      auto kin = item(Step::kin, families[i]->layout, prices.compute, 0);
      kin.kin = which, kin.first = i;
      for (; i < families.size(); ++i) kin.layouts += families[i]->layouts;
      if (too_much(kin.layout, prices.compute))
        result.counts.cut_limits += kin.layouts;
      else
        result.items.push_back(kin);
    }
  }
  void open(const Item& kin, Result& result) const {
    const Kin& families = kins_[kin.kin];
    for (std::size_t i = kin.first; i < families.size(); ++i) open(*families[i], kin.key.time, result);
  }
  // Splits a family by sharding and offloading: memory first, which eliminates most.
  void open(const Family& family, Time least, Result& result) const {
    const auto prices = family_prices(space_, family.layout);
    const double most = capacity(space_, family.layout);
    result.counts.stagings++;
    if (prices.floors.empty()) return result.refuse(family.layout, family.layouts, prices.refused);
    result.counts.anomalies += prices.compute < least;
    const auto orders = family.layouts / prices.floors.size();
    auto open = item(Step::family, family.layout, Time{}, 0);
    Time time;
    for (const auto& floor : prices.floors) {
      const double device = double(floor.device.count());
      if (device > most) {
        auto layout = family.layout;
        layout.zero = floor.setting.zero, layout.offload = floor.setting.offload;
        result.counts.cut_memory += orders;
        result.too_large.push_back({layout, device, most});
      } else if (too_much(family.layout, floor.iteration)) {
        result.counts.cut_limits += orders;
      } else {
        time = open.layouts > 0 ? std::min(time, floor.iteration) : floor.iteration;
        open.device = open.layouts > 0 ? std::min(open.device, device) : device;
        open.layouts += orders;
      }
    }
    open.key = bound(family.layout, time);
    if (open.layouts > 0) result.items.push_back(open);
  }

  std::vector<Item> next_round() {
    std::vector<Item> round;
    std::size_t graphs = 0;
    while (!queue_.empty() && round.size() < kRound && graphs < kSimulated) {
      if (queue_.top().step == Step::done) break;
      round.push_back(queue_.top()), queue_.pop();
      graphs += round.back().step >= Step::bounded;
    }
    return round;
  }
  void take(const std::vector<Item>& round) {
    std::vector<Result> results(round.size());
    in_parallel(round.size(), options_.threads, [&](std::size_t i) { expand(round[i], results[i]); });
    for (auto& result : results) merge(result);
  }
  void merge(Result& result) {
    for (auto& item : result.items) {
      if (item.step == Step::done) {
        ++fits_;
        if (!best_ || item.key < *best_) best_ = item.key;
      }
      queue_.push(std::move(item));
    }
    counts_.priced += result.counts.priced, counts_.simulated += result.counts.simulated;
    counts_.cut_memory += result.counts.cut_memory, counts_.refused += result.counts.refused;
    counts_.stagings += result.counts.stagings, counts_.unfit += result.counts.unfit;
    counts_.anomalies += result.counts.anomalies;
    counts_.cut_limits += result.counts.cut_limits, counts_.missed += result.counts.missed;
    for (const auto& refusal : result.refusals) refusals_.add(refusal);
    for (const auto& near : result.too_large)
      if (!nearest_ || std::tuple(near.device - near.capacity, near.layout) <
                           std::tuple(nearest_->device - nearest_->capacity, nearest_->layout))
        nearest_ = near;
  }

  void expand(const Item& item, Result& result) const {
    switch (item.step) {
      case Step::kin:
        return open(item, result);
      case Step::family:
        return order(item, result);
      case Step::order:
        return price(item, result);
      default:
        return simulate(item, result);
    }
  }

  // Splits a family by pipeline orders, whose stages are sums of the same parts.
  void order(const Item& family, Result& result) const {
    const auto prices = family_prices(space_, family.layout);
    result.counts.stagings++;
    const double most = capacity(space_, family.layout);
    for (const auto& order : space_.orders(family.layout)) {
      auto layout = family.layout;
      layout.chunks = order.chunks, layout.schedule = order.schedule;
      const auto& schedule = schedule::registry().at(space_.schedules()[order.schedule]);
      const auto problem = stages_of(prices, space_.scenario(layout));
      const Time passes = problem ? passes_floor(schedule, *problem, {}) : Time{};
      // Settings that do not raise the bound share an item, as they share the passes.
      auto alike = item(Step::order, layout, passes, 0);
      for (std::size_t i = 0; i < prices.floors.size(); ++i) {
        const auto& floor = prices.floors[i];
        const double device = double(floor.device.count());
        if (device > most || too_much(layout, floor.iteration)) continue;
        if (too_much(layout, passes)) {
          result.counts.cut_limits++;
        } else if (floor.iteration > passes) {
          auto alone = item(Step::order, layout, floor.iteration);
          alone.settings = std::uint64_t{1} << i, alone.device = device;
          result.items.push_back(alone);
        } else {
          alike.device = alike.layouts > 0 ? std::min(alike.device, device) : device;
          alike.settings |= std::uint64_t{1} << i, alike.layouts++;
        }
      }
      if (alike.layouts > 0) result.items.push_back(alike);
    }
  }

  // The walk of the passes gives the memory and, if no graph is needed, the time. The passes do not depend on the
  // setting.
  void price(const Item& order, Result& result) const {
    const auto settings = space_.settings(order.layout);
    try {
      const auto unsharded = space_.scenario(order.layout);
      const auto staged = stage_plain(unsharded, [&] { return settings; });
      result.counts.stagings++;
      const auto passes = answer::passes(unsharded, staged);
      for (std::size_t i = 0; i < settings.size(); ++i) {
        if (!(order.settings >> i & 1)) continue;
        auto layout = order.layout;
        layout.zero = settings[i].zero, layout.offload = settings[i].offload;
        price(order.key.time, layout, staged, passes, result);
      }
    } catch (const UserError& error) {
      result.refuse(order.layout, order.layouts, said(error));
    }
  }
  void price(Time least, const Layout& layout, const answer::StageCosts& unsharded, const schedule::Replay& passes,
             Result& result) const {
    const auto s = space_.scenario(layout);
    const double device = double(device_floor(s, unsharded, passes).count()), most = capacity(space_, layout);
    if (device > most) {
      result.counts.cut_memory++;
      result.too_large.push_back({layout, device, most});
      return;
    }
    try {
      auto staged = answer::stage(s);
      result.counts.stagings++;
      auto time = answer::with_step_ends(s, staged, passes);
      result.counts.anomalies += time && *time < least;
      const bool exact = time.has_value();
      if (!time) {
        const Time end = *std::max_element(passes.end.begin(), passes.end.end());
        time = std::max({least, end, passes_floor(s.schedule.schedule(), staged.problem, lanes(s, staged))});
      }
      auto next = item(exact ? Step::timed : Step::bounded, layout, *time);
      next.device = device;
      result.counts.priced += exact && !too_much(layout, *time);
      if (too_much(layout, *time))
        result.counts.cut_limits++;
      else
        result.items.push_back(next);
    } catch (const UserError& error) {
      result.refuse(layout, 1, said(error));
    }
  }

  // As `run` does. Contention can only lengthen the step: each work lasts at least as long as alone, and starts when
  // its predecessors have ended.
  void simulate(const Item& bound, Result& result) const {
    result.counts.simulated++;
    const bool priced = bound.step == Step::timed;
    std::string why;
    auto found = evaluate(space_, bound.layout, &why);
    if (!found) {
      result.counts.priced -= priced;  // wraps around, which cancels in the sum
      return result.refuse(bound.layout, 1, why);
    }
    result.counts.priced += !priced;
    auto done = item(Step::done, bound.layout, found->step);
    done.key = key_of(goal_, space_.gpus(bound.layout), found->step, found->run);
    result.counts.anomalies += done.key < bound.key;
    if (!goal_.met_by(found->run)) {
      result.counts.missed++;
    } else if (const double most = capacity(space_, bound.layout); found->device > most) {
      result.counts.unfit++;
      result.too_large.push_back({bound.layout, found->device, most});
    } else {
      done.found = std::make_shared<const Found>(std::move(*found));
      result.items.push_back(done);
    }
  }

  // Stopped before any layout was known to fit: depth first, in order of time, from items whose bound leaves most of
  // the memory free for what the bound does not count, until a layout fits.
  void dive() {
    if (queue_.empty()) return;
    bound_ = queue_.top().key;
    constexpr int kTries = 1000;
    std::vector<Item> open;
    for (; !queue_.empty(); queue_.pop()) open.push_back(queue_.top());
    bool fits = std::any_of(open.begin(), open.end(), [](const Item& item) { return item.step == Step::done; });
    int tries = 0;
    for (auto& item : open) {
      if (fits || tries >= kTries || !roomy(item)) {
        queue_.push(std::move(item));
        continue;
      }
      ++tries;
      for (std::optional<Item> down = std::move(item); down;) {
        Result result;
        expand(*down, result);
        down.reset();
        std::sort(result.items.begin(), result.items.end(), [](const Item& a, const Item& b) { return Later{}(b, a); });
        const auto next =
            std::find_if(result.items.begin(), result.items.end(), [&](const Item& i) { return roomy(i); });
        if (next != result.items.end() && next->step != Step::done) down = *next, result.items.erase(next);
        for (const auto& one : result.items) fits = fits || one.step == Step::done;
        merge(result);
      }
    }
  }
  // By the memory known so far: for a family or an order, only model states.
  bool roomy(const Item& item) const {
    const double most = capacity(space_, item.layout);
    return item.device <= (item.step >= Step::bounded ? item.step == Step::done ? 1 : 0.8 : 0.4) * most;
  }

  Outcome finish(bool stopped) {
    Outcome outcome;
    if (stopped && !bound_ && !queue_.empty()) bound_ = queue_.top().key;
    outcome.stopped = stopped;
    outcome.places = std::min(found_.size(), options_.best);
    // Finished items that are not yet proven next are still among the best known.
    std::uint64_t left = 0;
    for (; !queue_.empty(); queue_.pop()) {
      if (queue_.top().step == Step::done)
        found_.push_back(*queue_.top().found);
      else if (queue_.top().step != Step::timed)
        left += queue_.top().layouts;
    }
    for (std::size_t i = opened_; i < kins_.size(); ++i)
      for (const auto* family : kins_[i]) left += family->layouts;
    counts_.cut_bound = left;
    outcome.counts = counts_;
    outcome.refusals = refusals_.sorted();
    outcome.found = std::move(found_);
    outcome.proven = (!stopped || outcome.places > 0) && counts_.anomalies == 0;
    if (stopped && !outcome.proven && best_) {
      outcome.gap = gap(*best_, opened_ < kins_.size() ? Key{} : bound_.value_or(Key{}));
      outcome.proven = outcome.gap == 0 && counts_.anomalies == 0;
    }
    const auto count = std::min(options_.best, outcome.found.size());
    outcome.top.assign(outcome.found.begin(), outcome.found.begin() + std::ptrdiff_t(count));
    if (outcome.top.empty() && !stopped) outcome.nearest = nearest();
    if (options_.predict) predict(outcome);
    return outcome;
  }
  // A family ruled out by a bound lacks more memory than the bound says: evaluates the layout with the least memory.
  std::optional<Outcome::Nearest> nearest() const {
    if (!nearest_) return std::nullopt;
    auto near = *nearest_;
    std::optional<Outcome::Nearest> least;
    for (const auto& setting : space_.settings(near.layout)) {
      near.layout.zero = setting.zero, near.layout.offload = setting.offload;
      const auto order = space_.orders(near.layout).front();
      near.layout.chunks = order.chunks, near.layout.schedule = order.schedule;
      const auto found = evaluate(space_, near.layout);
      if (found && (!least || found->device < least->device)) least = {near.layout, found->device, near.capacity};
    }
    return least ? least : nearest_;
  }

  void predict(Outcome& outcome) const {
    auto& top = outcome.top;
    in_parallel(top.size(), options_.threads, [&](std::size_t i) {
      auto all = space_.file().sets;
      for (const auto& [key, value] : space_.sets(top[i].layout)) all.push_back(key + "=" + value);
      top[i].full = answer::predict(scenario::load(space_.file().path, all, {}, *space_.file().files)).brief();
    });
  }

  const Space& space_;
  const Options& options_;
  const Goal goal_;
  const std::vector<Kin> kins_;
  std::priority_queue<Item, std::vector<Item>, Later> queue_;
  std::vector<Found> found_;
  std::size_t fits_ = 0;     // found, or finished and still in the queue
  std::optional<Key> best_;  // of those
  Counts counts_;
  std::size_t opened_ = 0;
  std::optional<Outcome::Nearest> nearest_;
  Refusals refusals_;
  std::optional<Key> bound_;  // of everything still open when the search was stopped
};

}  // namespace

Outcome search(const Space& space, const Options& options) {
  const auto goal = goal_of(space.file().space);
  auto outcome = Search(space, options, goal).run();
  if (!goal.limited() || outcome.stopped || !outcome.top.empty()) return outcome;
  // Which limit cannot be met, and by how much: the cheapest layout in time, the fastest, or the cheapest of all.
  auto other = options;
  other.best = 1;
  std::vector<Goal> relaxed;
  if (goal.deadline_days && goal.budget) relaxed.push_back({Goal::Order::cost, goal.deadline_days, {}});
  relaxed.push_back({goal.deadline_days ? Goal::Order::days : Goal::Order::cost, {}, {}});
  for (const auto& instead : relaxed) {
    auto without = Search(space, other, instead).run();
    outcome.nearest = without.nearest;
    if (without.top.empty()) continue;
    outcome.closest = std::move(without.top.front());
    break;
  }
  return outcome;
}

}  // namespace rehearsal::search
