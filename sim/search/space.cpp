#include "search/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/spread.hpp"
#include "base/stopping.hpp"
#include "plan/rules.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::search {

using models::Recompute;
using scenario::PlanSpace;

namespace {

constexpr std::size_t kMostOffloads = 16;  // with four ZeRO levels, as many settings as a word has bits

using Degrees = std::vector<std::int64_t>;

// Without a pipeline, schedules differ only in the program of the single rank, and many have the same one.
struct Program {
  std::vector<schedule::Action> actions;
  bool splits_backward = false;
  friend bool operator==(const Program&, const Program&) = default;
};
Program program_of(const schedule::Schedule& schedule, const schedule::Problem& problem) {
  Program program{{}, schedule.splits_backward};
  for (auto order = schedule.order(problem, 0); order.next();) program.actions.push_back(order.value());
  return program;
}

// Divisors among the given list, or all divisors.
Degrees degrees(const PlanSpace::Degrees& given, std::int64_t n, std::int64_t most) {
  if (!given) return scenario::divisors(n, most);
  Degrees all = *given;
  std::erase_if(all, [&](std::int64_t d) { return d > most || n % d != 0; });
  return all;
}

// The default schedules. Left out are those found by a search, which are slow to compute, and those that train
// differently: without flush, with cut sequences or with two copies of the model. They can be requested by name.
std::vector<std::string> usual_schedules() {
  std::vector<std::string> names;
  for (const auto& name : schedule::registry().names()) {
    const auto& s = schedule::registry().at(name);
    if (s.order && !s.plan && s.updates == schedule::Updates::at_flush && !s.cuts_sequences &&
        s.placement != schedule::Placement::bidirectional && s.placement != schedule::Placement::vocabulary)
      names.push_back(name);
  }
  return names;
}

// One choice of a layout: a key of the file, its field, and the value.
struct Choice {
  const char* key;
  const fields::Field* field;
  fields::Value (*value)(const Space& space, const Layout& layout);
};
const std::vector<Choice>& choices() {
  using L = const Layout&;
  using S = const Space&;
  using Whole = std::int64_t;
  static const auto choice = [](const char* key, fields::Value (*value)(S, L), const char* field = nullptr) {
    return Choice{key, &scenario::scenario_fields().at(field ? field : key), value};
  };
  static const std::vector<Choice> all{
      choice("parallelism.tensor", [](S, L l) { return fields::Value(Whole{l.tensor}); }),
      choice("parallelism.sequence", [](S, L l) { return fields::Value(l.sequence); }),
      choice("parallelism.context", [](S, L l) { return fields::Value(Whole{l.context}); }),
      choice("parallelism.pipeline", [](S, L l) { return fields::Value(Whole{l.pipeline}); }),
      choice("parallelism.chunks", [](S, L l) { return fields::Value(Whole{l.chunks}); }),
      choice("parallelism.data", [](S, L l) { return fields::Value(Whole{l.data}); }),
      choice("parallelism.expert", [](S, L l) { return fields::Value(Whole{l.expert}); }),
      choice("parallelism.zero", [](S, L l) { return fields::Value(Whole{l.zero}); }),
      choice("batch.micro", [](S, L l) { return fields::Value(Whole{l.micro}); }),
      choice(
          "schedule", [](S s, L l) { return fields::Value(s.schedules()[l.schedule]); }, "schedule.name"),
      choice(
          "training.recompute", [](S, L l) { return fields::Value(std::string(scenario::name(l.recompute))); },
          "training.recompute.mode")};
  return all;
}

// A scenario of the base of this layout, made one of the layout.
void lay_out(const Space& space, const Layout& layout, scenario::Scenario& s) {
  for (const auto& choice : choices()) choice.field->set(&s, choice.value(space, layout));
  s.concrete->training.offload = space.file().space.offload[layout.offload].states;
}

// Of a family, tried in a scenario of its base.
std::vector<Setting> settings_of(const Space& space, const Layout& of, scenario::Scenario& s) {
  const auto& plan = space.file().space;
  const auto& support = space.file().bases[of.base].support;
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  const bool replicated = of.data * of.context > 1;
  std::vector<Setting> settings;
  for (const auto zero : plan.zero.value_or(all)) {
    if (!replicated && zero != 0 && !plan.zero) continue;  // there are no replicas to shard over
    if (!support.has_zero(zero, of.pipeline > 1)) continue;
    for (std::size_t o = 0; o < plan.offload.size(); ++o) {
      const auto& states = plan.offload[o].states;
      const bool alone = of.pipeline == 1 && of.recompute == Recompute::none;
      if (!support.has(states) || (!alone && support.needs_alone(states))) continue;
      auto layout = of;
      layout.zero = std::uint8_t(zero), layout.offload = std::uint16_t(o);
      lay_out(space, layout, s);
      const auto& c = *s.concrete;
      if (plan::broken_by_offload(c.model, c.training, c.framework, s.parallelism, c.cluster.host).empty())
        settings.push_back({layout.zero, layout.offload});
    }
  }
  return settings;
}

}  // namespace

// Enumerates the degrees from outermost to innermost, and remembers the most specific refusal.
class Space::Builder {
 public:
  explicit Builder(Space& space) : space_(space), choice_(space.file_.space) {}

  void build() {
    std::vector<std::size_t> bases(space_.file_.bases.size());
    std::iota(bases.begin(), bases.end(), 0);
    for (const auto i : spread(std::move(bases))) {
      // Between bases: part of one would be its smallest degrees, of which nothing may fit.
      if (!space_.families_.empty() && asked_to_stop()) {
        space_.whole_ = false;
        break;
      }
      layout_ = {}, layout_.base = std::uint16_t(i), support_ = &space_.file_.bases[i].support;
      framework_ = space_.file_.bases[i].scenario.concrete->framework.name;
      scratch_ = space_.scenario(layout_);
      cut(space_.file_.bases[i].scenario);
    }
    std::stable_sort(space_.families_.begin(), space_.families_.end(),
                     [](const Family& a, const Family& b) { return a.layout.base < b.layout.base; });
    if (space_.families_.empty())
      throw UserError(fmt::format("{}: no layout is left to choose from: {}", space_.file_.bases.front().scenario.file,
                                  reason_.empty() ? "the keys of 'plan' allow none" : reason_));
  }

 private:
  // The deeper a layout got before it was refused, the more specific the reason.
  void refuse(int depth, const std::string& why) {
    if (depth >= depth_) depth_ = depth, reason_ = why;
  }
  // `has`: whether the framework supports a value; always true for `idle`, which requests nothing.
  template <class Values, class Member, class Next>
  void each(int depth, const char* key, const Values& values, Member Layout::*member, bool has, Member idle,
            const Next& next) {
    if (values.empty()) refuse(depth, fmt::format("plan.{} has no value that divides", key));
    for (const auto value : values) {
      layout_.*member = static_cast<Member>(value);
      if (has || layout_.*member == idle)
        next();
      else
        refuse(depth, fmt::format("plan.{} lists what framework {} has not", key, framework_));
    }
  }

  void cut(const scenario::Scenario& base) {
    const auto gpus = base.parallelism.gpus();
    const auto& model = base.concrete->model;
    const auto stages = model.layers + (model.family == models::Family::mlp ? 0 : 2);
    each(1, "tensor", degrees(choice_.tensor, gpus, model.heads), &Layout::tensor, support_->tensor, 1, [&] {
      const auto rest = gpus / layout_.tensor;
      const bool has = support_->has_context(base.concrete->training.context);
      each(2, "context", degrees(choice_.context, rest, base.batch.sequence), &Layout::context, has, 1, [&] {
        each(3, "pipeline", degrees(choice_.pipeline, rest / layout_.context, stages), &Layout::pipeline,
             support_->pipeline, 1, [&] {
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
    each(6, "expert", experts, &Layout::expert, true, 1, [&] {
      each(7, "sequence", choice_.sequence.value_or(either), &Layout::sequence, support_->sequence, false, [&] {
        if (layout_.sequence && layout_.tensor == 1) return refuse(7, "plan.sequence needs tensor parallelism");
        each(8, "recompute", choice_.recompute.value_or(all), &Layout::recompute, true, Recompute::none, [&] {
          if (!support_->has(layout_.recompute))
            return refuse(8, fmt::format("plan.recompute lists what framework {} has not", framework_));
          each(9, "micro", degrees(choice_.micro, sequences, sequences), &Layout::micro, true, 1, [&] { add(base); });
        });
      });
    });
  }

  void add(const scenario::Scenario& base) {
    const auto& c = *base.concrete;
    auto& s = scratch_;
    lay_out(space_, layout_, s);
    for (const auto& broken :
         {plan::broken_by_degrees(c.model, s.concrete->training, c.experts, s.parallelism),
          plan::broken_by_sequence(c.model, s.concrete->training, c.experts, s.parallelism, s.batch, 1)})
      if (!broken.empty()) return refuse(10, broken.front().rule);
    auto& orders = space_.orders_;
    const Shape key{layout_.base, layout_.pipeline, s.microbatches()};
    auto found = orders.find(key);
    if (found == orders.end()) found = orders.emplace(key, space_.find_orders(layout_)).first;
    if (found->second.empty())
      return refuse(11, fmt::format("none of plan.schedules and plan.chunks takes pipeline {} with {} micro-batches",
                                    layout_.pipeline, s.microbatches()));
    const auto settings = settings_of(space_, layout_, s);
    if (settings.empty())
      return refuse(12, fmt::format("no value of plan.zero goes with any of plan.offload in framework {} with "
                                    "pipeline {} and recompute {}",
                                    framework_, layout_.pipeline, scenario::name(layout_.recompute)));
    const auto layouts = std::uint64_t{found->second.size()} * settings.size();
    space_.families_.push_back({layout_, layouts});
    space_.layouts_ += layouts;
  }

  Space& space_;
  const PlanSpace& choice_;
  Layout layout_;
  scenario::Scenario scratch_;  // of the base of `layout_`; a copy for each family would take half of the time
  const scenario::Support* support_ = nullptr;
  std::string framework_;
  int depth_ = 0;
  std::string reason_;
};

Space::Space(scenario::PlanFile file) : file_(std::move(file)), runs_(file_), whole_(file_.unread == 0) {
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

// Tensor and context groups have the same placement in every family of a kin, and inside a node on every size of the
// cluster. Expert groups do not: they span replicas, so their prices may differ.
std::vector<Kin> Space::kins() const {
  // The smallest size of the same cluster, in nodes with as many GPUs, with the same framework.
  std::vector<std::uint16_t> smallest;
  std::map<std::tuple<std::size_t, std::string, std::int64_t>, std::uint16_t> first;
  for (const auto& base : file_.bases) {
    const auto framework = base.sets.empty() || !base.sets.back().starts_with("framework=") ? "" : base.sets.back();
    const auto place = std::tuple(base.cluster, framework, base.scenario.concrete->cluster.gpus_per_node);
    smallest.push_back(first.emplace(place, std::uint16_t(smallest.size())).first->second);
  }
  std::vector<Kin> kins;
  std::map<Layout, std::size_t> known;
  for (const auto& family : families_) {
    auto alike = family.layout;
    const auto& scenario = base(alike);
    const auto& cluster = scenario.concrete->cluster;
    if (!scenario.concrete->model.is_moe() && scenario.placement == plan::kUsualOrder) {
      alike.pipeline = alike.data = 1;
      if (std::int64_t{alike.tensor} * alike.context <= cluster.gpus_per_node) alike.base = smallest[alike.base];
    }
    const auto [place, fresh] = known.emplace(alike, kins.size());
    if (fresh) kins.emplace_back();
    kins[place->second].push_back(&family);
  }
  for (auto& kin : kins)
    std::stable_sort(kin.begin(), kin.end(), [&](const Family* a, const Family* b) {
      return microbatches(a->layout) < microbatches(b->layout);
    });
  return kins;
}

// Without a pipeline, only one of the orders with the same program.
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
  std::vector<Program> programs;
  for (std::uint16_t i = 0; i < schedules_.size(); ++i) {
    if (!support(of).has_schedule(schedules_[i])) continue;
    const auto& schedule = schedule::registry().at(schedules_[i]);
    if (schedule.placement == schedule::Placement::vocabulary)
      continue;  // its ends are other stages than families have
    const bool both_ways = schedule.placement == schedule::Placement::bidirectional;
    for (const auto v : both_ways ? std::vector<std::int64_t>{2} : chunks) {
      if (v < schedule.min_chunks || v > schedule.max_chunks || (of.pipeline == 1 && v > 1)) continue;
      if (of.pipeline * v / (both_ways ? 2 : 1) > model.layers + 2) continue;
      if (v == 1 && of.pipeline > 1 && !schedule.one_chunk.empty()) continue;  // equals another schedule
      const Time any{1'000'000};
      const auto problem = schedule::uniform_problem(std::uint32_t(of.pipeline), std::uint32_t(m), std::uint32_t(v),
                                                     any, any, any, Time{});
      try {
        schedule::check(schedule, problem);
      } catch (const UserError&) {
        continue;
      }
      if (of.pipeline == 1 && schedule.order) {
        auto program = program_of(schedule, problem);
        if (std::find(programs.begin(), programs.end(), program) != programs.end()) continue;
        programs.push_back(std::move(program));
      }
      orders.push_back({std::int32_t(v), i});
    }
  }
  return orders;
}

std::vector<Order> Space::orders(const Layout& of) const {
  return orders_.at({of.base, of.pipeline, microbatches(of)});
}

std::vector<Setting> Space::settings(const Layout& of) const {
  auto s = scenario(of);
  return settings_of(*this, of, s);
}

scenario::Scenario Space::scenario(const Layout& layout) const {
  auto s = base(layout);
  s.job.reset();
  lay_out(*this, layout, s);
  s.simulate.detail = graph::Detail::stage;
  return s;
}

std::vector<std::pair<std::string, std::string>> Space::sets(const Layout& layout) const {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const auto& size : file_.bases[layout.base].sets) {
    const auto equals = size.find('=');
    sets.emplace_back(size.substr(0, equals), size.substr(equals + 1));
  }
  for (const auto& choice : choices()) sets.emplace_back(choice.key, fields::written(choice.value(*this, layout)));
  if (const auto& offload = file_.space.offload[layout.offload].text; !offload.empty())
    sets.emplace_back("training.offload", offload);
  return sets;
}

}  // namespace rehearsal::search
