// Performs a collective by the steps of its algorithm (collective::Routine): messages between members, added up on
// arrival. The same for every transport, which lends only the messages.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "collective/routine.hpp"
#include "dispatch/buffer_pool.hpp"
#include "dispatch/cells.hpp"

namespace rehearsal::dispatch {

// Nonblocking messages between the members of one group. A message is known by both members and its number; those of
// one collective have different ones, and the same numbers of a later collective follow them. The bytes belong to the
// transport until it reports `id` by Steps::completed().
class MemberMessages {
 public:
  virtual ~MemberMessages() = default;
  virtual void send(std::uint32_t to, std::uint32_t number, std::span<const std::byte> bytes, std::uint32_t id) = 0;
  virtual void receive(std::uint32_t from, std::uint32_t number, std::span<std::byte> into, std::uint32_t id) = 0;
};

// One member's part in one collective after the other. Single-threaded.
//
// A piece of a cell makes its moves in order: a send once everything before it has arrived, an arrival once nothing
// before it is still being sent. Receives are posted a step ahead, into the result where its place is free and into
// buffers otherwise. No member waits for another by mistake: whoever is behind has posted what its step receives.
//
// All but the first bytes leave once their receiver has joined, which it says with a byte, as NCCL's receivers do with
// credits. What left earlier would cross the wires before the collective begins, and its sender would be done while
// others are not, and send what comes next over the same wire.
class Steps {
 public:
  Steps(MemberMessages& messages, BufferPool& pool) : messages_(messages), pool_(pool) {}

  // Operands as in Transport::join; the routine must outlive the collective.
  void begin(const collective::Routine& routine, CollectiveKind kind, Precision precision, const Operands& operands);
  // A message has been sent or received. Only notes it, so that a transport may call it anywhere.
  void completed(std::uint32_t id) { completed_.push_back(id); }
  // Goes on, at most as far as one addition or copy, so that messages may move on between two of them. False: nothing
  // is left to do until messages are completed.
  bool advance();
  bool done() const { return routine_ == nullptr; }

 private:
  struct Piece : Cell {             // without a home: in buffers, and nowhere in the end
    BufferPool::Buffer owned = {};  // behind `at` without a home
    std::size_t next = 0;           // of its moves
    std::uint32_t sending = 0;
  };
  struct Arrival {
    BufferPool::Buffer buffer;  // null: received into its home
    bool here = false;
  };

  void call_senders();
  void come(std::uint32_t member);  // it has joined
  void note_completed();
  bool arrived(std::uint32_t receive, std::uint32_t piece) const;  // a move
  void post_receives(std::uint32_t piece);
  // Of messages from one member to the other: a call, then those of the schedule.
  static constexpr std::uint32_t kCall = 0;
  std::uint32_t number_of(const collective::Move& move, std::uint32_t piece) const {
    return 1 + move.number * routine_->pieces + piece;
  }
  std::uint32_t turn_of(const collective::Move& move, std::uint32_t piece) const;
  bool too_early(const collective::Move& send, std::uint32_t piece) const;
  void take_turns();
  bool proceed(std::uint32_t where);  // true: it added or copied, and may go on
  void arrive(Piece& piece, std::uint32_t move, std::uint32_t id);
  void finish();

  std::uint32_t at(std::uint32_t cell, std::uint32_t piece) const { return cell * routine_->pieces + piece; }
  const std::vector<std::uint32_t>& moves_of(std::uint32_t where) const {
    return routine_->of_cell[where / routine_->pieces];
  }

  MemberMessages& messages_;
  BufferPool& pool_;
  const collective::Routine* routine_ = nullptr;
  Precision precision_ = Precision::fp32;
  std::size_t left_ = 0;           // pieces of cells that have moves left or are being sent
  std::vector<Piece> pieces_;      // by cell and piece
  std::vector<Arrival> arrivals_;  // by id: move and piece
  std::vector<std::uint32_t> receives_,
      rounds_;                               // moves that receive, and for each its step, counted from 0 among these
  std::vector<std::size_t> first_, posted_;  // by piece: of `receives_` all before have arrived, have been posted
  std::vector<std::uint32_t> completed_, work_;  // ids; pieces of cells to look at
  std::size_t worked_ = 0;
  std::vector<std::size_t> ahead_;        // by member: bytes that it has been sent while absent
  std::vector<bool> absent_;              // by member: sends wait until it has joined
  std::vector<std::byte> calls_;          // what these say
  std::uint32_t awaited_ = 0, turn_ = 0;  // Routine::in_turn: receive and piece that is not here yet, and its turn
};

}  // namespace rehearsal::dispatch
