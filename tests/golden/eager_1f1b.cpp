// 1F1B and eager 1F1B: our orders against the authors' classes, and our times against another simulator, with
// overlapped and with blocking transfers.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "schedule/registry.hpp"
#include "schedule/replay.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

std::vector<std::vector<std::string>> rows(const std::string& name) {
  std::ifstream in(TEST_DATA "/golden/resharding_orders/" + name);
  REQUIRE(in.good());
  std::vector<std::vector<std::string>> all;
  std::string line;
  std::getline(in, line);  // names
  while (std::getline(in, line)) {
    std::stringstream cells(line);
    auto& row = all.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  }
  return all;
}

std::string as_ours(std::string name) { return name == "eager_1f1b" ? "eager-1f1b" : name; }

}  // namespace

TEST_CASE("orders and peaks of every stage") {
  std::size_t count = 0;
  for (const auto& row : rows("order.csv")) {
    const auto& schedule = registry().at(as_ours(row[0]));
    const auto p = std::uint32_t(std::stoul(row[1])), m = std::uint32_t(std::stoul(row[2])),
               stage = std::uint32_t(std::stoul(row[3]));
    CAPTURE(row[0]);
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(stage);
    const auto problem = uniform_problem(p, m, 1, Time(1), Time(1), Time(0), Time(0));
    std::string text;
    for (auto order = schedule.order(problem, stage); order.next();) {
      const auto action = order.value();
      text += (text.empty() ? "" : " ") + std::string(action.op == Op::forward ? "F" : "B") +
              std::to_string(action.microbatch);
    }
    CHECK(text == row[6]);
    CHECK(replay(schedule, problem).in_flight_FB[stage] == std::stol(row[4]));
    ++count;
  }
  CHECK(count > 40);
}

TEST_CASE("iteration times with overlapped and with blocking transfers") {
  constexpr double kUnit = 1e6;  // picoseconds
  std::size_t count = 0;
  for (const auto& row : rows("time.csv")) {
    const auto p = std::uint32_t(std::stoul(row[0])), m = std::uint32_t(std::stoul(row[1]));
    const auto time = [&](std::size_t cell) { return Time(std::int64_t(std::stod(row[cell]) * kUnit)); };
    auto problem = uniform_problem(p, m, 1, time(2), time(3), Time(0), time(4));
    const bool blocking = row[5] == "blocking";
    // One link each way between neighbours: a stage uses one of its two upwards and one downwards.
    for (std::uint32_t hop = 0; hop + 1 < p && !blocking; ++hop)
      problem.held.push_back(time(4)), problem.wire.push_back(hop % 2);
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(row[4]);
    CAPTURE(row[5]);
    const ReplayOptions options{blocking ? Transfers::blocking : Transfers::free, {}};
    CHECK(replay(registry().at("1f1b"), problem, options).makespan == time(6));
    CHECK(replay(registry().at("eager-1f1b"), problem, options).makespan == time(7));
    ++count;
  }
  CHECK(count >= 104);
}
