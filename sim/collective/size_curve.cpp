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

// The kinds that a curve of one kind may be derived from, best first: {kind, factor}. A ring's all-reduce is a
// reduce-scatter and an all-gather of equal cost.
struct Source {
  CollectiveKind kind;
  double factor;
};
std::vector<Source> sources(CollectiveKind kind) {
  using enum CollectiveKind;
  switch (kind) {
    case all_reduce:
      return {{all_reduce, 1}, {all_gather, 2}};
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

}  // namespace

double FittedCurve::time(Bytes size) const {
  const double s = double(size.count());
  return to_seconds(fixed) + s / rate.value() * (1 + std::sqrt(double(half_size.count()) / s));
}

double SizeCurves::Curve::time(Bytes size) const {
  return factor * (table ? interpolate(*table, size) : fit->time(size));
}

double SizeCurves::Curve::risen(Bytes size) const {
  if (!table) return time(size) - factor * to_seconds(fit->fixed);
  double least = interpolate(*table, size), all = least;
  for (const auto& point : *table) {
    all = std::min(all, to_seconds(point.time));
    if (point.size >= size) least = std::min(least, to_seconds(point.time));
  }
  return factor * std::max(0., least - all);
}

// Tables and the fit of the first source that has any.
std::vector<SizeCurves::Curve> SizeCurves::curves(CollectiveKind kind, Of of) const {
  std::vector<Curve> all;
  const bool itself = measured_on.nvlink.value() <= 0;  // a profile: all are of its one machine
  for (const auto& [other, factor] : sources(kind)) {
    for (const auto& [key, table] : measured) {
      const bool whole_nodes = !itself && std::int64_t{key.second} > measured_on.gpus;
      if (key.first == other && !table.empty() && whole_nodes == (of == Of::whole_nodes))
        all.push_back({key.second, factor, &table, nullptr});  // keys ascend
    }
    const auto fit = fitted.find(other);
    const auto at = std::find_if(all.begin(), all.end(), [&](const Curve& c) { return c.ranks >= fitted_ranks; });
    if (of == Of::one_node && fit != fitted.end() && (at == all.end() || at->ranks != fitted_ranks))
      all.insert(at, {fitted_ranks, factor, nullptr, &fit->second});
    if (!all.empty()) break;
  }
  return all;
}

bool SizeCurves::holds(CollectiveKind kind, Of of) const { return !curves(kind, of).empty(); }

std::uint32_t SizeCurves::most_ranks() const {
  std::uint32_t most = 0;
  for (const auto& [key, table] : measured) most = std::max(most, key.second);
  return most;
}

std::uint32_t SizeCurves::least_ranks(CollectiveKind kind) const {
  const auto all = curves(kind, Of::one_node);
  return all.empty() ? 0 : all.front().ranks;
}

bool SizeCurves::across_nodes() const {
  return measured_on.nvlink.value() > 0 && std::int64_t{most_ranks()} > measured_on.gpus;
}

double SizeCurves::time(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Form& form, Of of) const {
  if (ranks <= 1 || size.count() <= 0) return 0;
  const auto all = curves(kind, of);
  if (all.empty())
    throw UserError("collective curves '" + name + "' hold no curve for a group of " + std::to_string(ranks) +
                    " ranks");
  const auto above = std::find_if(all.begin(), all.end(), [&](const Curve& c) { return c.ranks >= ranks; });
  if (above != all.end() && above->ranks == ranks) return time_factor * above->time(size);
  const double here = form(ranks, size);
  const auto multiple = [&](const Curve& of_others) {
    return of_others.time(size) * here / form(of_others.ranks, size);
  };
  if (above == all.end()) {
    const double shares = of == Of::one_node ? (1 - 1. / ranks) / (1 - 1. / all.back().ranks) : 0;
    return time_factor * std::max(multiple(all.back()), shares * all.back().time(size));
  }
  if (above == all.begin()) {
    if (of == Of::whole_nodes) return time_factor * multiple(*above);
    const double start = form(ranks, Bytes(1)), moved = form(above->ranks, size) - form(above->ranks, Bytes(1));
    const double correction = moved > 0 ? above->risen(size) / moved : 1;
    return time_factor * std::min(multiple(*above), start + (here - start) * correction);
  }
  const auto below = above - 1;
  const double low = form(below->ranks, size), high = form(above->ranks, size);
  if ((here - low) * (high - here) < 0 || low == high)  // not between them
    return time_factor * multiple(std::abs(here - low) < std::abs(here - high) ? *below : *above);
  const double part = std::log(here / low) / std::log(high / low);
  return time_factor * below->time(size) * std::pow(above->time(size) / below->time(size), part);
}

}  // namespace rehearsal::collective
