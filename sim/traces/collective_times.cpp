#include "traces/collective_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/quantity_text.hpp"
#include "collective/fields.hpp"
#include "traces/analysis.hpp"

namespace rehearsal::traces {
namespace {

constexpr std::size_t kFewestOfACurve = 2;  // of a curve: one says nothing of how times grow

// Plain ones alone: of several at once (coalesced) a trace does not say the parts.
std::optional<CollectiveKind> kind_of(const std::string& name) {
  for (const auto& [word, kind] :
       {std::pair{"allreduce", CollectiveKind::all_reduce}, std::pair{"allgather", CollectiveKind::all_gather},
        std::pair{"_allgather_base", CollectiveKind::all_gather},
        std::pair{"reduce_scatter", CollectiveKind::reduce_scatter},
        std::pair{"_reduce_scatter_base", CollectiveKind::reduce_scatter}})
    if (name == word) return kind;
  return std::nullopt;
}

// Whether all ranks are on one node, by the GPUs that the process of a rank sees; nothing: not known.
std::optional<bool> on_one_node(const Transfer& what, const Trace& trace) {
  const auto gpus = trace.visible_gpus;
  if (trace.world && *trace.world <= gpus) return true;
  const auto members = what.members();
  if (gpus < 2 || members.empty()) return std::nullopt;
  return std::all_of(members.begin(), members.end(), [&](auto rank) { return rank / gpus == members[0] / gpus; });
}

}  // namespace

CollectiveTimes collective_times(std::span<const Trace> traces) {
  CollectiveTimes result;
  const Transfers transfers(traces);
  std::map<std::pair<CollectiveKind, std::uint32_t>, std::map<Bytes, Time>> least;
  std::size_t waiting = 0, across = 0, nowhere = 0;
  for (std::size_t t = 0; t < traces.size(); ++t) {
    const auto& trace = traces[t];
    for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
      const auto& kernel = trace.kernels[i];
      if (!kernel.moves) continue;
      const auto& what = trace.transfers[kernel.fact];
      const auto kind = kind_of(what.name);
      if (!kind || what.size < 2 || what.bytes() <= Bytes{}) continue;
      const auto alone = transfers.of(t, i);
      if (!alone || transfers.seen(t, kernel.fact) < what.size) {
        ++waiting;
        continue;
      }
      if (const auto one = on_one_node(what, trace); one != true) {
        ++(one ? across : nowhere);
        continue;
      }
      const auto [at, fresh] = least[{*kind, std::uint32_t(what.size)}].try_emplace(what.bytes(), *alone);
      if (!fresh) at->second = std::min(at->second, *alone);
    }
  }
  for (const auto& [key, times] : least) {
    const auto what = fmt::format("{} of {} ranks", name(key.first), key.second);
    if (times.size() < kFewestOfACurve) {
      result.notes.push_back(fmt::format("{}: of one size alone, {} in {}; no curve is made of it", what,
                                         show(times.begin()->first), show(times.begin()->second)));
      continue;
    }
    auto& points = result.curves.measured[key];
    for (const auto& [size, time] : times) points.push_back({size, time});
    result.notes.push_back(
        fmt::format("{}: {} sizes from {} to {}, without waiting; they take the place of the cluster's curves", what,
                    points.size(), show(points.front().size), show(points.back().size)));
  }
  if (waiting)
    result.notes.push_back(
        fmt::format("{} collectives are not used: their times include waiting for ranks whose traces "
                    "are not given (one trace of every rank of a group tells the transfer)",
                    waiting));
  if (across)
    result.notes.push_back(fmt::format("{} collectives between nodes are not used: curves are of a node", across));
  if (nowhere)
    result.notes.push_back(
        fmt::format("{} collectives are not used: whether their ranks share a node is not known", nowhere));
  return result;
}

}  // namespace rehearsal::traces
