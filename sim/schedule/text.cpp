#include "schedule/text.hpp"

#include <array>
#include <charconv>

#include "base/sha256.hpp"

namespace rehearsal::schedule {
namespace {

// 5 digits of a stage, the letter, 10 digits of a micro-batch.
constexpr std::size_t kLongestAction = 16;

char letter(Op op) {
  constexpr std::array<char, 4> kLetters{'F', 'I', 'W', 'B'};
  return kLetters[static_cast<std::size_t>(op)];
}

// Needs kLongestAction free characters at `at`; returns the end of the text.
char* write(char* at, const Action& action) {
  at = std::to_chars(at, at + 5, action.stage).ptr;
  *at++ = letter(action.op);
  return std::to_chars(at, at + 10, action.microbatch).ptr;
}

}  // namespace

void append(std::string& text, Action action) {
  std::array<char, kLongestAction> room{};
  text.append(room.data(), write(room.data(), action));
}

std::string to_text(Action action) {
  std::string text;
  append(text, action);
  return text;
}

std::vector<std::string> order_text(const Schedule& schedule, const Problem& problem) {
  check(schedule, problem);
  const Schedule ready = planned(schedule, problem);
  std::vector<std::string> rows(problem.ranks);
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    Order order = ready.order(problem, rank);
    while (order.next()) {
      if (!rows[rank].empty()) rows[rank] += ',';
      append(rows[rank], order.value());
    }
  }
  return rows;
}

std::string order_sha256(const Schedule& schedule, const Problem& problem) {
  check(schedule, problem);
  const Schedule ready = planned(schedule, problem);
  // Large enough that the hash runs at memory speed, small enough for the first-level cache.
  std::array<char, 16384> buffer{};
  char* const full = buffer.data() + buffer.size() - kLongestAction - 1;
  char* at = buffer.data();
  Sha256 hash;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    if (rank > 0) *at++ = '\n';
    Order order = ready.order(problem, rank);
    bool first = true;
    while (order.next()) {
      if (at >= full) {
        hash.update({buffer.data(), std::size_t(at - buffer.data())});
        at = buffer.data();
      }
      if (!first) *at++ = ',';
      first = false;
      at = write(at, order.value());
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
