#include "gpu/stream_steps.hpp"

#include <algorithm>
#include <tuple>

#include "base/error.hpp"

namespace rehearsal::gpu {
namespace {

// NCCL's rule: whole = part x members.
dispatch::Operands operands(const Fabric::Operation& operation, const Fabric::Member& member, std::uint32_t members) {
  if (!member.blocks.empty())
    return {{member.in, member.blocks.sent()}, {member.out, member.blocks.received()}, &member.blocks};
  const auto bytes = [&](CollectiveKind of_parts) {
    const bool all_parts = operation.kind == of_parts || operation.kind == CollectiveKind::all_to_all;
    return static_cast<std::size_t>(operation.part) * (all_parts ? members : 1) *
           static_cast<std::size_t>(bytes_per_element(operation.precision));
  };
  return {{member.in, bytes(CollectiveKind::reduce_scatter)}, {member.out, bytes(CollectiveKind::all_gather)}};
}

}  // namespace

StreamSteps::StreamSteps(Device& device, Slots& buffers, const collective::Routine& routine,
                         const Fabric::Operation& operation, const Fabric::Member& member)
    : device_(device),
      buffers_(buffers),
      routine_(routine),
      precision_(operation.precision),
      stream_(member.stream),
      ticks_(routine.moves.empty() ? 0 : routine.moves.back().step + routine.pieces) {
  for (const auto& cell :
       dispatch::lay_out(routine, operation.kind, static_cast<std::size_t>(bytes_per_element(precision_)),
                         operands(operation, member, routine.members)))
    pieces_.push_back({cell});
}

std::vector<StreamSteps::Message> StreamSteps::begin_tick(std::uint32_t tick) {
  std::vector<Message> messages;
  std::vector<std::size_t> leaving;  // pieces that are sent in this tick
  for (std::uint32_t p = 0; p < routine_.pieces && p <= tick; ++p) {
    for (const auto& move : routine_.of_step(tick - p)) {
      const std::size_t where = std::size_t{move.cell} * routine_.pieces + p;
      Piece& piece = pieces_[where];
      if (piece.size == 0) continue;
      Message message{move.sends, move.member, move.number * routine_.pieces + p, nullptr,
                      Bytes(static_cast<std::int64_t>(piece.size))};
      if (move.sends) {
        INVARIANT(piece.at, "a member sends what it has");
        message.at = const_cast<Address>(piece.at);
        leaving.push_back(where);
      } else {
        const bool taken = std::ranges::find(leaving, where) != leaving.end() ||
                           std::ranges::find(arriving_, where, &Arrival::where) != arriving_.end();
        const bool free = piece.home && !move.adds && !taken;
        arriving_.push_back({where, free ? nullptr : buffers_.acquire(message.size, stream_), move.adds});
        message.at = free ? piece.home : arriving_.back().buffer;
      }
      messages.push_back(message);
    }
  }
  std::ranges::stable_sort(messages, {}, [](const Message& m) { return std::tuple(m.member, m.number); });
  return messages;
}

void StreamSteps::end_tick() {
  for (const Arrival& arrival : arriving_) arrive(pieces_[arrival.where], arrival);
  arriving_.clear();
}

void StreamSteps::arrive(Piece& piece, const Arrival& arrival) {
  const auto elements = static_cast<std::int64_t>(piece.size) / bytes_per_element(precision_);
  if (!arrival.buffer) {
    piece.at = piece.home;
  } else if (arrival.adds && piece.at == piece.home) {
    device_.accumulate(precision_, piece.home, arrival.buffer, elements, stream_);
    buffers_.release(arrival.buffer, stream_);
  } else if (arrival.adds) {  // the operand stays as it is
    INVARIANT(piece.at, "a member adds to what it has");
    device_.accumulate(precision_, arrival.buffer, piece.at, elements, stream_);
    keep(piece, arrival.buffer);
  } else if (piece.home) {
    copy(piece.home, arrival.buffer, piece.size);
    buffers_.release(arrival.buffer, stream_);
    piece.at = piece.home;
  } else {
    keep(piece, arrival.buffer);
  }
}

void StreamSteps::keep(Piece& piece, Address buffer) {
  if (piece.owned) buffers_.release(piece.owned, stream_);
  piece.at = piece.owned = buffer;
}

void StreamSteps::copy(Address to, const std::byte* from, std::size_t size) {
  device_.copy(to, from, Bytes(static_cast<std::int64_t>(size)), Direction::within_device, stream_);
}

void StreamSteps::finish() {
  for (Piece& piece : pieces_) {
    if (piece.home && piece.at && piece.at != piece.home && piece.size > 0) copy(piece.home, piece.at, piece.size);
    if (piece.owned) buffers_.release(piece.owned, stream_);
  }
}

}  // namespace rehearsal::gpu
