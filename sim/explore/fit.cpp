#include "explore/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "scenario/fields.hpp"

namespace rehearsal::explore {
namespace {

struct Candidate {
  const char *key, *what, *cure;
  double low, high;  // of the change
};
// One for each cause that makes a machine of a kind faster or slower than its data sheets.
constexpr std::array kCandidates{
    Candidate{"cluster.gpu.sustained_clock", "the clock at which GPUs train, over that of bursts",
              "runs whose GPUs mostly compute", .4, 1.6},
    Candidate{"cluster.links.scale_out.efficiency", "what collectives reach of the NICs",
              "a run that waits for its NICs, or nccl-tests over nodes (rehearse import)", .2, 2},
    Candidate{"cluster.links.scale_up.bandwidth", "what the links inside a node carry",
              "a run with much tensor parallelism, or nccl-tests in a node (rehearse import)", .3, 2},
    Candidate{"cluster.launch_factor", "how long hosts take to launch a kernel", "a run of small kernels, eager", .3,
              4}};
constexpr double kStep = .02;  // of a logarithm, for slopes
constexpr int kRounds = 6;

constexpr double kSmallest = 1e-3;     // change of a logarithm that is none
constexpr double kLeastShare = .02;    // of the time, for a factor to be fitted
constexpr double kLeastScatter = .01;  // steps of equal runs differ by as much
constexpr std::size_t kMostFitted = 3;

using Values = std::vector<double>;       // logarithms, by run or by factor
using Fitted = std::vector<std::size_t>;  // places in kCandidates

class Model {
 public:
  explicit Model(const std::vector<MeasuredRun>& runs) : runs_(runs) {}

  const fields::Field* field(const char* key) const {
    for (const auto& field : scenario::scenario_fields().fields)
      if (field.key == key) return &field;
    return nullptr;
  }

  // "--set" of one candidate, times a factor; nothing where the run has no such number or the number no such value.
  std::optional<std::string> set(const MeasuredRun& run, const char* key, double factor) const {
    const auto* of = field(key);
    const auto value = of->get(&run.asked.prediction->scenario());
    if (value.absent()) return std::nullopt;
    const auto scaled = fields::scaled(of->form, value, factor);
    if (!scaled) return std::nullopt;
    return std::string(key) + "=" + fields::written(*scaled);
  }

  // ln(predicted / measured) of each run.
  Values residuals(const Fitted& fitted, const Values& x) const {
    Values all;
    for (const auto& run : runs_) {
      std::vector<std::string> sets;
      for (std::size_t i = 0; i < fitted.size(); ++i)
        if (auto one = set(run, kCandidates[fitted[i]].key, std::exp(x[i]))) sets.push_back(std::move(*one));
      const auto predicted = answer::predict(run.asked.with(sets), answer::Options::time_alone()).summary.iteration;
      all.push_back(std::log(to_seconds(predicted) / run.seconds));
    }
    return all;
  }

  // d residual / d ln value, by run and factor.
  std::vector<Values> slopes(const Fitted& fitted, const Values& x, const Values& here) const {
    std::vector<Values> all(runs_.size(), Values(fitted.size()));
    for (std::size_t i = 0; i < fitted.size(); ++i) {
      auto moved = x;
      moved[i] += kStep;
      const auto there = residuals(fitted, moved);
      for (std::size_t r = 0; r < there.size(); ++r) all[r][i] = (there[r] - here[r]) / kStep;
    }
    return all;
  }

 private:
  const std::vector<MeasuredRun>& runs_;
};

// The inverse of a symmetric positive definite matrix of up to kMost rows, by Gauss and Jordan; nothing if it is
// singular.
std::optional<std::vector<Values>> inverse(std::vector<Values> a) {
  const auto n = a.size();
  std::vector<Values> inverse(n, Values(n));
  for (std::size_t i = 0; i < n; ++i) inverse[i][i] = 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i][i] < 1e-9) return std::nullopt;
    const double pivot = a[i][i];
    for (std::size_t j = 0; j < n; ++j) a[i][j] /= pivot, inverse[i][j] /= pivot;
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i];
      for (std::size_t j = 0; j < n; ++j) a[r][j] -= factor * a[i][j], inverse[r][j] -= factor * inverse[i][j];
    }
  }
  return inverse;
}

double squares(const Values& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum;
}

struct Solution {
  Values x, half, residuals;
  double scatter = 0;
  bool assumed_scatter = false;
};

// Gauss-Newton from no change; nothing where the runs do not determine these factors.
std::optional<Solution> solve(const Model& model, const Fitted& fitted, const Values& begin) {
  Solution s;
  s.x.assign(fitted.size(), 0), s.residuals = begin;
  std::optional<std::vector<Values>> covariance;
  for (int round = 0; round < kRounds; ++round) {
    const auto slope = model.slopes(fitted, s.x, s.residuals);
    std::vector<Values> normal(fitted.size(), Values(fitted.size()));
    Values right(fitted.size());
    for (std::size_t r = 0; r < slope.size(); ++r)
      for (std::size_t i = 0; i < fitted.size(); ++i) {
        right[i] -= slope[r][i] * s.residuals[r];
        for (std::size_t j = 0; j < fitted.size(); ++j) normal[i][j] += slope[r][i] * slope[r][j];
      }
    covariance = inverse(normal);
    if (!covariance) return std::nullopt;
    double step = 0;
    for (std::size_t i = 0; i < fitted.size(); ++i) {
      double by = 0;
      for (std::size_t j = 0; j < fitted.size(); ++j) by += (*covariance)[i][j] * right[j];
      const auto& c = kCandidates[fitted[i]];
      const double to = std::clamp(s.x[i] + by, std::log(c.low), std::log(c.high));
      step = std::max(step, std::abs(to - s.x[i]));
      s.x[i] = to;
    }
    s.residuals = model.residuals(fitted, s.x);
    if (step < kSmallest) break;
  }
  const auto free = s.residuals.size() - fitted.size();
  s.assumed_scatter = free == 0;
  s.scatter = free == 0 ? kUsualScatter : std::max(kLeastScatter, std::sqrt(squares(s.residuals) / double(free)));
  for (std::size_t i = 0; i < fitted.size(); ++i) s.half.push_back(1.96 * s.scatter * std::sqrt((*covariance)[i][i]));
  return s;
}

// Why the runs do not know these factors; nothing where they do.
std::optional<std::string> unknown(const Fitted& fitted, const std::optional<Solution>& s) {
  static constexpr const char* kMixed = "these runs do not tell it from the others";
  if (!s) return kMixed;
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const auto& c = kCandidates[fitted[i]];
    if (s->x[i] <= std::log(c.low) + kSmallest || s->x[i] >= std::log(c.high) - kSmallest)
      return fmt::format("these runs would need it outside {} to {} times its value, so something else is off", c.low,
                         c.high);
    if (s->half[i] <= kKnown) continue;
    return fitted.size() == 1 ? fmt::format("these runs fix it within {:.0f} % only", s->half[i] * 100) : kMixed;
  }
  return std::nullopt;
}

// "210.445GB/s" of "210444763862.5156B/s": no run tells more digits.
std::string rounded(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0 || !std::isfinite(number)) return text;
  const bool giga = std::string_view(end) == "B/s" && std::abs(number) >= 1e9;
  if (giga) number /= 1e9;
  const double unit = std::pow(10, 5 - std::floor(std::log10(std::abs(number))));
  return fmt::format("{}{}{}", std::round(number * unit) / unit, giga ? "G" : "", end);
}

// Factors in the order of `order`, that of the largest share first: one more at a time, as long as the runs know all of
// them. Where they know none alone, two at once: each alone leaves what the other explains.
class Selection {
 public:
  Selection(const Model& model, const Values& begin, std::size_t most) : model_(model), begin_(begin), most_(most) {}

  void choose(const Fitted& order) {
    for (const auto next : order) take({next});
    if (!fitted.empty()) return;
    for (std::size_t i = 0; i < order.size() && fitted.empty(); ++i)
      for (std::size_t j = i + 1; j < order.size() && fitted.empty(); ++j) take({order[i], order[j]});
    if (fitted.empty()) return;
    for (const auto next : order)
      if (std::find(fitted.begin(), fitted.end(), next) == fitted.end()) take({next});
  }

  Fitted fitted;
  Solution best;
  std::array<std::string, kCandidates.size()> why;  // the last refusal of each

 private:
  void take(const Fitted& more) {
    auto all = fitted;
    all.insert(all.end(), more.begin(), more.end());
    if (all.size() > most_) return;
    const auto solution = solve(model_, all, begin_);
    if (const auto reason = unknown(all, solution)) {
      if (more.size() == 1) why[more.front()] = *reason;
      return;
    }
    fitted = all, best = *solution;
  }
  const Model& model_;
  const Values& begin_;
  std::size_t most_;
};

}  // namespace

Fit fit_factors(const std::vector<MeasuredRun>& runs) {
  if (runs.empty()) throw UserError("there is no run to fit to");
  const Model model(runs);
  Fitted all;
  for (std::size_t i = 0; i < kCandidates.size(); ++i) all.push_back(i);
  const auto begin = model.residuals({}, {});
  const auto slope = model.slopes(all, Values(all.size()), begin);
  Values share(all.size());
  for (const auto& run : slope)
    for (std::size_t i = 0; i < all.size(); ++i) share[i] += std::abs(run[i]) / double(runs.size());

  auto order = all;
  std::stable_sort(order.begin(), order.end(), [&share](auto a, auto b) { return share[a] > share[b]; });
  const auto most = std::min(kMostFitted, runs.size());
  Selection selection(model, begin, most);
  selection.best = {{}, {}, begin, std::sqrt(squares(begin) / double(runs.size())), false};
  Fitted relevant;
  for (const auto candidate : order)
    if (share[candidate] >= kLeastShare) relevant.push_back(candidate);
  selection.choose(relevant);
  const auto& fitted = selection.fitted;
  const auto& best = selection.best;

  Fit fit;
  for (const double r : begin) fit.before.push_back(std::exp(r));
  for (const double r : best.residuals) fit.after.push_back(std::exp(r));
  fit.scatter = best.scatter, fit.assumed_scatter = best.assumed_scatter;
  const auto add = [&](std::size_t candidate, std::optional<std::size_t> place) {
    const auto& c = kCandidates[candidate];
    FittedFactor factor;
    factor.key = c.key, factor.what = c.what;
    const auto& first = runs.front().asked.prediction->scenario();
    if (const auto was = model.field(c.key)->get(&first); !was.absent())
      factor.was = factor.is = rounded(fields::written(was));
    factor.share = share[candidate], factor.known = place.has_value();
    if (place) {
      factor.change = std::exp(best.x[*place]), factor.half = best.half[*place];
      if (const auto is = model.set(runs.front(), c.key, factor.change))
        factor.is = rounded(is->substr(is->find('=') + 1));
    } else if (share[candidate] < kLeastShare) {
      factor.why = std::string("nearly without effect on these runs; what tells: ") + c.cure;
    } else if (fitted.size() >= most) {
      factor.why = fmt::format("{} run{} fix{} {} factor{}; what tells: {}", runs.size(), runs.size() == 1 ? "" : "s",
                               runs.size() == 1 ? "es" : "", fitted.size(), fitted.size() == 1 ? "" : "s", c.cure);
    } else {
      factor.why = fmt::format("{}; what tells: {}", selection.why[candidate], c.cure);
    }
    fit.factors.push_back(std::move(factor));
  };
  for (std::size_t i = 0; i < fitted.size(); ++i) add(fitted[i], i);
  for (const auto candidate : order)
    if (std::find(fitted.begin(), fitted.end(), candidate) == fitted.end()) add(candidate, std::nullopt);
  return fit;
}

}  // namespace rehearsal::explore
