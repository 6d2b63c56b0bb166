// Measured times of collectives by size (configs/collectives).
#include <fmt/format.h>

#include "base/quantity_text.hpp"
#include "base/spelling.hpp"
#include "cluster/registry.hpp"
#include "collective/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

using collective::FittedCurve;
using collective::Point;

// A list of [size, time] with ascending sizes.
std::vector<Point> read_points(Diagnostics& problems, const Node& list, const std::string& name) {
  std::vector<Point> points;
  for (const auto& [point, at] : read_entries<Point>(problems, list, name, collective::point_list())) {
    if (!points.empty() && point.size <= points.back().size)
      problems.error(at->where(), fmt::format("'{}': sizes must ascend", name));
    points.push_back(point);
  }
  return points;
}

void read_measured(Context& context, const Node& node, collective::SizeCurves& curves) {
  auto& problems = context.problems;
  MapReader measured(problems, node, "measured");
  for (const auto& [name, kind] : collective::kCurveKinds) {
    const Node* by_ranks = measured.find(name);
    if (!by_ranks) continue;
    if (by_ranks->kind != Node::Kind::map) {
      problems.error(by_ranks->where(), fmt::format("'{}' must map numbers of ranks to lists of [size, time]", name));
      continue;
    }
    for (const auto& e : by_ranks->entries) {
      Node key = *e.key;
      key.quoted = false;  // keys of JSON are all quoted
      if (const auto ranks = read_integer(problems, key, "the number of ranks", {2, 100'000}))
        curves.measured[{kind, static_cast<std::uint32_t>(*ranks)}] =
            read_points(problems, *e.value, fmt::format("{} of {} ranks", name, *ranks));
    }
  }
  measured.finish();
}

void read_fitted(Context& context, const Node& node, collective::SizeCurves& curves) {
  MapReader fitted(context.problems, node, "fitted");
  curves.fitted_ranks = static_cast<std::uint32_t>(fitted.integer("ranks", {2, 100'000}));
  for (const auto& [name, kind] : collective::kCurveKinds) {
    const Node* curve = fitted.find(name);
    if (!curve) continue;
    MapReader map(context.problems, *curve, name);
    FittedCurve& f = curves.fitted[kind];
    map.fill(collective::fitted_fields(), &f);
    const auto source = map.text("source", "");
    if (map.boolean("assumed", false))
      context.assume(fmt::format("collectives {}: the curve of {} without a table was not measured ({})", curves.name,
                                 name, source));
    map.finish();
  }
  fitted.finish();
}

// Checks that curves measured on one machine fit this cluster: plausible for their links, and relevant here.
void check_machine(Context& context, const Node& on, const collective::SizeCurves& curves,
                   const cluster::ClusterSpec& here) {
  auto& problems = context.problems;
  const auto& there = curves.measured_on;
  if (there.interconnect.kind != here.interconnect.kind)
    problems.error(
        on.where(),
        fmt::format("collective curves {} were measured over {}, but the GPUs of cluster {} are connected by {}; leave "
                    "'collectives' out, or give curves measured over such links",
                    in_quotes(curves.name), there.interconnect.title, in_quotes(here.name), here.interconnect.title));
  const bool across = curves.across_nodes();
  if (!across && (there.nics || there.nic || there.nic_latency))
    problems.error(on.where(), fmt::format("'nics', 'nic' and 'nic_latency' describe curves across nodes, but no curve "
                                           "has more ranks than the {} GPUs of a node; leave them out, or set 'gpus'",
                                           there.gpus));
  if (across && there.topology == "nvl-rack")
    problems.error(on.where(), "curves across several racks are not supported here; give those within one rack");
  for (const auto& [key, points] : curves.measured) {
    const auto& [kind, ranks] = key;
    if (std::int64_t{ranks} > there.gpus && std::int64_t{ranks} % there.gpus != 0)
      problems.error(
          on.where(),
          fmt::format(
              "{} ranks of a curve do not fill whole nodes of {} GPUs; set 'measured_on.gpus' to the GPUs of a node",
              ranks, there.gpus));
    if (std::int64_t{ranks} > there.gpus) continue;
    // Each rank sends all of the array but its own part once; an all-reduce without in-switch reduction sends it twice.
    const double parts = kind == CollectiveKind::all_reduce && there.interconnect.switch_share <= 0 ? 2 : 1;
    for (const auto& point : points) {
      const double wire = parts * (1 - 1. / ranks) * double(point.size.count()) / there.nvlink.value();
      if (to_seconds(point.time) * curves.time_factor >= wire) continue;
      problems.error(on.where(),
                     fmt::format("{} of {} among {} ranks in {} is faster than 'nvlink' allows, {} per GPU; give the "
                                 "rate of all links of a GPU together, in one direction",
                                 name(kind), show(point.size), ranks, show(point.time), fields::shown(there.nvlink)));
      return;
    }
  }
}

}  // namespace

std::optional<collective::SizeCurves> load_curves(Context& context, const Node& node, const cluster::ClusterSpec* here,
                                                  bool of_profile) {
  const auto before = context.problems.count();
  const Part part = resolve(context, node, "configs/collectives", "set of collective curves");
  if (!part.node) return std::nullopt;
  MapReader map(context.problems, part.node, "collectives", node);
  collective::SizeCurves curves;
  curves.name = part.name;
  for (const char* key : kAbout) map.find(key);
  curves.source = map.text("source", "");
  const Node* on = map.find("measured_on");
  if (!on && !of_profile)
    map.require("measured_on",
                "the links that the times were measured on, such as {nvlink: 300GB/s, latency: 1.22us}: on others they "
                "are scaled");
  if (on) {
    MapReader links(context.problems, *on, "measured_on");
    if (here) curves.measured_on.interconnect = here->interconnect;
    if (const Node* named = said_interconnect(context, on, &links))
      if (auto loaded = load_interconnect(context, *named)) curves.measured_on.interconnect = std::move(*loaded);
    links.fill(collective::measured_on_fields(), &curves.measured_on, {"interconnect"});
    const auto& name = curves.measured_on.topology;
    const auto* inside = cluster::registry().find(name);
    if (!inside || inside->role != cluster::Topology::Role::node)
      context.problems.error(links.at("topology"),
                             fmt::format("{} is not a topology of GPUs within a node{}", in_quotes(name),
                                         suggestion(name, cluster::registry().names())));
    links.finish();
  }
  const auto& factor = collective::curve_fields().at("time_factor").form;
  curves.time_factor = map.number("time_factor", {factor.low, factor.high, factor.above}, 1);
  const auto assumption = map.text("assumption", "");
  if (const Node* measured = map.find("measured")) read_measured(context, *measured, curves);
  if (const Node* fitted = map.find("fitted")) read_fitted(context, *fitted, curves);
  map.finish();
  if (context.problems.count() != before) return std::nullopt;
  if (here && on) check_machine(context, *on, curves, *here);
  if (context.problems.count() != before) return std::nullopt;
  if (!assumption.empty()) context.assume(fmt::format("collectives {}: {}", curves.name, assumption));
  return curves;
}

}  // namespace rehearsal::scenario
