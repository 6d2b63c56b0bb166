// A schedule written by hand, so that tests can replay orders that no schedule of ours would produce.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

inline Order run_list(std::vector<Action> actions) {
  for (Action action : actions) co_yield action;
}

// "0F0,(0F1;0B0)OVERLAP_F_B" in the text form of orders.
inline std::vector<Action> parse_list(const std::string& text) {
  std::vector<Action> actions;
  for (const char* at = text.c_str(); *at;) {
    char* end = nullptr;
    Action action;
    if (*at == '(') action.overlaps_next = true, ++at;
    action.stage = static_cast<std::uint16_t>(std::strtoul(at, &end, 10));
    const char letter = *end;
    action.op = letter == 'F'   ? Op::forward
                : letter == 'I' ? Op::input_gradient
                : letter == 'W' ? Op::weight_gradient
                                : Op::backward;
    action.microbatch = static_cast<std::uint32_t>(std::strtoul(end + 1, &end, 10));
    actions.push_back(action);
    constexpr std::string_view kEndOfPair = ")OVERLAP_F_B";
    if (*end == ')') end += kEndOfPair.size();
    at = *end == ',' || *end == ';' ? end + 1 : end;
  }
  return actions;
}

inline Schedule listed(const std::vector<std::string>& ranks, Placement placement = Placement::loop) {
  Schedule schedule;
  schedule.name = "by-hand";
  schedule.placement = placement;
  schedule.max_chunks = 8;
  schedule.splits_backward = true;
  schedule.order = [ranks](const Problem&, std::uint32_t rank) { return run_list(parse_list(ranks[rank])); };
  return schedule;
}

// The message of the UserError that `action` throws; empty if it throws none.
template <class F>
std::string user_error(F&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

inline void check_contains(const std::string& message, const std::string& part) {
  CAPTURE(message);
  CAPTURE(part);
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace rehearsal::schedule
