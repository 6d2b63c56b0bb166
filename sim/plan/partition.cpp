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
    if (part[s] < 0) throw UserError(fmt::format("partition gives stage {} {} layers; give at least 0", s, part[s]));
  return part;
}

std::vector<Stage> deal_stages(const models::Transformer& model, std::int64_t stages, const Partition& partition,
                               std::vector<std::string>& warnings) {
  std::vector<Stage> all;
  if (partition.layout.empty()) {
    for (const auto layers : deal_layers(model.layers, stages, partition, warnings, model.mtp_layers))
      all.push_back({.layers = layers});
    all.front().embedding = all.back().head = true;
    all.back().predictions = model.mtp_layers;
  } else {
    all = stages_of_layout(partition.layout);
    if (std::int64_t(all.size()) != stages)
      throw UserError(fmt::format("partition.layout has {} stages, but pipeline x chunks = {}", all.size(), stages));
    std::int64_t layers = 0, modules = 0, losses = 0;
    for (const auto& stage : all)
      layers += stage.layers, modules += stage.bodies + stage.predictions, losses += stage.losses;
    if (layers != model.layers || modules != model.mtp_layers)
      throw UserError(
          fmt::format("partition.layout has {} t and {} m, but the model has {} layers and {} modules of "
                      "multi-token prediction",
                      layers, modules, model.layers, model.mtp_layers));
  }
  std::int64_t first = 0;
  for (auto& stage : all) stage.first = first, first += stage.layers;
  return all;
}

namespace {

// Written out: every repetition, and a letter or | for each place.
class Layout {
 public:
  explicit Layout(const std::string& text) : text_(text) {}

  std::string letters() {
    auto all = some(0);
    if (at_ < text_.size()) refuse("')' closes nothing");
    return all;
  }

 private:
  static constexpr std::size_t kMost = 1'000'000;

  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError(fmt::format(
        "partition.layout '{}': {} at character {}; E, t, m and L, | between stages, x*n and (..)*n to repeat", text_,
        why, at_ + 1));
  }
  std::string some(int depth) {
    std::string all;
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_];
      if (c == ' ' || c == ',') {
        at_++;
        continue;
      }
      std::string one(1, c);
      if (c == '(') {
        if (depth == 20) refuse("'(' stands too deep");
        at_++, one = some(depth + 1);
        if (at_ == text_.size()) refuse("')' is missing");
      } else if (std::string("EtmL|").find(c) == std::string::npos) {
        refuse(fmt::format("'{}' is no part of a model", c));
      }
      at_++;
      for (auto times = repeats(); times > 0; times--) {
        all += one;
        if (all.size() > kMost) refuse("too many parts");
      }
    }
    return all;
  }
  std::size_t repeats() {
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    std::size_t times = 0;
    const auto first = ++at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; at_++)
      if (times = 10 * times + std::size_t(text_[at_] - '0'); times > kMost) refuse("too many parts");
    if (at_ == first) refuse("a number is missing behind '*'");
    return times;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Stage> stages_of_layout(const std::string& layout) {
  const auto refuse = [&](const char* why) { throw UserError(fmt::format("partition.layout '{}': {}", layout, why)); };
  std::vector<Stage> all(1);
  const std::string kOrder = "EtmL";
  std::int64_t embeddings = 0, losses = 0, modules = 0;
  char last = 'E';
  for (const char c : Layout(layout).letters()) {
    auto& stage = all.back();
    if (c == '|') {
      all.emplace_back();
      continue;
    }
    if (kOrder.find(c) < kOrder.find(last)) refuse("parts follow each other as in the model: E, then t, m and L");
    last = c;
    if (c == 'E') stage.embedding = true, embeddings++;
    if (c == 't') stage.layers++;
    if (c == 'm') stage.bodies++, modules++;
    if (c == 'L') stage.losses++, losses++;
  }
  if (embeddings != 1 || !all.front().embedding) refuse("E stands once, in the first stage");
  if (losses != 1 && losses != 1 + modules) refuse("L stands once, for all losses, or once for each m and once more");
  const auto first = std::find_if(all.begin(), all.end(), [](const Stage& stage) { return stage.losses > 0; });
  first->head = true;
  if (losses > 1) {
    first->losses--;
    return all;
  }
  first->predictions = first->bodies, first->losses = modules - first->bodies, first->bodies = 0;
  return all;
}

}  // namespace rehearsal::plan
