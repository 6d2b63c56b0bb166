#include "dispatch/cells.hpp"

#include <numeric>

#include "base/error.hpp"

namespace rehearsal::dispatch {
namespace {

// The part'th of `parts` almost equal ranges of `whole`.
struct Range {
  std::size_t first, count;
};
Range range(std::size_t whole, std::size_t parts, std::size_t part) {
  const auto start = [&](std::size_t p) { return whole / parts * p + whole % parts * p / parts; };
  return {start(part), start(part + 1) - start(part)};
}

}  // namespace

std::vector<Cell> lay_out(const collective::Routine& routine, CollectiveKind kind, std::size_t width,
                          const Operands& operands) {
  const auto& [in, out, blocks] = operands;
  const std::uint32_t members = routine.members, me = routine.me, parts = routine.parts;
  const bool gathers = kind == CollectiveKind::all_gather, scatters = kind == CollectiveKind::reduce_scatter;
  const bool to_all = kind == CollectiveKind::all_to_all;
  INVARIANT(gathers    ? in.size() * members == out.size()
            : scatters ? in.size() == out.size() * members
            : blocks   ? in.size() == blocks->sent() && out.size() == blocks->received()
                       : in.size() == out.size(),
            "a collective's operands fit each other");
  INVARIANT(!blocks || (to_all && parts == members), "an all-to-all has a block for each member");
  std::vector<Cell> cells(std::size_t{routine.cells} * routine.pieces);
  const auto cut = [&](std::uint32_t cell, const std::byte* holds, std::byte* home, std::size_t elements) {
    for (std::uint32_t p = 0; p < routine.pieces; ++p) {
      const auto [first, count] = range(elements, routine.pieces, p);
      cells[std::size_t{cell} * routine.pieces + p] = {count * width, holds ? holds + first * width : nullptr,
                                                       home ? home + first * width : nullptr};
    }
  };

  const std::size_t whole = (gathers ? out.size() : in.size()) / width;
  const std::size_t mine = range(whole, members, me).first;
  // Of a whole array, or of blocks that differ.
  const auto placed = [&](const std::vector<std::size_t> Blocks::*sizes, std::uint32_t count, std::uint32_t at) {
    if (!blocks) return range(whole, count, at);
    const auto& all = blocks->*sizes;
    return Range{std::accumulate(all.begin(), all.begin() + at, std::size_t{0}) / width, all[at] / width};
  };
  for (std::uint32_t part = 0; part < parts; ++part) {
    const auto [first, elements] = placed(&Blocks::to, parts, part);
    const bool own = std::uint64_t{part} * members / parts == me;
    const std::byte* holds = in.data() + first * width;
    std::byte* home = out.data() + first * width;
    if (gathers) holds = own ? in.data() + (first - mine) * width : nullptr;
    if (scatters) home = own ? out.data() + (first - mine) * width : nullptr;
    if (to_all) home = nullptr;
    cut(part, holds, home, elements);
  }
  if (!to_all) {
    for (std::uint32_t cell = parts; cell < routine.cells; ++cell)
      cut(cell, nullptr, nullptr, range(whole, parts, (cell - parts) % parts).count);
    return cells;
  }
  INVARIANT(in.empty() || in.data() != out.data(), "blocks go from one buffer into another");
  for (std::uint32_t from = 0; from < members; ++from) {
    const auto [first, elements] = placed(&Blocks::from, members, from);
    const std::byte* own = in.data() + placed(&Blocks::to, members, me).first * width;
    cut(parts + from, from == me ? own : nullptr, out.data() + first * width, elements);
  }
  return cells;
}

}  // namespace rehearsal::dispatch
