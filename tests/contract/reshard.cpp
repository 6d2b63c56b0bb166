// rehearse reshard as its users meet it: JSON of the contract, checked by what it says alone; files; errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../rehearse.hpp"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::string kCases = PROJECT_ROOT "/scenarios/reshard/";

json plan_of(const std::string& arguments) {
  const auto run = rehearse("reshard " + arguments + " --format json");
  REQUIRE_MESSAGE(run.status == 0, run.err);
  CHECK(run.err.empty());
  return json::parse(run.out);
}

std::int64_t elements(const json& box) {
  std::int64_t n = 1;
  for (const auto& side : box) n *= side[1].get<std::int64_t>() - side[0].get<std::int64_t>();
  return n;
}

// From the answer alone: every task whole, by one that has it, one thing at a time on each side of each NIC. `copies` =
// how often each element of the tensor must arrive, over all destination tiles.
void check_plan(const json& plan, std::int64_t tensor, std::int64_t copies) {
  std::vector<std::int64_t> sent(plan["tasks"].size());
  std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> out, in;
  std::int64_t last = 0, moved = 0;
  for (const auto& entry : plan["schedule"]) {
    const auto& task = plan["tasks"][entry["task"].get<std::size_t>()];
    const std::int64_t start = entry["start"], end = entry["end"];
    CHECK(std::count(task["senders"].begin(), task["senders"].end(), entry["sender"]) == 1);
    sent[entry["task"].get<std::size_t>()] += end - start;
    out[entry["sender"]].emplace_back(start, end);
    for (const int nic : task["receivers"]) in[nic].emplace_back(start, end);
    last = std::max(last, end);
  }
  for (auto* side : {&out, &in})
    for (auto& [nic, times] : *side) {
      std::sort(times.begin(), times.end());
      for (std::size_t i = 1; i < times.size(); i++) CHECK(times[i - 1].second <= times[i].first);
    }
  for (std::size_t t = 0; t < sent.size(); t++) {
    const auto& task = plan["tasks"][t];
    CHECK(sent[t] == task["size"]);
    CHECK(elements(task["box"]) == task["size"]);
    moved += task["size"].get<std::int64_t>();
  }
  CHECK(moved == tensor * copies);
  CHECK(plan["makespan"] == last);
  CHECK(plan["lower_bound"] <= plan["makespan"]);
  CHECK(plan["optimal"] == (plan["lower_bound"] == plan["makespan"]));
  CHECK(plan["time_s"].get<double>() > 0);
  CHECK(plan["effective_bandwidth_bytes_per_s"].get<double>() <= plan["bandwidth_bound_bytes_per_s"].get<double>());
}

}  // namespace

TEST_CASE("every planner on every case of the paper: plans that hold, ours proven optimal") {
  for (int n = 1; n <= 9; n++) {
    const std::string file = "'" + kCases + "case" + std::to_string(n) + ".yaml'";
    CAPTURE(file);
    const std::int64_t tensor = n == 6 ? 3072LL * 1024 * 170 : 1024LL * 1024 * 512;
    const auto best = plan_of(file);
    check_plan(best, tensor, 1);
    CHECK(best["schedule"].size() == best["tasks"].size());
    CHECK(best["optimal"] == true);
    for (const std::string planner : {"naive", "normal", "load-balance", "dfs", "greedy"}) {
      CAPTURE(planner);
      const auto plan = plan_of(file + " --set planner=" + planner);
      check_plan(plan, tensor, 1);
      CHECK(plan["makespan"] >= best["makespan"]);
    }
  }
}

TEST_CASE("case 9 in numbers") {
  // Hosts 0 and 1 each have half of what hosts 2 and 3 each need half of: four quarters of 2^27 elements, two rounds.
  const auto plan = plan_of("'" + kCases + "case9.yaml'");
  CHECK(plan["makespan"] == 268435456);
  REQUIRE(plan["tasks"].size() == 4);
  CHECK(plan["tasks"][1]["box"] == json::parse("[[0,1024],[512,1024],[0,256]]"));
  CHECK(plan["tasks"][1]["size"] == 134217728);
  CHECK(plan["tasks"][1]["senders"] == json{1});
  CHECK(plan["tasks"][1]["receivers"] == json{2});
  // Two quarters of 2^29 bytes at 1.25 GB/s; of each 100 chunks with 5 us. The last chunk takes 3 NVLink hops more.
  const double quarter = 134217728.0 * 4, hop = quarter / 100 / 1.25e9 + 5e-6, inside = quarter / 100 / 150e9 + 5e-6;
  CHECK(plan["time_s"].get<double>() == doctest::Approx(2 * 100 * hop + 3 * inside));
  CHECK(plan["tensor_bytes"] == 2147483648);
}

TEST_CASE("strategies: what each needs of the NICs") {
  // Case 7: four quarters to 2 hosts of 4, replicated. Messages: 8 full copies of everything from one NIC; parts for
  // each host: 2; no all-gather by the original's rule, since the copies lie on two hosts; all over: once and a half;
  // broadcast: once.
  const std::string file = "'" + kCases + "case7.yaml' --set strategy=";
  const std::int64_t tensor = 1024LL * 1024 * 512;
  CHECK(plan_of(file + "send-recv")["makespan"] == 8 * tensor);
  const auto departed = plan_of(file + "alpa-allgather");
  CHECK(departed["makespan"] == 8 * tensor);
  CHECK(departed["strategy"] == "alpa-allgather");
  CHECK(departed["performed"] == json{"send-recv"});
  REQUIRE(departed["warnings"].size() == 1);
  CHECK(contains(departed["warnings"][0].get<std::string>(), "performed as send-recv"));
  CHECK(contains(shell(std::string(REHEARSE_BINARY) + " reshard " + file + "alpa-allgather").out,
                 "send-recv instead of alpa-allgather"));
  // Where the copies of a tile share a host the rule holds.
  const auto kept = plan_of("'" + kCases + "case1.yaml' --set strategy=alpa-allgather");
  CHECK(kept["performed"] == json{"alpa-allgather"});
  CHECK(kept["warnings"].empty());
  const auto twice = plan_of(file + "local-allgather");
  CHECK(twice["makespan"] == 2 * tensor);
  CHECK(twice["performed"] == json{"local-allgather"});
  CHECK(twice["warnings"].empty());
  CHECK(plan_of(file + "global-allgather")["makespan"] == tensor * 3 / 2);
  CHECK(plan_of(file + "broadcast")["makespan"] == tensor);
  CHECK(plan_of(file + "auto")["makespan"] == tensor);
  const auto optimal = plan_of(file + "broadcast --set chunks=optimal");
  for (const char* chunks : {"1", "2", "10", "100", "200", "300", "1000", "10000"})
    CHECK(optimal["time_s"] <= plan_of(file + "broadcast --set chunks=" + chunks)["time_s"]);
  CHECK(optimal["chunks"] > 10);
  check_plan(plan_of(file + "send-recv"), tensor, 8);
  // With a NIC for every GPU stripes use all of them: source tile j to the j-th GPUs and on by NVLink.
  CHECK(plan_of(file + "auto --set nic=gpu")["makespan"] == tensor / 4);
}

TEST_CASE("tasks as they are, whole and shared") {
  Scratch scratch;
  const std::string file = (scratch.folder / "tasks.json").string();
  std::ofstream(file) << R"({"tasks": [{"senders": [0, 1], "receivers": [5], "work": 4},)"
                      << R"( {"senders": [0, 1], "receivers": [6], "work": 4},)"
                      << R"( {"senders": [0, 1], "receivers": [7], "work": 4}]})";
  // Three tasks of 4 for two senders: one of them sends two. Shared, each sends 6.
  const auto whole = plan_of(file);
  CHECK(whole["makespan"] == 8);
  CHECK(whole["optimal"] == true);
  CHECK(whole["schedule"].size() == 3);
  CHECK(whole["tasks"][0]["box"].is_null());
  const auto shared = plan_of(file + " --set split=true");
  CHECK(shared["makespan"] == 6);
  CHECK(shared["optimal"] == true);
  CHECK(shared["schedule"].size() > 3);
  std::map<int, std::int64_t> sent, by_sender;
  for (const auto& s : shared["schedule"]) {
    sent[s["task"]] += s["end"].get<std::int64_t>() - s["start"].get<std::int64_t>();
    by_sender[s["sender"]] += s["end"].get<std::int64_t>() - s["start"].get<std::int64_t>();
  }
  CHECK(sent == std::map<int, std::int64_t>{{0, 4}, {1, 4}, {2, 4}});
  CHECK(by_sender == std::map<int, std::int64_t>{{0, 6}, {1, 6}});
}

TEST_CASE("text, CSV, a picture, and a table of planners") {
  const std::string file = "'" + kCases + "case3.yaml'";
  const auto text = rehearse("reshard " + file);
  CHECK(text.status == 0);
  CHECK(contains(text.out, "268,435,456: optimal"));
  CHECK(contains(text.out, "host 3 in "));
  CHECK_FALSE(contains(text.out, "\x1b["));
  CHECK(contains(rehearse("reshard " + file + " --set planner=naive").out, "at most 50.00 % above it"));

  const auto csv = rehearse("reshard " + file + " --format csv").out;
  CHECK(csv.starts_with("task,strategy,box,size,senders,receivers,sender,start,end\n"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 5);

  Scratch scratch;
  const auto svg = scratch.folder / "x.svg";
  CHECK(rehearse("reshard " + file + " --svg '" + svg.string() + "'").status == 0);
  CHECK(read(svg).starts_with("<svg "));
  CHECK(contains(read(svg), "host 3 in"));

  const auto compared = rehearse("reshard --compare " + file + " '" + kCases + "case4.yaml' --format json");
  const auto rows = json::parse(compared.out)["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["name"] == "case3");
  CHECK(rows[0]["makespan"]["naive"] == 402653184);
  CHECK(rows[1]["makespan"]["load-balance"] == 503316480);
  CHECK(rows[1]["makespan"]["best"] == 268435456);
  CHECK(rehearse("reshard --compare " + file + " --format csv")
            .out.starts_with("question,dfs,greedy,load-balance,naive,normal,best,lower_bound,optimal\n"));
  CHECK(contains(rehearse("reshard --compare " + file).out, "optimal"));
}

TEST_CASE("the same question gives the same bytes") {
  for (const std::string planner : {"greedy", "best"}) {
    const std::string line = "reshard '" + kCases + "case4.yaml' --set seed=3 --format json --set planner=" + planner;
    CHECK(rehearse(line).out == rehearse(line).out);
  }
}

TEST_CASE("help names every planner, and its first example runs") {
  const auto help = rehearse("reshard --help");
  CHECK(help.status == 0);
  for (const char* planner : {"naive", "normal", "load-balance", "dfs", "greedy", "best"})
    CHECK(contains(help.out, std::string("\n  ") + planner + " "));
  CHECK(rehearse("reshard '" + kCases + "case4.yaml'").status == 0);
}

TEST_CASE("wrong questions: status 2, nothing on standard output, every rule by its place") {
  Scratch scratch;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& complaints) {
    const auto path = (scratch.folder / "bad.yaml").string();
    std::ofstream(path) << text;
    for (const std::string command : {"reshard ", "check "}) {
      const auto run = rehearse(command + "'" + path + "'");
      CAPTURE(run.err);
      CHECK(run.status == 2);
      CHECK(run.out.empty());
      for (const auto& complaint : complaints) {
        CAPTURE(complaint);
        CHECK(contains(run.err, path + ":" + complaint));
      }
      CHECK(std::size_t(std::count(run.err.begin(), run.err.end(), '\n')) == complaints.size());
    }
  };
  refused(
      "source: {mesh: [2, 4, 1], spec: S0S0R}\n"
      "destination: {mesh: [2, .nan], spec: RR, specs: 3}\n"
      "tensor: {shape: [-4, 1024, x], dtype: fp31}\n"
      "strategy: brodcast\n"
      "planner: bst\n"
      "chunks: -3\n"
      "link: {nic: -10Gb/s, latency: nan}\n"
      "seed: -1\n"
      "nik: host\n",
      {"1:16: error: 'mesh' must be [rows, columns]; found a list of 3",
       "1:33: error: spec 'S0S0R' names mesh axis 0 twice",
       "2:25: error: an entry of 'mesh' must be a whole number from 1",
       "2:42: error: unknown key 'specs' in 'destination'; did you mean 'spec'?",
       "3:18: error: an entry of 'shape' must be a whole number from 1", "3:28: error: an entry of 'shape'",
       "3:39: error: 'dtype' must be one of", "4:11: error: 'strategy' must be one of",
       "5:10: error: unknown planner 'bst'; did you mean 'best'?", "6:9: error: 'chunks' must be a whole number",
       "7:13: error: 'nic': bandwidth '-10Gb/s' is negative", "7:31: error: 'latency': time 'nan'",
       "8:7: error: 'seed' must be", "9:1: error: unknown key 'nik'; did you mean 'nic'?"});
  const std::string meshes = "source: {mesh: [2, 4], spec: S0R}\ndestination: {mesh: [2, 4], spec: RR}\n";
  refused(meshes + "tensor: {shape: [8]}\n", {"1:30: error: spec 'S0R' is for 2 dimensions, but 'shape' has 1",
                                              "2:35: error: spec 'RR' is for 2 dimensions, but 'shape' has 1"});
  refused(meshes + "tensor: {shape: [1000000000000, 2]}\n", {"3:17: error: a tensor of more than 1000000000000"});
  refused(meshes + "tensor: {shape: [8, 8]}\nsplit: true\nplanner: dfs\n", {"4:8: error: 'split' is for planner best"});
  refused(
      "tasks:\n  - {senders: [], receivers: [1, 1], work: 0}\n  - {senders: [1], receivers: [1], work: .inf}\n  - 3\n"
      "source: {}\nstrategy: send-recv\n",
      {"2:15: error: 'senders' must be a list", "2:30: error: 'receivers' names a NIC twice",
       "2:44: error: 'work' must be a whole number", "3:31: error: NIC 1 both sends and receives",
       "3:42: error: 'work' must be a whole number", "4:5: error: 'tasks' must be a mapping",
       "5:9: error: 'source' is for tensors on meshes", "6:11: error: tasks that are given directly are broadcast"});
  refused("source: {mesh: [2, 2], spec: R}\n",
          {"1:1: error: missing key 'tensor'", "1:1: error: missing key 'destination'"});

  const auto endless = rehearse("reshard '" + kCases + "case1.yaml' --set link.nic=10B/s");
  CHECK(endless.status == 2);
  CHECK(contains(endless.err, "more than 100 days"));
  CHECK(rehearse("reshard").status == 2);
  CHECK(rehearse("reshard --compare").status == 2);
  CHECK(rehearse("reshard /no/such/file").status == 2);
  CHECK(rehearse("reshard '" + kCases + "case1.yaml' '" + kCases + "case2.yaml'").status == 2);
  const auto set = rehearse("reshard '" + kCases + "case1.yaml' --set source.spec=S2RR");
  CHECK(set.status == 2);
  CHECK(contains(set.err, "--set source.spec=S2RR: error: spec 'S2RR' names mesh axis 2"));
}
