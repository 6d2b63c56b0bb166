#include "collective/routine.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "collective/holdings.hpp"

namespace rehearsal::collective {
namespace {

// Bytes: about what a NIC or a core moves in the latency of a message.
constexpr double kLeastPiece = 64 << 10;

}  // namespace

Execution execution(const Algorithm& algorithm, Shape shape, Bytes size, double channels) {
  const double part = double(size.count()) / parts_of(algorithm, shape);
  const double predicted = algorithm.pieces ? std::round(algorithm.pieces(shape, size, channels)) : 1;
  const double pieces = std::max(1., std::min(predicted, std::floor(part / kLeastPiece)));
  return {&algorithm, shape, static_cast<std::uint32_t>(pieces)};
}

std::span<const Move> Routine::of_step(std::uint32_t step) const {
  const auto first = std::lower_bound(moves.begin(), moves.end(), step,
                                      [](const Move& move, std::uint32_t at) { return move.step < at; });
  const auto last =
      std::upper_bound(first, moves.end(), step, [](std::uint32_t at, const Move& move) { return at < move.step; });
  return std::span(moves).subspan(std::size_t(first - moves.begin()), std::size_t(last - first));
}

Routine routine(const Execution& execution, std::uint32_t member) {
  const auto& algorithm = *execution.algorithm;
  const std::uint32_t members = execution.shape.ranks;
  const bool to_all = algorithm.kind == CollectiveKind::all_to_all;
  Routine own{members, member, parts_of(algorithm, execution.shape), execution.pieces, 0, to_all, {}, {}};
  const bool scatters =
      algorithm.kind == CollectiveKind::reduce_scatter || algorithm.kind == CollectiveKind::all_gather;
  INVARIANT(member < members, "a routine is that of a member");
  INVARIANT(own.parts % (to_all || scatters ? members : 1) == 0, "blocks of members are whole parts");
  const std::uint32_t blocks = to_all ? members : 0;
  own.cells = own.parts + blocks + algorithm.switches * own.parts;
  own.of_cell.resize(own.cells);
  const auto is_switch = [&](std::uint32_t participant) { return participant >= members; };
  const auto played_by = [&](std::uint32_t participant, std::uint32_t part) {
    return is_switch(participant) ? part % members : participant;
  };
  const auto in_switch = [&](std::uint32_t participant, std::uint32_t part) {
    return own.parts + blocks + (participant - members) * own.parts + part;
  };

  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> messages;  // from one member to another so far
  const auto steps = algorithm.schedule(execution.shape);
  for (std::uint32_t k = 0; k < steps.size(); ++k) {
    std::vector<Move> sends, receives;
    std::vector<bool> filled(own.cells, false);  // cells of switches, which keep nothing from step to step
    for (const auto& t : steps[k]) {
      const std::uint32_t from = played_by(t.from, t.chunk), to = played_by(t.to, t.chunk);
      const std::uint32_t number = messages[{from, to}]++;
      if (from == member)
        sends.push_back({k, is_switch(t.from) ? in_switch(t.from, t.chunk) : t.chunk, to, number, true, false});
      if (to != member) continue;
      INVARIANT(!to_all || (t.chunk == t.to && !t.reduce), "an all-to-all sends each block to its receiver");
      std::uint32_t cell = to_all ? own.parts + t.from : t.chunk;
      bool adds = t.reduce;
      if (is_switch(t.to)) {
        cell = in_switch(t.to, t.chunk);
        adds = adds && filled[cell];
        filled[cell] = true;
      }
      receives.push_back({k, cell, from, number, false, adds});
    }
    for (const auto* moves : {&sends, &receives})
      for (const auto& move : *moves) {
        own.of_cell[move.cell].push_back(static_cast<std::uint32_t>(own.moves.size()));
        own.moves.push_back(move);
      }
  }
  return own;
}

}  // namespace rehearsal::collective
