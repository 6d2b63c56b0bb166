// Orders as text: `3F0` = forward of stage 3, micro-batch 0; I, W, B likewise; `(0F7;7B3)OVERLAP_F_B` = an overlapped
// pair (the form of torch.distributed.pipelining). `3F0.1` = piece 1 of it, where micro-batches are cut.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

void append(std::string& text, Action action);
std::string to_text(Action action);

// The text of one rank, action after action in program order, with the separators in between.
class RowText {
 public:
  explicit RowText(std::uint32_t pieces = 1) : pieces_(pieces) {}
  void append(std::string& text, const Action& action);
  // The same into memory with kLongest free characters; returns the end of the text.
  char* write(char* at, const Action& action);

  // A separator, 5 digits of a stage, the letter, 10 digits of a micro-batch, a point and 10 of a piece, and what
  // closes a pair.
  static constexpr std::size_t kLongest = 1 + 5 + 1 + 10 + 1 + 10 + 12;

 private:
  char* write_special(char* at, const Action& action);

  std::uint32_t pieces_;
  bool first_ = true, in_pair_ = false;
  bool special_ = true;
};

// One string per rank, actions separated by commas.
std::vector<std::string> order_text(const Schedule& schedule, const Problem& problem);

// SHA-256 of the rank strings joined by one newline, without a trailing one. Streams: an order is never stored whole.
std::string order_sha256(const Schedule& schedule, const Problem& problem);

}  // namespace rehearsal::schedule
