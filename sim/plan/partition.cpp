#include "plan/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/wide.hpp"

namespace rehearsal::plan {
namespace {

[[noreturn]] void refuse_stages(std::int64_t layers, std::int64_t stages) {
  throw UserError(
      fmt::format("{} layers cannot be dealt to {} stages: with the embedding and the head there are {} parts; use at "
                  "most {} stages (pipeline x chunks)",
                  layers, stages, layers + 2, layers + 2));
}

std::vector<std::int64_t> uniform(std::int64_t layers, std::int64_t stages, std::vector<std::string>& warnings) {
  const auto n = static_cast<std::size_t>(stages);
  if (layers % stages == 0) return std::vector<std::int64_t>(n, layers / stages);
  if (layers + 2 < stages) refuse_stages(layers, stages);
  if (stages > 1 && (layers + 2) % stages == 0) {
    std::vector<std::int64_t> part(n, (layers + 2) / stages);
    part.front()--, part.back()--;
    return part;
  }
  std::vector<std::int64_t> part(n, layers / stages);
  const std::int64_t extra = layers % stages, first = (stages - extra) / 2;
  for (std::int64_t s = first; s < first + extra; s++) part[static_cast<std::size_t>(s)]++;
  warnings.push_back(fmt::format(
      "{} layers do not divide over {} stages: {} of them hold one layer more than the others", layers, stages, extra));
  return part;
}

// Dynamic programming over the stages from the last to the first: the best way to assign the remaining layers.
class Balance {
 public:
  Balance(const PartTimes& times, std::int64_t stages)
      : times_(times), stages_(stages), layers_(std::int64_t(times.layers.size()) - 1) {}

  std::vector<std::int64_t> deal() const {
    // First the best time of the slowest stage, then the most even partition with that time.
    const Wide slowest = best([](Wide rest, Wide stage) { return std::max(rest, stage); }, kNever);
    if (slowest == kNever) refuse_stages(layers_, stages_);
    std::vector<std::vector<Wide>> squares;
    best([](Wide rest, Wide stage) { return rest + stage * stage; }, slowest, &squares);
    std::vector<std::int64_t> part;
    std::int64_t left = layers_;
    for (std::int64_t s = 0; s < stages_; s++) {  // the first choice that leads to the optimum
      std::int64_t n = 0;
      const auto costs = [&] {
        const Wide time = stage(s, n), rest = squares[std::size_t(s) + 1][std::size_t(left - n)];
        return !allowed(s, n) || time > slowest || rest == kNever ? kNever : rest + time * time;
      };
      while (costs() != squares[std::size_t(s)][std::size_t(left)]) n++;
      part.push_back(n);
      left -= n;
    }
    return part;
  }

 private:
  static constexpr Wide kNever = Wide{1} << 126;

  bool allowed(std::int64_t s, std::int64_t n) const {
    return n > 0 || (s == 0 && times_.first_may_be_empty) || (s > 0 && s + 1 == stages_);
  }
  Wide stage(std::int64_t s, std::int64_t n) const {
    const auto& layers = times_.of_stage.empty() ? times_.layers : times_.of_stage[std::size_t(s)];
    Time time = layers[std::size_t(n)];
    if (s == 0) time += times_.embedding;
    if (s + 1 == stages_) time += times_.head;
    return time.count();
  }
  // Cost of the best way to assign all layers; `all`: [s][n] that of assigning n layers to the stages from s on.
  template <class Add>
  Wide best(Add add, Wide limit, std::vector<std::vector<Wide>>* all = nullptr) const {
    std::vector<Wide> after(std::size_t(layers_) + 1, kNever);
    after[0] = 0;
    if (all) all->assign(std::size_t(stages_) + 1, after);
    for (std::int64_t s = stages_; s-- > 0;) {
      std::vector<Wide> here(after.size(), kNever);
      for (std::int64_t left = 0; left <= layers_; left++)
        for (std::int64_t n = 0; n <= left; n++) {
          const Wide time = stage(s, n), rest = after[std::size_t(left - n)];
          if (time > limit) break;  // more layers take longer
          if (allowed(s, n) && rest != kNever)
            here[std::size_t(left)] = std::min(here[std::size_t(left)], add(rest, time));
        }
      after = std::move(here);
      if (all) (*all)[std::size_t(s)] = after;
    }
    return after.back();
  }

  const PartTimes& times_;
  std::int64_t stages_, layers_;
};

}  // namespace

std::vector<std::int64_t> deal_balanced(const PartTimes& times, std::int64_t stages) {
  INVARIANT(!times.layers.empty() && stages > 0, "there are stages, and a time for no layer");
  INVARIANT(times.of_stage.empty() || std::int64_t(times.of_stage.size()) == stages, "times of every stage");
  for (const auto& of : times.of_stage) INVARIANT(of.size() == times.layers.size(), "as many layers in every stage");
  return Balance(times, stages).deal();
}

std::vector<std::int64_t> deal_layers(std::int64_t layers, std::int64_t stages, const Partition& partition,
                                      std::vector<std::string>& warnings, std::int64_t after) {
  INVARIANT(partition.kind != Partition::Kind::balanced, "balanced layers are dealt where stage times are known");
  if (partition.kind == Partition::Kind::uniform) {
    auto part = uniform(layers + after, stages, warnings);
    if (part.back() < after) return uniform(layers, stages, warnings);
    part.back() -= after;
    return part;
  }
  const auto& list = partition.layers;
  if (static_cast<std::int64_t>(list.size()) != stages)
    throw UserError(fmt::format("partition lists {} stages, but pipeline x chunks = {}", list.size(), stages));
  // An end that counts as a layer takes a place in its stage's entry.
  auto part = list;
  if (partition.embedding == Ends::layer) part.front()--;
  if (partition.head == Ends::layer) part.back()--;
  const auto sum = std::accumulate(part.begin(), part.end(), std::int64_t{0});
  if (sum != layers) throw UserError(fmt::format("partition deals {} layers, but the model has {}", sum, layers));
  for (std::size_t s = 0; s < part.size(); s++)
    if (part[s] < 0 || (part[s] == 0 && s != 0 && s + 1 != part.size()))
      throw UserError(
          fmt::format("partition gives stage {} {} layers; only the first and last stage may be empty", s, part[s]));
  return part;
}

}  // namespace rehearsal::plan
