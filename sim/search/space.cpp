#include "search/space.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "plan/rules.hpp"

namespace rehearsal::search {

using models::Recompute;
using scenario::PlanSpace;

namespace {

constexpr std::size_t kMostOffloads = 16;  // with four levels of ZeRO as many settings as a word has bits

using Degrees = std::vector<std::int64_t>;

Degrees divisors(std::int64_t n, std::int64_t most) {
  Degrees all;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

// Those of a list that divide, or all that do.
Degrees degrees(const PlanSpace::Degrees& given, std::int64_t n, std::int64_t most) {
  if (!given) return divisors(n, most);
  Degrees all = *given;
  std::erase_if(all, [&](std::int64_t d) { return d > most || n % d != 0; });
  return all;
}

// Rules cost nothing to find out; searches do, and what never flushes, cuts sequences or trains two copies at once is
// another kind of training. They may be asked for by name.
std::vector<std::string> usual_schedules() {
  std::vector<std::string> names;
  for (const auto& name : schedule::registry().names()) {
    const auto& s = schedule::registry().at(name);
    if (s.order && !s.plan && s.updates == schedule::Updates::at_flush && !s.cuts_sequences &&
        s.placement != schedule::Placement::bidirectional)
      names.push_back(name);
  }
  return names;
}

}  // namespace

// Goes through the degrees from the outside to the inside, and remembers what the last refusal was for.
class Space::Builder {
 public:
  explicit Builder(Space& space) : space_(space), choice_(space.file_.space) {}

  void build() {
    for (std::size_t i = 0; i < space_.file_.bases.size(); ++i) {
      layout_ = {}, layout_.cluster = std::uint16_t(i);
      cut(space_.file_.bases[i].scenario);
    }
    if (space_.families_.empty())
      throw UserError(fmt::format("{}: no layout is left to choose from: {}", space_.file_.bases.front().scenario.file,
                                  reason_.empty() ? "the keys of 'plan' allow none" : reason_));
  }

 private:
  // The deeper a layout got before it was refused, the more its reason says.
  void refuse(int depth, const std::string& why) {
    if (depth >= depth_) depth_ = depth, reason_ = why;
  }
  template <class Values, class Member, class Next>
  void each(int depth, const char* key, const Values& values, Member Layout::*member, const Next& next) {
    if (values.empty()) refuse(depth, fmt::format("plan.{} has no value that divides", key));
    for (const auto value : values) layout_.*member = static_cast<Member>(value), next();
  }

  void cut(const scenario::Scenario& base) {
    const auto gpus = base.parallelism.gpus();
    const auto& model = base.concrete->model;
    const auto stages = model.layers + (model.family == models::Family::mlp ? 0 : 2);
    each(1, "tensor", degrees(choice_.tensor, gpus, model.heads), &Layout::tensor, [&] {
      const auto rest = gpus / layout_.tensor;
      each(2, "context", degrees(choice_.context, rest, base.batch.sequence), &Layout::context, [&] {
        each(3, "pipeline", degrees(choice_.pipeline, rest / layout_.context, stages), &Layout::pipeline, [&] {
          const auto data = rest / layout_.context / layout_.pipeline;
          if (choice_.data && std::find(choice_.data->begin(), choice_.data->end(), data) == choice_.data->end())
            return refuse(4, fmt::format("plan.data does not list {}, which tensor {} x context {} x pipeline {} "
                                         "leave of {} GPUs",
                                         data, layout_.tensor, layout_.context, layout_.pipeline, gpus));
          if (base.batch.global % data != 0)
            return refuse(5, fmt::format("batch.global {} does not divide over data {}", base.batch.global, data));
          layout_.data = static_cast<std::int32_t>(data);
          fold(base);
        });
      });
    });
  }

  void fold(const scenario::Scenario& base) {
    const auto& model = base.concrete->model;
    const Degrees none{1};
    const auto group = std::int64_t{layout_.tensor} * layout_.context * layout_.data;
    const auto experts = model.is_moe()   ? degrees(choice_.expert, model.experts, group)
                         : choice_.expert ? *choice_.expert
                                          : none;
    const auto sequences = base.batch.global / layout_.data;
    const std::vector<bool> either = layout_.tensor > 1 ? std::vector{false, true} : std::vector{false};
    const std::vector<Recompute> all{Recompute::none, Recompute::selective, Recompute::full};
    each(6, "expert", experts, &Layout::expert, [&] {
      each(7, "sequence", choice_.sequence.value_or(either), &Layout::sequence, [&] {
        if (layout_.sequence && layout_.tensor == 1) return refuse(7, "plan.sequence needs tensor parallelism");
        each(8, "recompute", choice_.recompute.value_or(all), &Layout::recompute, [&] {
          each(9, "micro", degrees(choice_.micro, sequences, sequences), &Layout::micro, [&] { add(base); });
        });
      });
    });
  }

  void add(const scenario::Scenario& base) {
    const auto& c = *base.concrete;
    const auto s = space_.scenario(layout_);
    for (const auto& broken :
         {plan::broken_by_degrees(c.model, s.concrete->training, c.experts, s.parallelism),
          plan::broken_by_sequence(c.model, s.concrete->training, c.experts, s.parallelism, s.batch, 1)})
      if (!broken.empty()) return refuse(10, broken.front().rule);
    auto& orders = space_.orders_;
    const auto key = std::pair<std::int64_t, std::int64_t>(layout_.pipeline, s.microbatches);
    auto found = orders.find(key);
    if (found == orders.end()) found = orders.emplace(key, space_.find_orders(layout_)).first;
    if (found->second.empty())
      return refuse(11, fmt::format("none of plan.schedules and plan.chunks takes pipeline {} with {} micro-batches",
                                    key.first, key.second));
    const auto settings = space_.settings(layout_);
    if (settings.empty()) return refuse(12, "no value of plan.zero goes with any of plan.offload");
    const auto layouts = std::uint64_t{found->second.size()} * settings.size();
    space_.families_.push_back({layout_, layouts});
    space_.layouts_ += layouts;
  }

  Space& space_;
  const PlanSpace& choice_;
  Layout layout_;
  int depth_ = 0;
  std::string reason_;
};

Space::Space(scenario::PlanFile file) : file_(std::move(file)), runs_(file_) {
  schedules_ = file_.space.schedules.value_or(usual_schedules());
  for (const auto& name : schedules_) {
    const auto& s = schedule::registry().at(name);
    if (s.cuts_sequences || s.updates != schedule::Updates::at_flush)
      throw UserError(fmt::format("plan.schedules: '{}' {}, and is not searched; leave it out", name,
                                  s.cuts_sequences ? "cuts sequences, whose pieces have prices of their own"
                                                   : "never flushes, and trains with old weights"));
  }
  if (file_.space.offload.size() > kMostOffloads)
    throw UserError(
        fmt::format("plan.offload lists {} mappings, at most {}", file_.space.offload.size(), kMostOffloads));
  Builder(*this).build();
}

// Tensor and context groups stand where they stand, whoever their neighbours are. Experts do not: their groups reach
// over replicas, and so their prices may change with them.
std::vector<Kin> Space::kins() const {
  std::vector<Kin> kins;
  std::map<Layout, std::size_t> known;
  for (const auto& family : families_) {
    auto alike = family.layout;
    const auto& scenario = base(alike);
    if (!scenario.concrete->model.is_moe() && scenario.placement == plan::kUsualOrder) alike.pipeline = alike.data = 1;
    const auto [place, fresh] = known.emplace(alike, kins.size());
    if (fresh) kins.emplace_back();
    kins[place->second].push_back(&family);
  }
  return kins;
}

// Without a pipeline all schedules are one.
std::vector<Order> Space::find_orders(const Layout& of) const {
  const auto& model = base(of).concrete->model;
  const auto m = microbatches(of);
  std::vector<std::int64_t> chunks;
  if (file_.space.chunks) {
    chunks = *file_.space.chunks;
  } else {
    for (std::int64_t v = 1; v * of.pipeline <= model.layers + 2; ++v)
      if (v == 1 || model.layers % (v * of.pipeline) == 0 || (model.layers + 2) % (v * of.pipeline) == 0)
        chunks.push_back(v);
  }
  std::vector<Order> orders;
  for (std::uint16_t i = 0; i < schedules_.size(); ++i) {
    const auto& schedule = schedule::registry().at(schedules_[i]);
    const bool both_ways = schedule.placement == schedule::Placement::bidirectional;
    for (const auto v : both_ways ? std::vector<std::int64_t>{2} : chunks) {
      if (v < schedule.min_chunks || v > schedule.max_chunks || (of.pipeline == 1 && v > 1)) continue;
      if (of.pipeline * v / (both_ways ? 2 : 1) > model.layers + 2) continue;
      if (v == 1 && of.pipeline > 1 && !schedule.one_chunk.empty()) continue;  // another schedule
      const Time any{1'000'000};
      const auto problem = schedule::uniform_problem(std::uint32_t(of.pipeline), std::uint32_t(m), std::uint32_t(v),
                                                     any, any, any, Time{});
      try {
        schedule::check(schedule, problem);
      } catch (const UserError&) {
        continue;
      }
      orders.push_back({std::int32_t(v), i});
    }
    if (of.pipeline == 1 && !orders.empty()) break;
  }
  return orders;
}

std::vector<Order> Space::orders(const Layout& of) const { return orders_.at({of.pipeline, microbatches(of)}); }

std::vector<Setting> Space::settings(const Layout& of) const {
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  const bool replicated = of.data * of.context > 1;
  std::vector<Setting> settings;
  for (const auto zero : file_.space.zero.value_or(all)) {
    if (!replicated && zero != 0 && !file_.space.zero) continue;  // shares nothing
    for (std::size_t o = 0; o < file_.space.offload.size(); ++o) {
      auto layout = of;
      layout.zero = std::uint8_t(zero), layout.offload = std::uint16_t(o);
      const auto s = scenario(layout);
      const auto& c = *s.concrete;
      if (plan::broken_by_offload(c.model, c.training, c.software, s.parallelism, c.cluster.host).empty())
        settings.push_back({layout.zero, layout.offload});
    }
  }
  return settings;
}

scenario::Scenario Space::scenario(const Layout& layout) const {
  auto s = base(layout);
  s.job.reset();
  auto& p = s.parallelism;
  p.tensor = layout.tensor, p.sequence = layout.sequence, p.context = layout.context;
  p.pipeline = layout.pipeline, p.chunks = layout.chunks, p.data = layout.data;
  p.expert = layout.expert, p.zero = layout.zero;
  s.batch.micro = layout.micro;
  s.microbatches = microbatches(layout);
  s.schedule.name = schedules_[layout.schedule];
  s.concrete->training.recompute = layout.recompute;
  s.concrete->training.offload = file_.space.offload[layout.offload].states;
  s.simulate.detail = graph::Detail::stage;  // every detail takes the same time
  s.simulate.network = scenario::Network::closed_form;
  return s;
}

std::vector<std::pair<std::string, std::string>> Space::sets(const Layout& layout) const {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const auto& size : file_.bases[layout.cluster].sets) {
    const auto equals = size.find('=');
    sets.emplace_back(size.substr(0, equals), size.substr(equals + 1));
  }
  const auto degree = [&](const char* key, auto value) {
    sets.emplace_back(fmt::format("parallelism.{}", key), fmt::format("{}", value));
  };
  degree("tensor", layout.tensor), degree("sequence", layout.sequence), degree("context", layout.context);
  degree("pipeline", layout.pipeline), degree("chunks", layout.chunks), degree("data", layout.data);
  degree("expert", layout.expert), degree("zero", layout.zero);
  sets.emplace_back("batch.micro", fmt::format("{}", layout.micro));
  sets.emplace_back("schedule", schedules_[layout.schedule]);
  sets.emplace_back("training.recompute", scenario::name(layout.recompute));
  if (const auto& offload = file_.space.offload[layout.offload].text; !offload.empty())
    sets.emplace_back("training.offload", offload);
  return sets;
}

}  // namespace rehearsal::search
