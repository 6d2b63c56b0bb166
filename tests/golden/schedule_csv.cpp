// Orders as CSV of torch.distributed.pipelining: its SEND and RECV cells, export and import.
#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "reference_cases.hpp"
#include "report/schedule_report.hpp"
#include "scenario/scenario.hpp"
#include "schedule/csv.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using nlohmann::json;

namespace {

std::string csv(const Schedule& schedule, const Problem& problem, bool messages) {
  std::string text;
  export_csv(schedule, problem, {messages}, [&](std::string_view piece) { text += piece; });
  return text;
}

Problem like(const Imported& imported, Time forward = Time(10), Time input = Time(12), Time weight = Time(8),
             Time transfer = Time(1)) {
  Problem problem =
      uniform_problem(imported.ranks, imported.microbatches, imported.chunks, forward, input, weight, transfer);
  problem.pieces = imported.pieces;
  problem.stage_ranks = imported.stage_ranks;
  return problem;
}

std::string house_name(const std::string& generator) {
  if (generator == "pt_interleaved_1f1b") return "interleaved-1f1b";
  if (generator == "pt_interleaved_zb") return "interleaved-zb";
  if (generator == "pt_zbv") return "zb-v-hand";
  return "dualpipev";
}

}  // namespace

TEST_CASE("SEND and RECV cells equal those of torch.distributed.pipelining") {
  std::size_t compared = 0;
  reference::each_case("pytorch_comms.jsonl", 12, [&](const json& row) {
    CAPTURE(row.at("id").get<std::string>());
    std::string expected;
    for (const std::string rank : row.at("ranks")) expected += rank + "\n";

    // Import drops the messages; export writes the same ones again.
    const Imported imported = import_csv(expected, "comms.csv", "comms");
    CHECK(imported.warnings.size() == 1);
    CHECK(csv(imported.schedule, like(imported), true) == expected);

    const Schedule* schedule = registry().find(house_name(row.at("gen")));
    REQUIRE(schedule);
    const Problem problem =
        uniform_problem(row.at("p"), row.at("m"), row.at("v"), Time(10), Time(10), Time(10), Time(1));
    CHECK(csv(*schedule, problem, true) == expected);
    ++compared;
  });
  CHECK(compared == 12);
}

TEST_CASE("every schedule comes back from its CSV as the same order") {
  std::size_t tried = 0;
  for (const auto& [name, schedule] : registry()) {
    if (schedule.placement == Placement::vocabulary) continue;  // a file has the order of chains alone
    std::size_t found = 0;
    for (const auto& [p, m] : {std::pair{2u, 4u}, std::pair{4u, 8u}, std::pair{3u, 6u}, std::pair{1u, 3u}}) {
      for (std::uint32_t v = schedule.min_chunks; v <= std::min(schedule.max_chunks, schedule.min_chunks + 1); ++v) {
        Problem problem = uniform_problem(p, m, v, Time(10), Time(12), Time(8), Time(1));
        problem.time_limit = seconds(0.01);
        Schedule ready;
        try {
          ready = planned(schedule, problem);
          check(ready, problem);
        } catch (const UserError&) {
          continue;  // not every size is legal for every schedule
        }
        CAPTURE(name);
        CAPTURE(p);
        CAPTURE(v);
        ++found;
        const Imported back = import_csv(csv(ready, problem, false), "x.csv", "x");
        CHECK(back.warnings.empty());
        const Problem same = like(back);
        CHECK(back.ranks == p);
        CHECK(back.microbatches == m);
        CHECK(back.chunks == v);
        CHECK(order_sha256(back.schedule, same) == order_sha256(ready, problem));
        const Replay before = replay(ready, problem), after = replay(back.schedule, same);
        CHECK(after.cost == before.cost);
        CHECK(after.peak_memory == before.peak_memory);
      }
    }
    CAPTURE(name);
    CHECK(found > 0);
    tried += found;
  }
  CHECK(tried > 20);
}

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder for the files of one test, removed at its end.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearsal-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }
};

}  // namespace

// rehearse schedule zb-h1 --pipeline 4 --microbatches 8 --forward 5ms --backward 5ms --weight 5ms --transfer 100us
//   --weight-hold 0.5 --memory-limit 4 --svg docs/zb-h1.svg
TEST_CASE("the picture of the README is what the program draws, to the byte") {
  const auto milliseconds = [](std::int64_t n) { return picoseconds(n * 1'000'000'000); };
  Problem problem =
      uniform_problem(4, 8, 1, milliseconds(5), milliseconds(5), milliseconds(5), picoseconds(100'000'000));
  problem.memory_limit = 4;
  std::fill(problem.weight_hold.begin(), problem.weight_hold.end(), 0.5);
  const auto result = schedule::evaluate(registry().at("zb-h1"), problem, {schedule::WantOrder::never, true});
  const std::string svg = report::to_svg(result);
  CHECK(svg == read(PROJECT_ROOT "/docs/zb-h1.svg"));
  // 4 ranks x 8 micro-batches x 3 boxes, each with its number, and the legend's three letters.
  std::size_t boxes = 0;
  for (std::size_t at = svg.find("><title>"); at != std::string::npos; at = svg.find("><title>", at + 1)) ++boxes;
  CHECK(boxes == 96);
}

TEST_CASE("a scenario takes its order from a file beside it, and runs like the schedule it came from") {
  const Folder folder;
  const Problem problem = uniform_problem(4, 8, 1, Time(1), Time(1), Time(1), Time(0));
  folder.write("mine.csv", csv(registry().at("zb-h1"), problem, false));
  folder.write("spaced.csv", " , " + csv(registry().at("zb-h1"), problem, false));
  const auto scenario = [&](const std::string& schedule) {
    folder.write("s.yaml", "version: 1\nname: s\nschedule: " + schedule +
                               "\nparallelism: {pipeline: 4}\nbatch: {microbatches: 8}\n"
                               "costs: {forward: 5ms, backward: 4ms, weight: 3ms, transfer: 100us}\n");
    return scenario::load((folder.path / "s.yaml").string());
  };
  const auto time = [&](const std::string& schedule) {
    return answer::predict(scenario(schedule)).timeline.makespan().count();
  };
  CHECK(time("{file: mine.csv}") == time("zb-h1"));
  CHECK(scenario("{file: mine.csv}").schedule.name == "mine");
  // The digest depends on the order itself, not on how the file is formatted.
  const auto order = [&](const std::string& file) { return scenario("{file: " + file + "}").schedule.imported_sha256; };
  CHECK(order("mine.csv") == order("spaced.csv"));
  folder.write("mine.csv", csv(registry().at("1f1b"), problem, false));
  CHECK(order("mine.csv") != order("spaced.csv"));

  const auto refused = [&](const std::string& schedule) -> std::string {
    try {
      scenario(schedule);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  folder.write("bad.csv", "0F0,0B0\n1B0,1F0\n");
  CHECK(refused("{file: bad.csv}").find("bad.csv:2:1: error: rank 1, cell 0 (1B0): runs before 1F0") !=
        std::string::npos);
  CHECK(refused("{file: gone.csv}").find("s.yaml:3:18: error: '") != std::string::npos);
  CHECK(refused("{file: mine.csv, name: 1f1b}").find("not both") != std::string::npos);
  folder.write("two.csv", "0F0,0B0\n1F0,1B0\n");
  CHECK(refused("{file: two.csv}").find("the file is for 2 ranks, not 4; set pipeline to 2") != std::string::npos);
}
