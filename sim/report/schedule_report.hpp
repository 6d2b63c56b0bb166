// One schedule with given costs, evaluated and shown: text with a picture, JSON (contract, section 5), CSV.
//
// Conventions of the numbers: cost = max over ranks of (last end - first start); makespan counts from the start of rank
// 0's first action; bubble rate = (cost - busiest rank) / cost; per-rank lists are in rank order; times in seconds.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/grid.hpp"
#include "schedule/replay.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::report {

inline constexpr std::uint64_t kOrderLimit = 100'000;    // actions up to which JSON holds the order unasked
inline constexpr std::uint64_t kPictureLimit = 200'000;  // actions up to which text draws the picture

enum class WantOrder : std::uint8_t { never, when_small, always };

struct ScheduleWishes {
  WantOrder order = WantOrder::when_small;
  bool picture = false;  // spans and the span of each rank
};

struct ScheduleResult {
  const schedule::Schedule* schedule = nullptr;  // borrowed from the registry
  schedule::Problem problem;
  schedule::Replay replay;
  std::string sha256;
  std::optional<std::vector<std::string>> order;  // as wished
  Time lower_bound;
  std::optional<bool> optimal;  // empty: the schedule follows a rule and searches for nothing
  // Only for a picture.
  std::vector<GridSpan> spans;  // label = micro-batch, row = rank; empty when there are too many
  std::vector<Time> first_start, last_end;
};

// Throws UserError when the schedule does not fit the problem.
ScheduleResult evaluate(const schedule::Schedule& schedule, schedule::Problem problem, const ScheduleWishes& wishes);

// A cost that no order of these actions on these ranks can undercut; derived at its definition. With `within_limit`
// it holds for the orders that meet problem.memory_limit, else for all.
Time lower_bound(schedule::Placement placement, const schedule::Problem& problem, bool within_limit);

nlohmann::ordered_json to_json(const ScheduleResult& result);

struct TextOptions {
  int width = 80;
  bool color = false;
};
std::string to_text(const ScheduleResult& result, const TextOptions& options);

// The CSV of torch.distributed.pipelining: one row per rank, one cell per action (3F0: stage, type, micro-batch). The
// text is handed to `write` in pieces, so that an order is never stored whole.
void write_csv(const schedule::Schedule& schedule, const schedule::Problem& problem,
               const std::function<void(std::string_view)>& write);

}  // namespace rehearsal::report
