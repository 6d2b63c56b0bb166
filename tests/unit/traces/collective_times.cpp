// Curves of collectives from traces of several ranks.
#include "traces/collective_times.hpp"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}

// Processes that see two GPUs, on one node then.
std::string seen_two(std::string trace) {
  const std::string devices = R"("deviceProperties":[)";
  trace.insert(trace.find(devices) + devices.size(), R"({"id":9,"name":"made up","numSms":10,"totalGlobalMem":1000},)");
  return trace;
}
CollectiveTimes of(const std::vector<std::string>& texts) {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  std::vector<std::string> paths;
  for (const auto& text : texts) paths.push_back(files.emplace_back(std::make_unique<TemporaryFile>(text))->path());
  return collective_times(read(paths, rules()));
}
std::string words(const CollectiveTimes& times) { return fmt::format("{}", fmt::join(times.notes, "\n")); }

// Of 1000 elements twice: the shorter of 60 and 20, and of 50 and 30; 20 is the least. Of 4000 once: the shorter of 70
// and 90. In bytes twice as many.
const std::vector<std::string> kFirst{collective("allreduce", 100, 60, "[0, 1]"),
                                      collective("allreduce", 200, 50, "[0, 1]"),
                                      collective("allreduce", 300, 70, "[0, 1]", 4000)};
const std::vector<std::string> kSecond{collective("allreduce", 140, 20, "[0, 1]"),
                                       collective("allreduce", 220, 30, "[0, 1]"),
                                       collective("allreduce", 280, 90, "[0, 1]", 4000)};

TEST_CASE("the shortest kernel among the ranks, and the least of a size") {
  const auto times = of({seen_two(trace_of(0, kFirst)), seen_two(trace_of(1, kSecond))});
  REQUIRE(times.curves.measured.size() == 1);
  const auto& [key, points] = *times.curves.measured.begin();
  CHECK(key.first == CollectiveKind::all_reduce);
  CHECK(key.second == 2);
  REQUIRE(points.size() == 2);
  CHECK(points[0].size == Bytes(2000));
  CHECK(us(points[0].time) == 20);
  CHECK(points[1].size == Bytes(8000));
  CHECK(us(points[1].time) == 70);
  CHECK(words(times).find("all-reduce of 2 ranks: 2 sizes") != std::string::npos);
}

TEST_CASE("what includes waiting, or is of one size, or of ranks that may be apart, makes no curve") {
  const auto alone = of({seen_two(trace_of(0, kFirst))});
  CHECK(alone.curves.empty());
  CHECK(words(alone).find("3 collectives are not used: their times include waiting") != std::string::npos);
  const auto one_size =
      of({seen_two(trace_of(0, {kFirst[0], kFirst[1]})), seen_two(trace_of(1, {kSecond[0], kSecond[1]}))});
  CHECK(one_size.curves.empty());
  CHECK(words(one_size).find("of one size alone, 1.95 KiB in 20.000 us") != std::string::npos);
  const auto apart = of({trace_of(0, kFirst), trace_of(1, kSecond)});
  CHECK(apart.curves.empty());
  CHECK(words(apart).find("6 collectives are not used: whether their ranks share a node is not known") !=
        std::string::npos);
}

}  // namespace
}  // namespace rehearsal::traces
