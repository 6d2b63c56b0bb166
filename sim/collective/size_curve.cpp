#include "collective/size_curve.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearsal::collective {

double interpolate(const std::vector<Point>& table, Bytes size) {
  const double s = double(size.count());
  const auto time = [&](std::size_t i) { return to_seconds(table[i].time); };
  const auto at = [&](std::size_t i) { return double(table[i].size.count()); };
  if (s <= at(0)) return time(0) * std::max(.5, std::pow(s / at(0), .3));
  if (table.size() == 1) return time(0) * s / at(0);  // one point: its bandwidth
  const auto above =
      std::lower_bound(table.begin(), table.end(), size, [](const Point& p, Bytes wanted) { return p.size < wanted; });
  const std::size_t i = std::min<std::size_t>(static_cast<std::size_t>(above - table.begin()), table.size() - 1);
  if (table[i].size == size) return time(i);
  const double slope = std::log(time(i) / time(i - 1)) / std::log(at(i) / at(i - 1));
  return time(i - 1) * std::pow(s / at(i - 1), slope);
}

namespace {

// Where the time of `kind` may come from, best first: {kind to ask, factor}. A ring all-reduce is a reduce-scatter and
// an all-gather of equal cost.
struct Source {
  CollectiveKind kind;
  double factor;
};
std::vector<Source> sources(CollectiveKind kind) {
  using enum CollectiveKind;
  switch (kind) {
    case all_reduce:
      return {{all_reduce, 1}};
    case reduce_scatter:
      return {{reduce_scatter, 1}, {all_gather, 1}, {all_reduce, .5}};
    case all_gather:
      return {{all_gather, 1}, {reduce_scatter, 1}, {all_reduce, .5}};
    case all_to_all:
    case broadcast:
    case shift:
      break;
  }
  return {};
}

// The same where no table of this number of ranks answers: of an all-reduce perhaps only the halves are known.
std::vector<Source> sources_in_part(CollectiveKind kind) {
  auto all = sources(kind);
  if (kind == CollectiveKind::all_reduce) all.push_back({CollectiveKind::all_gather, 2});
  return all;
}

}  // namespace

double FittedCurve::time(Bytes size) const {
  const double s = double(size.count());
  return to_seconds(fixed) + s / rate.value() * (1 + std::sqrt(double(half_size.count()) / s));
}

bool SizeCurves::holds(CollectiveKind kind) const {
  for (const auto& [other, factor] : sources_in_part(kind)) {
    if (fitted.count(other)) return true;
    for (const auto& [key, table] : measured)
      if (key.first == other && !table.empty()) return true;
  }
  return false;
}

double SizeCurves::time(CollectiveKind kind, std::uint32_t ranks, Bytes size, bool* measured_used) const {
  if (measured_used) *measured_used = false;
  if (ranks <= 1 || size.count() <= 0) return 0;
  return time_factor * as_measured(kind, ranks, size, measured_used);
}

double SizeCurves::as_measured(CollectiveKind kind, std::uint32_t ranks, Bytes size, bool* measured_used) const {
  for (const auto& [other, factor] : sources(kind)) {
    if (const auto table = measured.find({other, ranks}); table != measured.end() && !table->second.empty()) {
      if (measured_used) *measured_used = true;
      return factor * interpolate(table->second, size);
    }
  }
  const auto candidates = sources_in_part(kind);
  for (const auto& [other, factor] : candidates) {
    if (const auto curve = fitted.find(other); curve != fitted.end()) {
      // The wire carries (n-1)/n of the array per phase; the fixed part stays.
      const double sent = (1 - 1. / ranks) / (1 - 1. / fitted_ranks);
      const double fixed = to_seconds(curve->second.fixed);
      return factor * (fixed + sent * (curve->second.time(size) - fixed));
    }
  }
  for (const auto& [other, factor] : candidates) {  // nearest group size, the larger of two equally near
    const std::vector<Point>* nearest = nullptr;
    std::uint32_t distance = 0;
    for (const auto& [key, table] : measured) {
      if (key.first != other || table.empty()) continue;
      const std::uint32_t d = key.second > ranks ? key.second - ranks : ranks - key.second;
      if (!nearest || d <= distance) nearest = &table, distance = d;  // keys ascend
    }
    if (nearest) return factor * interpolate(*nearest, size);
  }
  throw UserError("collective curves '" + name + "' hold no curve for a group of " + std::to_string(ranks) + " ranks");
}

}  // namespace rehearsal::collective
