#include "explore/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "answer/repriced.hpp"
#include "base/parallel.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::explore {
namespace {

using fields::Field;
using fields::Value;
using Kind = Sensitivity::Kind;

// All measured collective times are scaled together, along with the links that they were measured on: a single one says
// nothing about this machine.
constexpr std::string_view kCurves = "cluster.collectives.", kMeasured = "cluster.collectives.time_factor";

std::optional<Kind> kind_of(const Field& field) {
  using F = fields::Form::Kind;
  const std::string_view key = field.key;
  if (!field.set || !field.acts || !field.key_of_files) return std::nullopt;
  if (!key.starts_with("cluster.") && !key.starts_with("framework.") && !key.starts_with("costs.")) return std::nullopt;
  if (key.starts_with(kCurves)) return key == kMeasured ? std::optional(Kind::measured) : std::nullopt;
  switch (field.form.kind) {
    case F::time:
      return Kind::time;
    case F::bandwidth:
    case F::flop_rate:
      return Kind::rate;
    case F::number:
      return Kind::factor;
    default:
      return std::nullopt;
  }
}

double number_in(const Value& value) {
  if (const auto* x = std::get_if<double>(&value)) return *x;
  if (const auto* x = std::get_if<Time>(&value)) return double(x->count());
  if (const auto* x = std::get_if<Bandwidth>(&value)) return x->value();
  if (const auto* x = std::get_if<FlopRate>(&value)) return x->value();
  double sum = 0;
  if (const auto* list = std::get_if<std::vector<Value>>(&value))
    for (const auto& x : *list) sum += number_in(x);
  return sum;
}

// Lists of given times are scaled as a whole.
std::optional<Value> scaled(const Field& field, const Value& value, double factor) {
  const auto* list = std::get_if<std::vector<Value>>(&value);
  if (!list) return number_in(value) == 0 ? std::nullopt : fields::scaled(field.form, value, factor);
  std::vector<Value> all;
  for (const auto& x : *list) all.push_back(scaled(field, x, factor).value_or(x));
  return Value(all) == value ? std::nullopt : std::optional(Value(all));
}

// A single value for a list whose values are equal.
std::string value_text(const Value& value) {
  const auto* list = std::get_if<std::vector<Value>>(&value);
  if (!list || list->size() < 2 || std::any_of(list->begin(), list->end(), [&](auto& x) { return x != list->front(); }))
    return fields::shown(value);
  return fmt::format("{} x {}", list->size(), fields::shown(list->front()));
}

struct Knob {
  const Field* field;
  Kind kind;
  Value value;
};

std::vector<Knob> knobs(const scenario::Scenario& scenario) {
  std::vector<Knob> all;
  for (const auto& field : scenario::scenario_fields().fields) {
    const auto kind = kind_of(field);
    if (!kind) continue;
    auto value = field.get(&scenario);
    if (!value.absent() && number_in(value) != 0) all.push_back({&field, *kind, std::move(value)});
  }
  return all;
}

bool assumed(const scenario::Scenario& scenario, const std::string& key) {
  if (!scenario.concrete) return false;
  const auto& c = *scenario.concrete;
  const auto among = [&](const std::vector<std::string>& keys, std::string_view prefix) {
    return key.starts_with(prefix) && std::find(keys.begin(), keys.end(), key.substr(prefix.size())) != keys.end();
  };
  return among(c.cluster.gpu.assumed, "cluster.gpu.") || among(c.cluster.assumed, "cluster.") ||
         among(c.framework.assumed, "framework.");
}

class Turning {
 public:
  explicit Turning(const Asked& asked)
      : asked_(asked), base_(*asked.prediction), repricing_(base_), knobs_(knobs(base_.scenario())) {}

  const std::vector<Knob>& all() const { return knobs_; }

  // Nothing if the number cannot be changed this far, or --set does not reach it.
  std::optional<Turn> turn(const Knob& knob, double factor) const {
    const auto to = scaled(*knob.field, knob.value, factor);
    if (!to) return std::nullopt;
    const auto set = knob.field->key + "=" + fields::written(*to);
    try {
      const auto other = asked_.with({set});
      if (knob.field->get(&other) != *to) return std::nullopt;
      return Turn{set, number_in(*to) / number_in(knob.value) - 1, iteration(other)};
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

  // Other resources that change with this one because the file does not give them.
  std::vector<std::string> followers(const Knob& knob, const std::string& set) const {
    std::vector<std::string> keys;
    const auto other = asked_.with({set});
    for (const auto& each : knobs_)
      if (each.field != knob.field && each.field->get(&other) != each.value) keys.push_back(each.field->key);
    return keys;
  }

  // The iteration with all resources slower by this factor.
  std::optional<Time> together(double factor) const {
    auto other = base_.scenario();
    for (const auto& knob : knobs_) {
      if (knob.kind == Kind::factor) continue;
      const auto to = scaled(*knob.field, knob.value, knob.kind == Kind::rate ? 1 / factor : factor);
      if (!to) continue;
      knob.field->set(&other, *to);
    }
    try {
      return iteration(other);
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

 private:
  Time iteration(const scenario::Scenario& other) const {
    if (const auto time = repricing_.iteration(other)) return *time;
    return answer::predict(other, answer::Options::time_alone()).summary.iteration;
  }

  const Asked& asked_;
  const answer::Result& base_;
  const answer::Repricing repricing_;
  std::vector<Knob> knobs_;
};

double slope(Time slow, Time fast, double ratio) { return std::log(slow / fast) / std::log(ratio); }

// Nothing if the number has no effect.
std::optional<Sensitivity> sensitivity(const Turning& turning, const Knob& knob, const answer::Result& base) {
  const Time now = base.summary.iteration;
  const auto up = turning.turn(knob, 1 + kTenth), down = turning.turn(knob, 1 / (1 + kTenth));
  const auto moves = [&](const auto& turn) { return turn && turn->iteration != now; };
  if (!moves(up) && !moves(down)) return std::nullopt;
  Sensitivity s;
  s.key = knob.field->key, s.value = value_text(knob.value), s.help = knob.field->help, s.kind = knob.kind;
  s.assumed = assumed(base.scenario(), knob.field->key);
  const Turn none{"", 0, now};
  s.better = up.value_or(none), s.worse = down.value_or(none);
  if (s.worse.iteration < s.better.iteration) std::swap(s.better, s.worse);
  auto above = turning.turn(knob, 1 + kSmallStep), below = turning.turn(knob, 1 / (1 + kSmallStep));
  if (!above && !below) above = up, below = down;  // so few picoseconds that a small step rounds to none
  const Turn high = above.value_or(none), low = below.value_or(none);
  s.elasticity = slope(high.iteration, low.iteration, (1 + high.change) / (1 + low.change));
  return s;
}

void explain_sum(Sensitivities& found, const scenario::Scenario& scenario) {
  constexpr double kTold = .005;
  const double out_of_reach = 1 - found.together, bent = found.together - found.sum;
  if (std::abs(out_of_reach) > kTold) {
    auto text = fmt::format("{:.1f} % of the step is in times that no key reaches", 100 * out_of_reach);
    if (scenario.concrete && scenario.concrete->profile)
      text += ": what the profile " + scenario.concrete->profile->name + " measured";
    else
      text += ": what the program itself knows of NCCL's calls and of the parts of matrix products";
    found.missing.push_back(text);
  }
  if (std::abs(bent) > kTold)
    found.missing.push_back(fmt::format(
        "{:.1f} % is where the step bends: two chains of tasks, or two algorithms, take nearly as long, and a number "
        "that moves one alone hands over to the other",
        100 * bent));
}

}  // namespace

const char* name(Sensitivity::Kind kind) {
  switch (kind) {
    case Kind::rate:
      return "rate";
    case Kind::time:
      return "time";
    case Kind::measured:
      return "measured";
    case Kind::factor:
      return "factor";
  }
  return "";
}

scenario::Scenario Asked::with(const std::vector<std::string>& more) const {
  auto all = sets;
  all.insert(all.end(), more.begin(), more.end());
  return scenario::load(path, all, {}, *files);
}

std::vector<Uncertain> uncertain(const Asked& asked, const Width& width, unsigned jobs) {
  const Turning turning(asked);
  std::vector<std::pair<const Knob*, Uncertain>> some;
  for (const auto& knob : turning.all()) {
    const auto& key = knob.field->key;
    const double fitted = width(key);
    const bool guessed = assumed(asked.prediction->scenario(), key);
    if (fitted > 0 || guessed)
      some.push_back({&knob, {key, value_text(knob.value), knob.field->help, fitted > 0 ? fitted : kTenth, guessed}});
  }
  const Time now = asked.prediction->summary.iteration;
  in_parallel(some.size(), jobs, [&](std::size_t i) {
    auto& [knob, one] = some[i];
    const Turn none{"", 0, now};
    one.high = turning.turn(*knob, 1 + one.width).value_or(none);
    one.low = turning.turn(*knob, 1 / (1 + one.width)).value_or(none);
  });
  std::vector<Uncertain> all;
  for (auto& [knob, one] : some)
    if (one.low.iteration != now || one.high.iteration != now) all.push_back(std::move(one));
  return all;
}

Sensitivities sensitivities(const Asked& asked, unsigned jobs, const Done& done) {
  const Turning turning(asked);
  const auto& knobs = turning.all();
  std::vector<std::optional<Sensitivity>> rows(knobs.size());
  std::vector<std::vector<std::string>> followers(knobs.size());
  const auto turn = [&](std::size_t i) {
    rows[i] = sensitivity(turning, knobs[i], *asked.prediction);
    if (rows[i] && knobs[i].kind != Kind::factor)
      followers[i] = turning.followers(knobs[i], (rows[i]->better.set.empty() ? rows[i]->worse : rows[i]->better).set);
  };
  in_parallel(knobs.size(), jobs, turn, done);

  Sensitivities found;
  for (auto& row : rows) {
    if (!row) {
      ++found.idle;
      continue;
    }
    for (std::size_t i = 0; i < knobs.size(); ++i)
      if (std::find(followers[i].begin(), followers[i].end(), row->key) != followers[i].end())
        row->follows = knobs[i].field->key;
    if (row->counted()) found.sum += row->share();
    found.all.push_back(std::move(*row));
  }
  std::stable_sort(found.all.begin(), found.all.end(),
                   [](const auto& a, const auto& b) { return a.better.iteration < b.better.iteration; });
  const auto slow = turning.together(1 + kSmallStep), fast = turning.together(1 / (1 + kSmallStep));
  if (slow && fast) found.together = slope(*slow, *fast, (1 + kSmallStep) * (1 + kSmallStep));
  explain_sum(found, asked.prediction->scenario());
  return found;
}

}  // namespace rehearsal::explore
