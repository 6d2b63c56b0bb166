#include "schedule/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/sha256.hpp"

namespace rehearsal::schedule {
namespace {

char letter(Op op) {
  constexpr std::array<char, 4> kLetters{'F', 'I', 'W', 'B'};
  return kLetters[static_cast<std::size_t>(op)];
}

char* write_action(char* at, const Action& action) {
  at = std::to_chars(at, at + 5, action.stage).ptr;
  *at++ = letter(action.op);
  return std::to_chars(at, at + 10, action.microbatch).ptr;
}

char* write_piece(char* at, const Action& action, std::uint32_t pieces) {
  at = write_action(at, {action.microbatch / pieces, action.stage, action.op});
  *at++ = '.';
  return std::to_chars(at, at + 10, action.microbatch % pieces).ptr;
}

constexpr std::string_view kEndOfPair = ")OVERLAP_F_B";

}  // namespace

void append(std::string& text, Action action) {
  std::array<char, RowText::kLongest> room{};
  text.append(room.data(), write_action(room.data(), action));
}

std::string to_text(Action action) {
  std::string text;
  append(text, action);
  return text;
}

// All but a few actions are neither the first of a row, nor in a pair, nor pieces: one test for all of that.
inline char* RowText::write(char* at, const Action& action) {
  if (special_ || action.overlaps_next) [[unlikely]]
    return write_special(at, action);
  *at++ = ',';
  return write_action(at, action);
}

char* RowText::write_special(char* at, const Action& action) {
  if (!first_) *at++ = in_pair_ ? ';' : ',';
  if (action.overlaps_next) *at++ = '(';
  at = pieces_ > 1 ? write_piece(at, action, pieces_) : write_action(at, action);
  if (in_pair_) at = std::copy(kEndOfPair.begin(), kEndOfPair.end(), at);
  first_ = false;
  in_pair_ = action.overlaps_next;
  special_ = in_pair_ || pieces_ > 1;
  return at;
}

void RowText::append(std::string& text, const Action& action) {
  std::array<char, kLongest> room{};
  text.append(room.data(), write(room.data(), action));
}

std::vector<std::string> order_text(const Schedule& schedule, const Problem& problem) {
  check(schedule, problem);
  const Schedule ready = planned(schedule, problem);
  std::vector<std::string> rows(problem.ranks);
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    Order order = ready.order(problem, rank);
    RowText row(pieces(schedule, problem));
    while (order.next()) row.append(rows[rank], order.value());
  }
  return rows;
}

std::string order_sha256(const Schedule& schedule, const Problem& problem) {
  check(schedule, problem);
  const Schedule ready = planned(schedule, problem);
  // Large enough that the hash runs at memory speed, small enough for the first-level cache.
  std::array<char, 16384> buffer{};
  char* const full = buffer.data() + buffer.size() - RowText::kLongest - 1;
  char* at = buffer.data();
  Sha256 hash;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    if (rank > 0) *at++ = '\n';
    Order order = ready.order(problem, rank);
    RowText row(pieces(schedule, problem));
    while (order.next()) {
      if (at >= full) {
        hash.update({buffer.data(), std::size_t(at - buffer.data())});
        at = buffer.data();
      }
      at = row.write(at, order.value());
    }
    if (at >= full) {  // room for the newline of the next rank
      hash.update({buffer.data(), std::size_t(at - buffer.data())});
      at = buffer.data();
    }
  }
  hash.update({buffer.data(), std::size_t(at - buffer.data())});
  return hash.hex();
}

}  // namespace rehearsal::schedule
