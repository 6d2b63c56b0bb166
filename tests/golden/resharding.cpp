// Resharding against the original solvers and against proven optima (tests/golden/resharding/README.md).
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "reshard/bounds.hpp"
#include "reshard/registry.hpp"
#include "reshard/transfers.hpp"
#include "scenario/reshard_file.hpp"

using namespace rehearsal;
using namespace rehearsal::reshard;
using nlohmann::json;
using Ids = std::vector<std::uint32_t>;

namespace {

std::vector<json> rows_of(const std::string& file, std::size_t expected) {
  std::ifstream in(std::string(TEST_DATA) + "/golden/resharding/" + file);
  REQUIRE(in.good());
  std::vector<json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  CHECK(rows.size() == expected);  // detects a truncated file
  return rows;
}

Resharding resharding_of(const json& row) {
  const auto layout = [&](const char* mesh, const char* spec) {
    return Layout{{row.at(mesh)[0], row.at(mesh)[1]}, parse_spec(row.at(spec).get<std::string>())};
  };
  return {layout("src_mesh", "src_spec"), layout("dst_mesh", "dst_spec"),
          row.at("tensor_shape").get<std::vector<std::int64_t>>()};
}

// Tasks as given in the files, with NIC ids assigned here.
std::vector<Transfer> given(const json& works, const char* senders, const char* receivers, const char* duration) {
  std::vector<Transfer> list;
  for (const auto& work : works) {
    Transfer t;
    t.unit = std::uint32_t(list.size());
    t.size = t.work = work.at(duration).get<std::int64_t>();
    t.senders = t.sender_devices = work.at(senders).get<Ids>();
    t.receivers = t.receiver_devices = work.at(receivers).get<Ids>();
    list.push_back(t);
  }
  return list;
}

// Validity check that is independent of the planners and their own check: every task once, whole, from a NIC that has
// it; each side of a NIC does one thing at a time.
void check_valid(const std::vector<Transfer>& transfers, const Numbered& numbered, const Plan& plan) {
  std::map<std::uint32_t, int> sent;
  std::map<std::uint32_t, std::vector<std::pair<std::int64_t, std::int64_t>>> sending, receiving;
  std::int64_t last = 0;
  for (const auto& s : plan.schedule) {
    const auto& t = transfers.at(s.task);
    const auto nic = numbered.sender_nics.at(s.sender);
    CHECK(std::count(t.senders.begin(), t.senders.end(), nic) == 1);
    CHECK(s.end - s.start == t.work);
    CHECK(s.start >= 0);
    sent[s.task]++;
    sending[nic].emplace_back(s.start, s.end);
    for (const auto r : t.receivers) receiving[r].emplace_back(s.start, s.end);
    last = std::max(last, s.end);
  }
  CHECK(sent.size() == transfers.size());
  CHECK(plan.schedule.size() == transfers.size());
  CHECK(plan.makespan == last);
  for (auto* side : {&sending, &receiving})
    for (auto& [nic, times] : *side)
      for (auto& a : times)
        for (auto& b : times)
          if (&a != &b) CHECK((a.second <= b.first || b.second <= a.first));
}

Plan plan_of(const std::vector<Transfer>& transfers, const std::string& planner, std::uint64_t seed = 0) {
  auto numbered = number(transfers);
  numbered.problem.seed = seed;
  const Plan plan = make_plan(registry().at(planner), numbered.problem);
  check_valid(transfers, numbered, plan);
  CHECK(plan.makespan >= plan.lower_bound);
  return plan;
}

Ids senders_of(const std::vector<Transfer>& transfers, const Plan& plan) {
  const auto numbered = number(transfers);
  Ids ids(transfers.size());
  for (const auto& s : plan.schedule) ids[s.task] = numbered.sender_nics[s.sender];
  return ids;
}

// Checks that apply to every file's instances.
void compare(const std::vector<Transfer>& list, const json& results) {
  const auto& best_known = results.at("best_known");
  REQUIRE(best_known.at("proved_optimal") == true);
  const std::int64_t optimum = best_known.at("makespan");
  const auto b = bounds(number(list).problem);
  CHECK(b.receiver == results.at("lower_bounds").at("receiver"));
  CHECK(b.sender == results.at("lower_bounds").at("sender"));
  CHECK(b.task == results.at("lower_bounds").at("task"));
  if (list.size() < 64) CHECK(b.clique == results.at("lower_bounds").at("clique"));  // else the source omits it
  CHECK(b.pigeonhole == results.at("lower_bounds").at("pigeonhole"));

  CHECK(plan_of(list, "naive").makespan == results.at("naive").at("makespan"));
  const Plan balanced = plan_of(list, "load-balance");
  CHECK(balanced.makespan == results.at("loadbalance_size").at("makespan"));
  CHECK(senders_of(list, balanced) == results.at("loadbalance_size").at("sender_hosts").get<Ids>());

  const auto& dfs = results.at("dfs_pruned_1s");
  const Plan searched = plan_of(list, "dfs");
  CHECK(searched.makespan <= dfs.at("makespan"));
  if (dfs.at("finished") == true) CHECK(searched.makespan == dfs.at("makespan"));

  const auto& greedy = results.at("randomized_greedy");
  std::vector<std::int64_t> drawn;
  for (std::uint64_t seed = 0; seed < 9; seed++) drawn.push_back(plan_of(list, "greedy", seed).makespan);
  std::sort(drawn.begin(), drawn.end());
  CHECK(drawn[4] >= greedy.at("min"));
  CHECK(drawn[4] <= greedy.at("max"));

  const Plan best = plan_of(list, "best");
  CHECK(best.makespan == optimum);
  CHECK(best.optimal());
  CHECK(best.makespan <= searched.makespan);
  CHECK(best.makespan <= drawn[4]);
  CHECK(best.makespan <= greedy.at("median"));
}

}  // namespace

TEST_CASE("the unit tasks of every grid case") {
  for (const auto& row : rows_of("cases.jsonl", 23)) {
    CAPTURE(row.at("id").get<std::string>());
    const auto resharding = resharding_of(row);
    const auto units = unit_tasks(resharding);
    const auto by_nic = transfers(resharding, {});
    const auto& expected = row.at("unit_tasks");
    REQUIRE(units.size() == expected.size());
    REQUIRE(by_nic.size() == expected.size());
    for (std::size_t i = 0; i < units.size(); i++) {
      const auto& task = expected[i];
      CHECK(units[i].destination_tile == task.at("dst_tile"));
      CHECK(units[i].size == task.at("size"));
      for (std::size_t d = 0; d < units[i].box.size(); d++)
        CHECK(units[i].box[d] == Interval{task.at("box")[d][0], task.at("box")[d][1]});
      CHECK(units[i].senders == task.at("senders").get<Ids>());
      CHECK(units[i].receivers == task.at("receivers").get<Ids>());
      CHECK(by_nic[i].senders == task.at("sender_hosts").get<Ids>());
      CHECK(by_nic[i].receivers == task.at("receiver_hosts").get<Ids>());
    }
  }
}

TEST_CASE("planners on the grid cases") {
  for (const auto& row : rows_of("cases.jsonl", 23)) {
    CAPTURE(row.at("id").get<std::string>());
    const auto list = transfers(resharding_of(row), {});
    compare(list, row.at("results"));
    const auto& normal = row.at("results").at("normal_by_device_loads");
    CHECK(plan_of(list, "normal").makespan == normal.at("makespan"));
  }
}

TEST_CASE("planners on instances with unequal tasks") {
  for (const auto& row : rows_of("abstract.jsonl", 10)) {
    CAPTURE(row.at("id").get<std::string>());
    compare(given(row.at("works"), "sender_hosts", "receiver_hosts", "duration"), row.at("results"));
  }
}

TEST_CASE("planners with a NIC for every GPU") {
  std::map<std::string, json> cases;
  for (const auto& row : rows_of("cases.jsonl", 23)) cases[row.at("id")] = row;
  for (const auto& row : rows_of("per_gpu_nic.jsonl", 12)) {
    CAPTURE(row.at("id").get<std::string>());
    Method method;
    method.nic = NicSharing::gpu;
    const auto list = transfers(resharding_of(cases.at(row.at("base_case"))), method);
    const auto works = given(row.at("works"), "senders", "receivers", "duration");
    REQUIRE(list.size() == works.size());
    for (std::size_t i = 0; i < list.size(); i++) {
      CHECK(list[i].senders == works[i].senders);
      CHECK(list[i].receivers == works[i].receivers);
      CHECK(list[i].work == works[i].work);
    }
    compare(list, row.at("results"));
  }
}

TEST_CASE("send/recv with and without the original's local all-gather, message by message") {
  std::size_t rewritten = 0;
  for (const auto& row : rows_of("cases.jsonl", 23)) {
    CAPTURE(row.at("id").get<std::string>());
    const auto resharding = resharding_of(row);
    Method method;
    method.strategy = Strategy::send_recv;
    const auto& plain = row.at("results").at("send_recv");
    const auto messages = transfers(resharding, method);
    CHECK(messages.size() == plain.at("messages"));
    CHECK(plan_of(messages, "normal").makespan == plain.at("makespan"));

    const auto& gathered = row.at("results").at("send_recv_local_allgather");
    const bool applies = alpa_allgather_applies(side_of(resharding.destination, resharding.shape));
    REQUIRE(applies == gathered.at("applicable").get<bool>());
    if (!applies) continue;
    rewritten++;
    method.strategy = Strategy::alpa_allgather;
    const auto parts = transfers(resharding, method);
    CHECK(parts.size() == gathered.at("messages"));
    CHECK(plan_of(parts, "normal").makespan == gathered.at("makespan"));
  }
  CHECK(rewritten == 9);
}

TEST_CASE("the benchmark's cases as shipped") {
  // paper_cases.csv: suite,case,src_mesh,dst_mesh,src_spec,dst_spec,tensor_shape,...
  std::ifstream in(std::string(TEST_DATA) + "/golden/resharding/paper_cases.csv");
  std::string line;
  std::getline(in, line);
  std::size_t rows = 0;
  const auto joined = [](const auto& numbers) {
    std::string text;
    for (const auto n : numbers) text += (text.empty() ? "" : "x") + std::to_string(n);
    return text;
  };
  const auto text_of = [&](const Layout& layout) { return joined(std::vector{layout.mesh.rows, layout.mesh.columns}); };
  while (std::getline(in, line)) {
    if (!line.starts_with("n-to-m,")) continue;
    std::vector<std::string> cells;
    std::istringstream cut(line);
    for (std::string cell; cells.size() < 7 && std::getline(cut, cell, ',');) cells.push_back(cell);
    CAPTURE(line);
    const auto question = scenario::load_reshard(PROJECT_ROOT "/scenarios/reshard/" + cells[1] + ".yaml");
    REQUIRE(question.resharding);
    const auto& asked = *question.resharding;
    CHECK(text_of(asked.source) == cells[2]);
    CHECK(text_of(asked.destination) == cells[3]);
    CHECK(to_text(asked.source.spec) == cells[4]);
    CHECK(to_text(asked.destination.spec) == cells[5]);
    CHECK(joined(asked.shape) == cells[6]);
    CHECK(question.method.element_bytes == 4);
    CHECK(question.method.strategy == Strategy::broadcast);
    rows++;
  }
  CHECK(rows == 9);
}
