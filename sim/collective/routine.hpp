// The steps of an algorithm as a program: what each member of a group sends, receives and adds, so that a transport can
// perform what was predicted.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "collective/collective.hpp"

namespace rehearsal::collective {

// How a collective is performed: by which algorithm, among whom, and into how many pieces its parts are cut. Pieces of
// one part move independently of each other: one is added up while the next one is on its way.
struct Execution {
  const Algorithm* algorithm = nullptr;  // null: none was chosen
  Shape shape{1};
  std::uint32_t pieces = 1;
  friend bool operator==(const Execution&, const Execution&) = default;
};

// As many pieces as the closed form assumes, but none so small that it takes no longer than an empty message.
Execution execution(const Algorithm& algorithm, Shape shape, Bytes size, double channels);

// What a member does with one cell of its memory: sends it, or receives into it.
struct Move {
  std::uint32_t step = 0;
  std::uint32_t cell = 0;
  std::uint32_t member = 0;  // the other end, possibly the member itself
  std::uint32_t number = 0;  // of the messages from one member to the other, counted by both ends alike
  bool sends = false;
  bool adds = false;  // what arrives is added to what is there, and otherwise takes its place
};

// The program of one member. Cells are the parts of the array; of an all-to-all, whose blocks go from one array into
// another, then those of the other one, by sender; last what the member holds in place of switches: where none is,
// part p is added up and copied by member p, counted modulo their number.
//
// Moves of one cell happen in order: what is sent is what was there before the step, and additions keep to the order of
// the schedule, whichever message is first. So every member computes the same bits, run after run.
struct Routine {
  std::uint32_t members = 1, me = 0, parts = 1, pieces = 1, cells = 1;
  // Blocks of an all-to-all depend on nothing: without a rule all would leave at once, and those that share a NIC would
  // arrive at different times while others wait. A member goes on as it receives, step by step and piece by piece.
  bool in_turn = false;
  std::vector<Move> moves;                          // by step
  std::vector<std::vector<std::uint32_t>> of_cell;  // indices of moves; of one step, sends come first

  std::span<const Move> of_step(std::uint32_t step) const;  // sends come first
};

// Throws InternalError where blocks of members are no whole parts, or an all-to-all forwards a block.
Routine routine(const Execution& execution, std::uint32_t member);

}  // namespace rehearsal::collective
