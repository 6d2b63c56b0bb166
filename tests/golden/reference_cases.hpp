// Reads the reference cases of tests/golden/schedules/*.jsonl (fields: README.md there) and compares one of our
// schedules with a case: cost, makespan, busy, in flight, memory, bubble rate and the digest of the order.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

namespace rehearsal::schedule::reference {

using nlohmann::json;

// Times, sizes, memory and `group`. The caller adds other inputs of a generator.
inline Problem problem_of(const json& row) {
  const auto time = [&](const char* key) { return Time(row.at(key).get<std::int64_t>()); };
  Problem problem = uniform_problem(row.at("p"), row.at("m"), row.at("v"), time("F"), time("B"), time("W"), time("C"));
  const double activation = row.at("mem").at("f"), weight_hold = -row.at("mem").at("w").get<double>();
  std::fill(problem.activation.begin(), problem.activation.end(), activation);
  std::fill(problem.weight_hold.begin(), problem.weight_hold.end(), weight_hold);
  if (row.contains("group")) problem.group = row.at("group").get<std::uint32_t>();
  if (row.contains("limit") && row.at("limit").is_number()) problem.memory_limit = row.at("limit").get<double>();
  return problem;
}

// A per-rank field, written as one number when all ranks agree.
template <class T>
std::vector<T> per_rank(const json& field, std::uint32_t ranks) {
  return field.is_array() ? field.get<std::vector<T>>() : std::vector<T>(ranks, field.get<T>());
}

inline void compare(const Schedule& unplanned, const Problem& problem, const json& row) {
  CAPTURE(row.at("id").get<std::string>());
  const Schedule schedule = planned(unplanned, problem);
  const Replay got = replay(schedule, problem);
  std::vector<std::int64_t> busy;
  for (Time time : got.busy) busy.push_back(time.count());
  CHECK(got.cost.count() == row.at("cost").get<std::int64_t>());
  CHECK(got.makespan.count() == row.at("makespan").get<std::int64_t>());
  CHECK(busy == per_rank<std::int64_t>(row.at("busy"), problem.ranks));
  CHECK(std::round(got.bubble_rate() * 1e6) == std::round(row.at("bubble_rate").get<double>() * 1e6));
  CHECK(got.in_flight_FW == per_rank<std::int64_t>(row.at("inflight_FW"), problem.ranks));
  CHECK(got.in_flight_FB == per_rank<std::int64_t>(row.at("inflight_FB"), problem.ranks));
  CHECK(got.peak_memory == per_rank<double>(row.at("peak_mem"), problem.ranks));
  CHECK(order_sha256(schedule, problem) == row.at("sha256").get<std::string>());
  CHECK_NOTHROW(check_zero_buffer(schedule, problem));
}

// Calls each(row) for every case of a file. The count detects a truncated file.
template <class Each>
void each_case(const std::string& name, std::size_t expected, const Each& each) {
  std::ifstream file(std::string(TEST_DATA) + "/golden/schedules/" + name);
  REQUIRE(file.good());
  std::size_t rows = 0;
  for (std::string line; std::getline(file, line); ++rows) each(json::parse(line));
  CHECK(rows == expected);
}

}  // namespace rehearsal::schedule::reference
