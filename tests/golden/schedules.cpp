// Orders, costs and peaks equal to those of the peers' own generators (tests/golden/schedules/README.md).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using nlohmann::json;

namespace {

// The house's name of a peer's generator.
std::string house_name(const std::string& generator) {
  if (generator == "zb_h1") return "zb-h1";
  if (generator == "gpipe" || generator == "alpa_gpipe") return "gpipe";
  if (generator == "1f1b" || generator == "alpa_1f1b") return "1f1b";
  return "interleaved-1f1b";
}

Problem problem_of(const json& row) {
  const auto time = [&](const char* key) { return Time(row.at(key).get<std::int64_t>()); };
  Problem problem = uniform_problem(row.at("p"), row.at("m"), row.at("v"), time("F"), time("B"), time("W"), time("C"));
  const double activation = row.at("mem").at("f"), weight_hold = -row.at("mem").at("w").get<double>();
  std::fill(problem.activation.begin(), problem.activation.end(), activation);
  std::fill(problem.weight_hold.begin(), problem.weight_hold.end(), weight_hold);
  const std::string generator = row.at("gen");
  if (row.contains("group")) problem.group = row.at("group").get<std::uint32_t>();
  if (generator == "meg_interleaved_moe_overlap") problem.extra_warmup = 1;
  if (generator == "pt_interleaved_1f1b") {
    const std::uint32_t rounds = std::max(1u, problem.microbatches / problem.ranks);
    problem.group = problem.microbatches / rounds;
  }
  return problem;
}

// A per-rank field, written as one number when all ranks agree.
template <class T>
std::vector<T> per_rank(const json& field, std::uint32_t ranks) {
  return field.is_array() ? field.get<std::vector<T>>() : std::vector<T>(ranks, field.get<T>());
}

void compare(const json& row) {
  CAPTURE(row.at("id").get<std::string>());
  const Schedule& schedule = registry().at(house_name(row.at("gen")));
  const Problem problem = problem_of(row);
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

void compare_file(const std::string& name, std::size_t expected) {
  std::ifstream file(std::string(TEST_DATA) + "/golden/schedules/" + name);
  REQUIRE(file.good());
  std::size_t rows = 0;
  for (std::string line; std::getline(file, line); ++rows) compare(json::parse(line));
  CHECK(rows == expected);
}

}  // namespace

TEST_CASE("gpipe, 1f1b and zb-h1 as in their papers") { compare_file("basic.jsonl", 117); }
TEST_CASE("interleaved-1f1b as planned by Megatron-LM") { compare_file("megatron.jsonl", 123); }
TEST_CASE("gpipe and 1f1b as in alpa") { compare_file("alpa.jsonl", 26); }
TEST_CASE("interleaved-1f1b as in torch.distributed.pipelining") { compare_file("pytorch.jsonl", 36); }
