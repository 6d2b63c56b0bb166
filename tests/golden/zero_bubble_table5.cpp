// The 72 bubble rates of Table 5 of Zero Bubble Pipeline Parallelism (arXiv 2401.10241), from the times of its Table 9,
// to the four printed digits: five columns by replaying our orders, the interleaved one from its closed form.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "schedule/registry.hpp"
#include "schedule/replay.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) all.push_back(cell);
  return all;
}

std::vector<Row> table() {
  std::ifstream file(std::string(TEST_DATA) + "/golden/zero_bubble_table5.csv");
  REQUIRE(file.good());
  std::vector<Row> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const auto fields = cells(line);
    if (header.empty()) {
      header = fields;
      continue;
    }
    REQUIRE(fields.size() == header.size());
    Row row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = fields[i];
    rows.push_back(row);
  }
  return rows;
}

std::uint32_t count(const Row& row, const char* key) { return std::uint32_t(std::stoul(row.at(key))); }
std::int64_t microseconds(const Row& row, const char* key) { return std::stoll(row.at(key)); }

// One chunk per rank; a unit of time is a microsecond. Memory per token and layer (Table 1 of the paper): M_B = 34h +
// 5as, of which M_W = 32h stays until the weight gradient.
Problem problem_of(const Row& row) {
  Problem problem =
      uniform_problem(count(row, "p"), count(row, "m"), 1, Time(microseconds(row, "F")), Time(microseconds(row, "B")),
                      Time(microseconds(row, "W")), Time(microseconds(row, "comm")));
  const double h = count(row, "hidden"), a = count(row, "heads"), s = count(row, "seq");
  std::fill(problem.activation.begin(), problem.activation.end(), 34 * h + 5 * a * s);
  std::fill(problem.weight_hold.begin(), problem.weight_hold.end(), 32 * h);
  return problem;
}

// Rates as printed in the table: in ten-thousandths.
long printed(double rate) { return std::lround(rate * 1e4); }

}  // namespace

TEST_CASE("Table 5 from orders of the house") {
  const std::map<std::string, std::string> columns{
      {"1F1B", "1f1b"}, {"ZB-H1", "zb-h1"}, {"ZB-H2", "zb-h2"}, {"ZB-1p", "zb-1p"}, {"ZB-2p", "zb-2p"}};
  const auto rows = table();
  CHECK(rows.size() == 12);
  for (const auto& [column, name] : columns) {
    const Schedule& schedule = registry().at(name);
    for (const Row& row : rows) {
      CAPTURE(fmt::format("{} {} p={} m={}", name, row.at("model"), row.at("p"), row.at("m")));
      CHECK(printed(replay(schedule, problem_of(row)).bubble_rate()) == printed(std::stod(row.at(column))));
    }
  }
}

// One chunk per layer, v = (layers + 2) / p: the first and the last rank have one layer less, because of embedding and
// head. The column follows mS + (p-1)S/v + (2pv - p - 2)C. Megatron's order, replayed, pays every gap both ways, 2(pv -
// 1)C: that is p C more.
TEST_CASE("the interleaved column of Table 5 from its closed form, the order of Megatron beside it") {
  for (const Row& row : table()) {
    const std::int64_t p = count(row, "p"), m = count(row, "m"), v = (count(row, "layers") + 2) / p;
    const std::int64_t f = microseconds(row, "F"), b = microseconds(row, "B"), w = microseconds(row, "W"),
                       c = microseconds(row, "comm"), s = f + b + w;
    // A chunk takes 1/v of a stage: in units of 1/v microsecond all times are integers.
    const std::int64_t cost = v * m * s + (p - 1) * s + v * (2 * p * v - p - 2) * c;
    const auto rate = [&](std::int64_t of) { return double(of - v * m * s) / double(of); };
    CAPTURE(fmt::format("{} p={} m={}", row.at("model"), p, m));
    CHECK(printed(rate(cost)) == printed(std::stod(row.at("1F1B-I"))));

    const Problem problem =
        uniform_problem(std::uint32_t(p), std::uint32_t(m), std::uint32_t(v), Time(f), Time(b), Time(w), Time(v * c));
    const std::int64_t replayed = replay(registry().at("interleaved-1f1b"), problem).cost.count();
    CHECK(replayed == cost + v * p * c);
    MESSAGE(fmt::format("{} p={} m={}: paper {}, order of Megatron {:.4f}", row.at("model"), p, m, row.at("1F1B-I"),
                        rate(replayed)));
  }
}
