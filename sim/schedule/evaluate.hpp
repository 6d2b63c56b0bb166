// One schedule with given costs, evaluated: its replay, its order as text with the digest, a bound that no order beats.
//
// Conventions of the numbers: cost = max over ranks of (last end - first start); makespan counts from the start of rank
// 0's first action; bubble rate = (cost - busiest rank) / cost; per-rank lists are in rank order.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/replay.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

inline constexpr std::uint64_t kOrderLimit = 100'000;    // actions up to which JSON holds the order unasked
inline constexpr std::uint64_t kPictureLimit = 200'000;  // actions up to which text draws the picture

enum class WantOrder : std::uint8_t { never, when_small, always };

struct Wishes {
  WantOrder order = WantOrder::when_small;
  bool picture = false;  // keep what pictures are made of
};

struct Evaluation {
  Schedule schedule;  // planned for the problem
  Problem problem;
  Replay replay;
  std::string sha256;
  std::optional<std::vector<std::string>> order;  // as wished
  Time lower_bound;
  // Only for a picture.
  std::vector<ReplayedAction> actions;  // each rank's in program order; empty when there are too many
  std::vector<Time> first_start, last_end;
};

// Throws UserError when the schedule does not fit the problem.
Evaluation evaluate(const Schedule& schedule, Problem problem, const Wishes& wishes);

// A cost that no order of these actions on these ranks can undercut; derived at its definition. With `within_limit`
// it holds for the orders that meet problem.memory_limit, else for all.
Time lower_bound(const Schedule& schedule, const Problem& problem, bool within_limit);

// For every stage, which chunk of its rank it is.
std::vector<std::uint32_t> chunks_of_stages(const Evaluation& result);

}  // namespace rehearsal::schedule
