#include "search/best_first.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <tuple>

#include "answer/estimate.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/spread.hpp"
#include "search/bounds.hpp"
#include "search/refusals.hpp"

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

  std::uint64_t settings = 0;                    // of an order: bit mask over the settings of its family
  std::size_t kin = 0, first = 0;                // of kin: its index, and its first family that is not refused
  std::shared_ptr<const FamilyPrices> prices{};  // of a family
  std::shared_ptr<const Found> found{};          // set when done
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

// Of one cluster, or of all.
std::vector<Kin> kins_of(const Space& space, std::optional<std::size_t> only) {
  auto kins = space.kins();
  if (only) std::erase_if(kins, [&](const Kin& kin) { return space.cluster(kin.front()->layout) != *only; });
  return kins;
}

class Search {
 public:
  // `only`: of one cluster.
  Search(const Space& space, const Options& options, const Goal& goal, std::optional<std::size_t> only = {})
      : space_(space), options_(options), goal_(goal), kins_(spread(kins_of(space, only))), all_(!only) {}

  Outcome run() {
    for (const auto& kin : kins_)
      for (const auto* family : kin) counts_.layouts += family->layouts;
    open_kins();
    bool stopped = opened_ < kins_.size() || !space_.whole();
    while (!stopped) {
      for (; !queue_.empty() && queue_.top().step == Step::done; queue_.pop()) found_.push_back(*queue_.top().found);
      if (queue_.empty() || enough()) break;
      stopped = !go_on();
      if (!stopped) take(next_round());
    }
    if (stopped && found_.empty()) dive();
    places_ = std::min(found_.size(), options_.best);
    bool each = !stopped && all_ && space_.clusters() > 1;
    for (std::size_t c = 0; each && c < space_.clusters(); ++c) each = best_of(c);
    return finish(stopped, each);
  }

 private:
  static constexpr std::size_t kRound = 64, kSimulated = 8;  // items per round, and simulated graphs among them

  // The first `proven` results are proven; the rest are the best of those found on the way.
  bool enough() const { return found_.size() >= options_.proven && fits_ >= options_.best; }
  bool go_on() const {
    if (!options_.go_on) return true;
    Standing now{.counts = counts_, .kins = kins_.size(), .bounded_kins = opened_};
    now.bounded = opened_layouts_ - now.ruled_out() - counts_.priced;
    if (best_) now.best = best_->time;
    if (best_ && bounded()) now.gap = found_.empty() ? gap(*best_, queue_.top().key) : 0;
    return options_.go_on(now);
  }
  // Whether every layout has a bound.
  bool bounded() const { return opened_ == kins_.size() && space_.whole(); }
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

  // Goes on until the best of a cluster is known, if it has one; what is open of others waits. False: stopped.
  bool best_of(std::size_t cluster) {
    const auto in = [&](const Layout& layout) { return space_.cluster(layout) == cluster; };
    if (std::any_of(found_.begin(), found_.end(), [&](const Found& found) { return in(found.layout); })) return true;
    std::vector<Item> own, others;
    for (; !queue_.empty(); queue_.pop()) (in(queue_.top().layout) ? own : others).push_back(queue_.top());
    queue_ = decltype(queue_)(Later{}, std::move(own));
    bool goes_on = true;
    while (!queue_.empty() && queue_.top().step != Step::done && (goes_on = go_on())) take(next_round());
    for (auto& item : others) queue_.push(std::move(item));
    return goes_on;
  }

  // Always opens the first batch, so that a search that is stopped at once still has a result.
  void open_kins() {
    constexpr std::size_t kAtOnce = 64;
    for (std::size_t begin = 0; begin < kins_.size() && (go_on() || begin == 0); begin += kAtOnce) {
      const auto count = std::min(kAtOnce, kins_.size() - begin);
      std::vector<Result> results(count);
      in_parallel(count, options_.threads, [&](std::size_t i) { open_kin(begin + i, results[i]); });
      for (auto& result : results) merge(result);
      for (; opened_ < begin + count; ++opened_)
        for (const auto* family : kins_[opened_]) opened_layouts_ += family->layouts;
    }
  }
  // A micro-batch takes at least as long in the others as in the first, which therefore bounds them all: an item for
  // each size of the cluster.
  void open_kin(std::size_t which, Result& result) const {
    const Kin& families = kins_[which];
    for (std::size_t i = 0; i < families.size(); ++i) {
      const auto prices = family_compute(space_, families[i]->layout);
      result.counts.stagings++;
      if (!prices.refused.empty()) {
        result.refuse(families[i]->layout, families[i]->layouts, prices.refused);
        continue;
      }
      std::map<std::uint16_t, Item> sizes;
      for (; i < families.size(); ++i) {
        const auto& layout = families[i]->layout;
        const auto found = sizes.find(layout.base);
        auto& kin =
            found != sizes.end()
                ? found->second
                : sizes.emplace(layout.base, item(Step::kin, layout, compute_of(space_, layout, prices.each), 0))
                      .first->second;
        if (kin.layouts == 0) kin.kin = which, kin.first = i;
        kin.layouts += families[i]->layouts;
      }
      for (auto& [base, kin] : sizes)
        if (too_much(kin.layout, kin.key.time))
          result.counts.cut_limits += kin.layouts;
        else
          result.items.push_back(std::move(kin));
    }
  }
  void open(const Item& kin, Result& result) const {
    const Kin& families = kins_[kin.kin];
    for (std::size_t i = kin.first; i < families.size(); ++i)
      if (families[i]->layout.base == kin.layout.base) open(*families[i], kin.key.time, result);
  }
  // Splits a family by sharding and offloading: memory first, which eliminates most.
  void open(const Family& family, Time least, Result& result) const {
    const auto known = std::make_shared<const FamilyPrices>(family_prices(space_, family.layout));
    const auto& prices = *known;
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
    open.key = bound(family.layout, time), open.prices = known;
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
  static std::tuple<double, Layout> lacks(const Outcome::Nearest& near) {
    return {near.device - near.capacity, near.layout};
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
    for (const auto& near : result.too_large) {
      auto& nearest = nearest_.emplace(space_.cluster(near.layout), near).first->second;
      if (lacks(near) < lacks(nearest)) nearest = near;
    }
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
    const auto& prices = *family.prices;
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

  // `each`: the best of each cluster is known.
  Outcome finish(bool stopped, bool each) {
    Outcome outcome;
    if (stopped && !bound_ && !queue_.empty()) bound_ = queue_.top().key;
    outcome.stopped = stopped;
    outcome.places = places_;
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
    outcome.proven = (!stopped || outcome.places > 0) && space_.whole() && counts_.anomalies == 0;
    if (stopped && !outcome.proven && best_) {
      outcome.gap = gap(*best_, bounded() ? bound_.value_or(Key{}) : Key{});
      outcome.proven = outcome.gap == 0 && counts_.anomalies == 0;
    }
    const auto count = std::min(options_.best, outcome.found.size());
    outcome.top.assign(outcome.found.begin(), outcome.found.begin() + std::ptrdiff_t(count));
    for (std::size_t c = 0; each && c < space_.clusters(); ++c) {
      auto& of = outcome.clusters.emplace_back();
      const auto found = std::find_if(outcome.found.begin(), outcome.found.end(),
                                      [&](const Found& one) { return space_.cluster(one.layout) == c; });
      if (found != outcome.found.end())
        of.best = *found;
      else if (const auto near = nearest_.find(c); near != nearest_.end())
        of.nearest = exact(near->second);
    }
    if (outcome.top.empty() && !stopped)
      for (const auto& [cluster, near] : nearest_)
        if (const auto one = exact(near); !outcome.nearest || lacks(one) < lacks(*outcome.nearest))
          outcome.nearest = one;
    if (options_.predict) predict(outcome);
    return outcome;
  }
  // A family ruled out by a bound lacks more memory than the bound says: evaluates the layout with the least memory.
  Outcome::Nearest exact(const Outcome::Nearest& bound) const {
    auto near = bound;
    std::optional<Outcome::Nearest> least;
    for (const auto& setting : space_.settings(near.layout)) {
      near.layout.zero = setting.zero, near.layout.offload = setting.offload;
      const auto order = space_.orders(near.layout).front();
      near.layout.chunks = order.chunks, near.layout.schedule = order.schedule;
      const auto found = evaluate(space_, near.layout);
      if (found && (!least || found->device < least->device)) least = {near.layout, found->device, near.capacity};
    }
    return least.value_or(bound);
  }

  void predict(Outcome& outcome) const {
    std::vector<Found*> all;
    for (auto& found : outcome.top) all.push_back(&found);
    for (auto& of : outcome.clusters)
      if (of.best) all.push_back(&*of.best);
    in_parallel(all.size(), options_.threads, [&](std::size_t i) {
      auto sets = space_.file().sets;
      for (const auto& [key, value] : space_.sets(all[i]->layout)) sets.push_back(key + "=" + value);
      all[i]->full = answer::predict(scenario::load(space_.file().path, sets, {}, *space_.file().files)).brief();
    });
  }

  const Space& space_;
  const Options& options_;
  const Goal goal_;
  const std::vector<Kin> kins_;
  const bool all_;  // clusters
  std::priority_queue<Item, std::vector<Item>, Later> queue_;
  std::vector<Found> found_;
  std::size_t fits_ = 0;     // found, or finished and still in the queue
  std::optional<Key> best_;  // of those
  Counts counts_;
  std::size_t opened_ = 0;            // kins,
  std::uint64_t opened_layouts_ = 0;  // and the layouts in them
  std::size_t places_ = 0;
  std::map<std::size_t, Outcome::Nearest> nearest_;  // by cluster
  Refusals refusals_;
  std::optional<Key> bound_;  // of everything still open when the search was stopped
};

}  // namespace

Outcome best_first(const Space& space, const Options& options, const Goal& goal, std::optional<std::size_t> only) {
  return Search(space, options, goal, only).run();
}

}  // namespace rehearsal::search
