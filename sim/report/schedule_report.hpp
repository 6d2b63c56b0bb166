// One schedule with given costs, evaluated and shown: text with a picture, JSON (contract, section 5), a picture.
//
// Conventions of the numbers: cost = max over ranks of (last end - first start); makespan counts from the start of rank
// 0's first action; bubble rate = (cost - busiest rank) / cost; per-rank lists are in rank order; times in seconds.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schedule/replay.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::report {

inline constexpr std::uint64_t kOrderLimit = 100'000;    // actions up to which JSON holds the order unasked
inline constexpr std::uint64_t kPictureLimit = 200'000;  // actions up to which text draws the picture

enum class WantOrder : std::uint8_t { never, when_small, always };

struct ScheduleWishes {
  WantOrder order = WantOrder::when_small;
  bool picture = false;  // keep what pictures are made of
};

struct ScheduleResult {
  schedule::Schedule schedule;  // planned for the problem
  schedule::Problem problem;
  schedule::Replay replay;
  std::string sha256;
  std::optional<std::vector<std::string>> order;  // as wished
  Time lower_bound;
  // Only for a picture.
  std::vector<schedule::ReplayedAction> actions;  // each rank's in program order; empty when there are too many
  std::vector<Time> first_start, last_end;
};

// Throws UserError when the schedule does not fit the problem.
ScheduleResult evaluate(const schedule::Schedule& schedule, schedule::Problem problem, const ScheduleWishes& wishes);

// A cost that no order of these actions on these ranks can undercut; derived at its definition. With `within_limit`
// it holds for the orders that meet problem.memory_limit, else for all.
Time lower_bound(const schedule::Schedule& schedule, const schedule::Problem& problem, bool within_limit);

// For every stage, which chunk of its rank it is.
std::vector<std::uint32_t> chunks_of_stages(const ScheduleResult& result);

nlohmann::ordered_json to_json(const ScheduleResult& result);

struct TextOptions {
  int width = 80;
  bool color = false;
};
std::string to_text(const ScheduleResult& result, const TextOptions& options);

// A standalone picture (svg.hpp) of the order with its times and of the memory of every rank. Throws UserError when
// there are too many actions for a picture.
std::string to_svg(const ScheduleResult& result);

}  // namespace rehearsal::report
