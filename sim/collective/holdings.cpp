#include "collective/holdings.hpp"

namespace rehearsal::collective {

Holdings holdings(const Algorithm& algorithm, Shape shape, const std::vector<std::vector<Transfer>>& steps) {
  Holdings all;
  if (algorithm.kind == CollectiveKind::all_to_all) return all;
  const bool sums = algorithm.kind == CollectiveKind::all_reduce || algorithm.kind == CollectiveKind::reduce_scatter;
  if (sums) all.full = shape.ranks;
  const bool own = sums || algorithm.kind == CollectiveKind::shift;  // each participant starts with a part of its own
  const auto parts = parts_of(algorithm, shape);
  std::vector<std::vector<std::uint32_t>> now(shape.ranks + algorithm.switches, std::vector<std::uint32_t>(parts));
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank)
    for (std::uint32_t part = 0; part < parts; ++part)
      now[rank][part] = own || rank == (algorithm.kind == CollectiveKind::all_gather ? part : 0);
  all.after.push_back(now);
  for (const auto& step : steps) {
    const auto before = now;
    for (const auto& t : step) {
      auto& target = now[t.to][t.chunk];
      target = (t.reduce ? target : 0) + before[t.from][t.chunk];
    }
    all.after.push_back(now);
  }
  return all;
}

}  // namespace rehearsal::collective
