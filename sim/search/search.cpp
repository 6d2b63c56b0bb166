#include "search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include "answer/estimate.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "search/bounds.hpp"

namespace rehearsal::search {
namespace {

// What is known of an item: its key is a bound of all layouts below it, and exact from `timed` on.
enum class Step : std::uint8_t { family, order, bounded, timed, done };

struct Item {
  Time key;
  Layout layout;
  Step step = Step::family;
  std::uint64_t layouts = 1;  // below it
  double device = 0;          // bytes on the fullest GPU: from below, and of what is done exactly

  std::uint64_t settings = 0;  // of an order: which of those of its family, as bits

  // Fewest GPUs may come before time.
  std::int64_t gpus = 0;
  auto order() const { return std::tie(gpus, key, layout, step); }
};
struct Later {
  bool operator()(const Item& a, const Item& b) const { return a.order() > b.order(); }
};

// What comes of one item.
struct Result {
  std::vector<Item> items;
  Counts counts;
  std::vector<Outcome::Nearest> too_large;
};

class Search {
 public:
  Search(const Space& space, const Options& options) : space_(space), options_(options) {}

  Outcome run() {
    counts_.layouts = space_.layouts();
    if (go_on()) open_families();
    while (!queue_.empty() && found_.size() < options_.best) {
      if (queue_.top().step == Step::done) {
        found_.push_back(queue_.top()), queue_.pop();
        continue;
      }
      if (!go_on()) break;
      take(next_round());
    }
    const bool stopped = !queue_.empty() && found_.size() < options_.best;
    if (stopped && found_.empty()) dive();
    return finish(stopped);
  }

 private:
  static constexpr std::size_t kRound = 64, kSimulated = 8;  // items of a round, and graphs among them

  bool fewest_gpus() const { return space_.file().space.objective == scenario::PlanSpace::Objective::gpus; }
  bool go_on() const {
    if (!options_.go_on) return true;
    return options_.go_on(counts_, found_.empty() ? std::nullopt : std::optional(found_.front().key));
  }
  Item item(Step step, const Layout& layout, Time key, std::uint64_t layouts = 1) const {
    return {key, layout, step, layouts, 0, 0, fewest_gpus() ? space_.gpus(layout) : 0};
  }

  void open_families() {
    const auto& families = space_.families();
    constexpr std::size_t kAtOnce = 1024;
    for (std::size_t begin = 0; begin < families.size() && go_on(); begin += kAtOnce) {
      const auto count = std::min(kAtOnce, families.size() - begin);
      std::vector<Result> results(count);
      in_parallel(count, options_.threads, [&](std::size_t i) { open(families[begin + i], results[i]); });
      for (auto& result : results) merge(result);
      opened_ = begin + count;
    }
  }
  // A family by what is sharded and what leaves the device: memory first, which cuts most.
  void open(const Family& family, Result& result) const {
    const auto prices = family_prices(space_, family.layout);
    const double most = capacity(space_, family.layout);
    result.counts.stagings++;
    if (prices.floors.empty()) {
      result.counts.refused += family.layouts;
      return;
    }
    const auto orders = family.layouts / prices.floors.size();
    auto open = item(Step::family, family.layout, Time{}, 0);
    for (const auto& floor : prices.floors) {
      if (double(floor.device.count()) > most) {
        auto layout = family.layout;
        layout.zero = floor.setting.zero, layout.offload = floor.setting.offload;
        result.counts.cut_memory += orders;
        result.too_large.push_back({layout, double(floor.device.count()), most});
      } else {
        const double device = double(floor.device.count());
        open.key = open.layouts > 0 ? std::min(open.key, floor.iteration) : floor.iteration;
        open.device = open.layouts > 0 ? std::min(open.device, device) : device;
        open.layouts += orders;
      }
    }
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
    for (auto& item : result.items) queue_.push(std::move(item));
    counts_.priced += result.counts.priced, counts_.simulated += result.counts.simulated;
    counts_.cut_memory += result.counts.cut_memory, counts_.refused += result.counts.refused;
    counts_.stagings += result.counts.stagings, counts_.unfit += result.counts.unfit;
    for (const auto& near : result.too_large)
      if (!nearest_ || std::tuple(near.device - near.capacity, near.layout) <
                           std::tuple(nearest_->device - nearest_->capacity, nearest_->layout))
        nearest_ = near;
  }

  void expand(const Item& item, Result& result) const {
    switch (item.step) {
      case Step::family:
        return order(item, result);
      case Step::order:
        return price(item, result);
      default:
        return simulate(item, result);
    }
  }

  // By the orders of its pipeline, whose stages are sums of the same parts.
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
      // Settings that say nothing of the time share an item, as they share the passes.
      auto alike = item(Step::order, layout, passes, 0);
      for (std::size_t i = 0; i < prices.floors.size(); ++i) {
        const auto& floor = prices.floors[i];
        const double device = double(floor.device.count());
        if (device > most) continue;
        if (floor.iteration > passes) {
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

  // The walk of its passes tells how much it holds, and where no graph is needed how long it takes. No setting changes
  // the passes.
  void price(const Item& order, Result& result) const {
    auto plain = order.layout;
    plain.zero = 0;
    auto unsharded = space_.scenario(plain);
    unsharded.concrete->training.offload = {};
    const auto settings = space_.settings(order.layout);
    try {
      const auto staged = answer::stage(unsharded);
      result.counts.stagings++;
      const auto passes = answer::passes(unsharded, staged);
      for (std::size_t i = 0; i < settings.size(); ++i) {
        if (!(order.settings >> i & 1)) continue;
        auto layout = order.layout;
        layout.zero = settings[i].zero, layout.offload = settings[i].offload;
        price(order.key, layout, staged, passes, result);
      }
    } catch (const UserError&) {
      result.counts.refused += order.layouts;
    }
  }
  void price(Time key, const Layout& layout, const answer::Staged& unsharded, const schedule::Replay& passes,
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
      Item next = item(Step::timed, layout, Time{});
      next.device = device;
      if (const auto time = answer::with_step_ends(s, staged, passes)) {
        INVARIANT(key <= *time, "a bound is below what it bounds");
        result.counts.priced++;
        next.key = *time;
      } else {
        const Time end = *std::max_element(passes.end.begin(), passes.end.end());
        next.step = Step::bounded;
        next.key = std::max({key, end, passes_floor(s.schedule.schedule(), staged.problem, lanes(s, staged))});
      }
      result.items.push_back(next);
    } catch (const UserError&) {
      result.counts.refused++;
    }
  }

  // The memory that `run` would say; and the time, where only a graph can tell it.
  void simulate(const Item& timed, Result& result) const {
    result.counts.simulated++;
    const auto found = evaluate(space_, timed.layout);
    if (!found) {
      result.counts.refused += timed.step == Step::bounded;
      return;
    }
    if (timed.step == Step::bounded) result.counts.priced++;
    INVARIANT(timed.step == Step::bounded ? timed.key <= found->iteration : timed.key == found->iteration,
              "a bound is below what it bounds, and an exact time is that of the graph");
    if (const double most = capacity(space_, timed.layout); found->device > most) {
      result.counts.unfit++;
      result.too_large.push_back({timed.layout, found->device, most});
      return;
    }
    auto done = item(Step::done, timed.layout, found->iteration);
    done.device = found->device;
    result.items.push_back(done);
  }

  // Stopped before anything was known to fit: straight down from what leaves most of the memory to what its bound does
  // not count, in the order of their times, until one fits.
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
  // By what is known of its memory so far: states alone of a family and of an order.
  bool roomy(const Item& item) const {
    const double most = capacity(space_, item.layout);
    return item.device <= (item.step >= Step::bounded ? item.step == Step::done ? 1 : 0.8 : 0.4) * most;
  }

  Outcome finish(bool stopped) {
    Outcome outcome;
    if (stopped && !bound_ && !queue_.empty()) bound_ = queue_.top().key;
    // What is done but not yet the next of all is as good as any that is known.
    std::vector<Item> rest;
    std::uint64_t left = 0;
    for (; !queue_.empty(); queue_.pop()) {
      if (queue_.top().step == Step::done)
        rest.push_back(queue_.top());
      else if (queue_.top().step != Step::timed)
        left += queue_.top().layouts;
    }
    for (std::size_t i = opened_; i < space_.families().size(); ++i) left += space_.families()[i].layouts;
    counts_.cut_bound = left;
    outcome.counts = counts_;
    const auto to_found = [](const Item& item) { return Found{item.layout, item.key, item.device, {}}; };
    for (const auto& item : found_) outcome.found.push_back(to_found(item));
    for (const auto& item : rest) outcome.found.push_back(to_found(item));
    outcome.proven = !stopped || !found_.empty();
    outcome.stopped = stopped;
    if (!outcome.proven && !outcome.found.empty()) {
      const auto best = outcome.found.front().iteration;
      const Time bound = opened_ < space_.families().size() ? Time{} : bound_.value_or(Time{});
      outcome.gap = best > Time{} && bound < best ? 1 - bound / best : 0;
      outcome.proven = outcome.gap == 0;
    }
    const auto count = std::min(options_.best, outcome.found.size());
    outcome.top.assign(outcome.found.begin(), outcome.found.begin() + std::ptrdiff_t(count));
    if (outcome.top.empty() && !stopped) outcome.nearest = nearest();
    if (options_.full) predict(outcome.top);
    return outcome;
  }
  // A family that a bound has ruled out lacks more than its bound says: of its layouts the one that keeps least.
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

  void predict(std::vector<Found>& top) const {
    std::vector<Found> full(top.size());
    in_parallel(top.size(), options_.threads, [&](std::size_t i) {
      full[i] = top[i];
      std::vector<std::string> sets;
      for (const auto& [key, value] : space_.sets(top[i].layout)) sets.push_back(key + "=" + value);
      const auto& file = space_.file();
      auto all = file.sets;
      all.insert(all.end(), sets.begin(), sets.end());
      full[i].full = answer::predict(scenario::load(file.path, all)).brief();
    });
    top = std::move(full);
    std::stable_sort(top.begin(), top.end(), [](const Found& a, const Found& b) {
      const auto key = [](const Found& f) {
        return std::tuple(f.full.summary.fits == false, f.full.summary.iteration);
      };
      return key(a) < key(b);
    });
    if (fewest_gpus())
      std::stable_sort(top.begin(), top.end(),
                       [](const Found& a, const Found& b) { return a.full.summary.gpus < b.full.summary.gpus; });
  }

  const Space& space_;
  const Options& options_;
  std::priority_queue<Item, std::vector<Item>, Later> queue_;
  std::vector<Item> found_;
  Counts counts_;
  std::size_t opened_ = 0;
  std::optional<Outcome::Nearest> nearest_;
  std::optional<Time> bound_;  // of all that was open when the search was stopped
};

}  // namespace

double capacity(const Space& space, const Layout& layout) {
  const auto& file = space.file();
  return double(file.bases[layout.cluster].scenario.concrete->cluster.gpu.memory.count()) * (1 - file.space.margin);
}

std::vector<Found> front(const Space& space, const std::vector<Found>& found) {
  std::vector<Found> front;
  const auto key = [&](const Found& f) { return std::tuple(f.iteration, f.device, space.gpus(f.layout)); };
  for (const auto& one : found) {
    const bool beaten = std::any_of(found.begin(), found.end(), [&](const Found& other) {
      const auto [t, m, g] = key(other);
      const auto [time, memory, gpus] = key(one);
      const bool no_worse = t <= time && m <= memory && g <= gpus;
      return no_worse && (key(other) != key(one) || other.layout < one.layout);
    });
    if (!beaten) front.push_back(one);
  }
  return front;
}

std::optional<Found> evaluate(const Space& space, const Layout& layout) {
  try {
    const auto prediction =
        answer::predict(space.scenario(layout), {.summary = {.memory = true, .critical_path = false}});
    const auto& summary = prediction.summary;
    if (std::any_of(summary.tiers.begin(), summary.tiers.end(), [](const auto& t) { return t.fits == false; }))
      return std::nullopt;  // a host that is too small is no matter of bytes on the device
    return Found{layout, summary.iteration, *summary.peak.device, {}};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

Outcome search(const Space& space, const Options& options) { return Search(space, options).run(); }

}  // namespace rehearsal::search
