#include "dispatch/steps.hpp"

#include <cstring>

#include "base/error.hpp"
#include "dispatch/add.hpp"

namespace rehearsal::dispatch {

namespace {

// Bytes that a member sends another before it knows that it has joined: a slot of NCCL's buffers, of which it has
// eight. Enough for small pieces to be on their way until the call is there; of 2 MiB a second step would begin with
// them.
constexpr std::size_t kAhead = 512 << 10;

}  // namespace

void Steps::begin(const collective::Routine& routine, CollectiveKind kind, Precision precision,
                  const Operands& operands) {
  INVARIANT(done(), "one collective of a group at a time");
  routine_ = &routine;
  precision_ = precision;
  const auto width = static_cast<std::size_t>(bytes_per_element(precision));
  pieces_.clear();
  for (const Cell& cell : lay_out(routine, kind, width, operands)) pieces_.push_back({cell});
  arrivals_.clear(), arrivals_.resize(routine.moves.size() * routine.pieces);
  completed_.clear(), work_.clear(), worked_ = 0;

  receives_.clear(), rounds_.clear();
  for (std::uint32_t m = 0; m < routine.moves.size(); ++m) {
    if (routine.moves[m].sends) continue;
    const bool same = !receives_.empty() && routine.moves[receives_.back()].step == routine.moves[m].step;
    rounds_.push_back(receives_.empty() ? 0 : rounds_.back() + (same ? 0 : 1));
    receives_.push_back(m);
  }
  first_.assign(routine.pieces, 0), posted_.assign(routine.pieces, 0);

  // What a piece of no bytes would do is done.
  for (std::uint32_t where = 0; where < pieces_.size(); ++where) {
    Piece& piece = pieces_[where];
    if (piece.size == 0) piece.next = moves_of(where).size();
    if (piece.next < moves_of(where).size()) ++left_;
  }
  call_senders();
  for (std::uint32_t p = 0; p < routine.pieces; ++p) post_receives(p);
  awaited_ = turn_ = 0;
  if (routine.in_turn && !receives_.empty()) take_turns();
  // In the order of the schedule, in which messages leave.
  for (const auto& move : routine.moves)
    for (std::uint32_t p = 0; move.sends && p < routine.pieces; ++p) work_.push_back(at(move.cell, p));
  if (left_ == 0) finish();
}

// Both ends know how much moves between them, so both expect the call, or neither does. Its id is behind those of
// moves.
void Steps::call_senders() {
  const auto members = routine_->members;
  std::vector<std::size_t> to(members), from(members);
  for (const auto& move : routine_->moves)
    for (std::uint32_t p = 0; p < routine_->pieces; ++p)
      (move.sends ? to : from)[move.member] += pieces_[at(move.cell, p)].size;
  absent_.assign(members, false), ahead_.assign(members, 0), calls_.assign(2 * members, std::byte{});
  const auto first = static_cast<std::uint32_t>(routine_->moves.size() * routine_->pieces);
  for (std::uint32_t m = 0; m < members; ++m) {
    if (m == routine_->me) continue;
    if (to[m] > kAhead) {
      absent_[m] = true;
      messages_.receive(m, kCall, {&calls_[2 * m], 1}, first + 2 * m);
    }
    if (from[m] > kAhead) {
      ++left_;
      messages_.send(m, kCall, {&calls_[2 * m + 1], 1}, first + 2 * m + 1);
    }
  }
}

void Steps::come(std::uint32_t member) {
  absent_[member] = false;
  for (const auto& move : routine_->moves)
    for (std::uint32_t p = 0; p < routine_->pieces; ++p)
      if (move.sends && move.member == member) work_.push_back(at(move.cell, p));
}

bool Steps::arrived(std::uint32_t receive, std::uint32_t p) const {
  const std::uint32_t where = at(routine_->moves[receive].cell, p);
  const std::size_t next = pieces_[where].next;
  return next == moves_of(where).size() || receive < moves_of(where)[next];
}

// Up to one step beyond the one that is not complete.
void Steps::post_receives(std::uint32_t p) {
  std::size_t& first = first_[p];
  while (first < receives_.size() && arrived(receives_[first], p)) ++first;
  if (first == receives_.size()) return;
  for (std::size_t& next = posted_[p]; next < receives_.size() && rounds_[next] <= rounds_[first] + 1; ++next) {
    const std::uint32_t m = receives_[next], id = m * routine_->pieces + p;
    const auto& move = routine_->moves[m];
    Piece& piece = pieces_[at(move.cell, p)];
    if (piece.size == 0) continue;
    const bool free = piece.home && !move.adds && piece.sending == 0 && moves_of(at(move.cell, p))[piece.next] == m;
    if (!free) arrivals_[id].buffer = pool_.get(piece.size);
    std::byte* const into = free ? piece.home : arrivals_[id].buffer.get();
    messages_.receive(move.member, number_of(move, p), {into, piece.size}, id);
  }
}

// Pieces of one step follow each other as steps do, so that members stay together.
std::uint32_t Steps::turn_of(const collective::Move& move, std::uint32_t p) const {
  return move.step * routine_->pieces + p;
}

bool Steps::too_early(const collective::Move& send, std::uint32_t p) const {
  const bool waits = absent_[send.member] && ahead_[send.member] + pieces_[at(send.cell, p)].size > kAhead;
  return waits || (routine_->in_turn && turn_of(send, p) > turn_);
}

void Steps::take_turns() {
  const std::uint32_t before = turn_, pieces = routine_->pieces;
  while (awaited_ < receives_.size() * pieces && arrived(receives_[awaited_ / pieces], awaited_ % pieces)) ++awaited_;
  turn_ = awaited_ < receives_.size() * pieces
              ? turn_of(routine_->moves[receives_[awaited_ / pieces]], awaited_ % pieces)
              : turn_of(routine_->moves.back(), pieces);
  for (std::uint32_t turn = before + 1; turn <= turn_; ++turn)
    for (const auto& move : routine_->of_step(turn / pieces))
      if (move.sends) work_.push_back(at(move.cell, turn % pieces));
}

void Steps::note_completed() {
  const std::size_t calls = routine_->moves.size() * routine_->pieces;
  for (const std::uint32_t id : completed_) {
    if (id >= calls) {
      if ((id - calls) % 2 == 0)
        come(static_cast<std::uint32_t>(id - calls) / 2);
      else
        --left_;
      continue;
    }
    const auto& move = routine_->moves[id / routine_->pieces];
    const std::uint32_t where = at(move.cell, id % routine_->pieces);
    if (!move.sends)
      arrivals_[id].here = true;
    else if (Piece& piece = pieces_[where]; --piece.sending == 0 && piece.next == moves_of(where).size())
      --left_;
    work_.push_back(where);
  }
  completed_.clear();
}

bool Steps::advance() {
  bool worked = false;
  while (!worked && !done()) {
    note_completed();
    if (left_ == 0) {
      finish();
    } else if (worked_ < work_.size()) {
      worked = proceed(work_[worked_]);
      if (!worked) ++worked_;
    } else {
      work_.clear(), worked_ = 0;
      if (completed_.empty()) return false;
    }
  }
  return worked;
}

// Sends follow an addition at once; the next addition has to wait.
bool Steps::proceed(std::uint32_t where) {
  bool worked = false;
  Piece& piece = pieces_[where];
  const auto& moves = moves_of(where);
  const std::uint32_t p = where % routine_->pieces;
  while (piece.next < moves.size()) {
    const std::uint32_t m = moves[piece.next], id = m * routine_->pieces + p;
    const auto& move = routine_->moves[m];
    if (move.sends ? too_early(move, p) : worked || !arrivals_[id].here || piece.sending > 0) break;
    ++piece.next;
    if (move.sends) {
      INVARIANT(piece.at, "a member sends what it has");
      ++piece.sending;
      if (absent_[move.member]) ahead_[move.member] += piece.size;
      messages_.send(move.member, number_of(move, p), {piece.at, piece.size}, id);
      continue;
    }
    worked = arrivals_[id].buffer != nullptr;
    arrive(piece, m, id);
    if (piece.next == moves.size()) --left_;
    post_receives(p);
    if (routine_->in_turn) take_turns();
  }
  return worked;
}

void Steps::arrive(Piece& piece, std::uint32_t m, std::uint32_t id) {
  auto buffer = std::move(arrivals_[id].buffer);
  if (!buffer) {
    piece.at = piece.home;
    return;
  }
  std::byte* const to = piece.home ? piece.home : buffer.get();
  if (routine_->moves[m].adds) {
    INVARIANT(piece.at, "a member adds to what it has");
    add(precision_, piece.at, buffer.get(), to, piece.size);
  } else if (piece.home) {
    std::memcpy(to, buffer.get(), piece.size);
  }
  piece.at = to;
  if (!piece.home) std::swap(piece.owned, buffer);
  if (buffer) pool_.put(piece.size, std::move(buffer));
}

// What never moved is copied to its place.
void Steps::finish() {
  for (Piece& piece : pieces_) {
    if (piece.home && piece.at && piece.at != piece.home && piece.size > 0)
      std::memmove(piece.home, piece.at, piece.size);
    if (piece.owned) pool_.put(piece.size, std::move(piece.owned));
  }
  pieces_.clear(), completed_.clear(), work_.clear(), worked_ = 0;
  routine_ = nullptr;
}

}  // namespace rehearsal::dispatch
