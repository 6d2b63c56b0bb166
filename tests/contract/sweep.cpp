// `rehearse sweep` through the command line: what is computed once, what survives, and that killed processes leave no
// trace.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "../rehearse.hpp"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A pipeline with given times: a row takes about a millisecond.
const std::string kScenario =
    "version: 1\nparallelism: {pipeline: 4}\nbatch: {microbatches: 8}\n"
    "costs: {forward: 10ms, backward: 10ms, weight: 10ms, transfer: 1ms}\n";

struct Bench : Scratch {
  std::string scenario = (folder / "s.yaml").string(), store = (folder / "s.sqlite").string();
  Bench() { std::ofstream(scenario) << kScenario; }

  std::string arguments(const std::string& vary, const std::string& more = "") const {
    return fmt::format("sweep '{}' {} --store '{}' {}", scenario, vary, store, more);
  }
  Run sweep(const std::string& vary, const std::string& more = "") const { return rehearse(arguments(vary, more)); }
  // Starts the program itself, without a shell in between.
  pid_t start(const std::string& microbatches, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{REHEARSE_BINARY, "sweep",  scenario, "--vary", "batch.microbatches=" + microbatches,
                                   "--store",       store,    "--jobs", "1",      "--output",
                                   "/dev/null",     "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    REQUIRE(posix_spawn(&pid, REHEARSE_BINARY, nullptr, nullptr, argv.data(), environ) == 0);
    return pid;
  }
};

std::string numbers(int from, int to) {
  std::string list;
  for (int i = from; i <= to; i++) list += (list.empty() ? "" : ",") + std::to_string(i);
  return list;
}

int ended(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Counts {
  int rows = -1, computed = -1, there = -1, others = -1;
  bool operator==(const Counts&) const = default;
};
Counts counts(const Run& run) {
  Counts c;
  REQUIRE_MESSAGE(std::sscanf(run.err.c_str(), "%d rows: %d computed, %d were there, %d by others", &c.rows,
                              &c.computed, &c.there, &c.others) == 4,
                  run.err);
  return c;
}

}  // namespace

TEST_CASE("existing rows are not computed again, and rows equal those of compare") {
  const Bench bench;
  const auto first = bench.sweep("--vary schedule=gpipe,1f1b --vary batch.microbatches=4,8,12", "--format json");
  REQUIRE(first.status == 0);
  CHECK(counts(first) == Counts{6, 6, 0, 0});
  const auto compare = rehearse("compare '" + bench.scenario +
                                "' --vary schedule=gpipe,1f1b --vary batch.microbatches=4,8,12 --format json");
  CHECK(json::parse(first.out) == json::parse(compare.out));
  const auto again = bench.sweep("--vary schedule=gpipe,1f1b --vary batch.microbatches=4,8,12", "--format json");
  CHECK(counts(again) == Counts{6, 0, 6, 0});
  CHECK(again.out == first.out);
  CHECK(counts(bench.sweep("--vary schedule=gpipe,1f1b,zb-h1 --vary batch.microbatches=4,8,16")) == Counts{9, 5, 4, 0});

  // p = 4, m = 8, F = I = W = 10, c = 1 ms: with other times the file is another scenario of the same name.
  std::ofstream(bench.scenario) << kScenario << "memory: {activation: 1}\n";
  CHECK(counts(bench.sweep("--vary schedule=gpipe,1f1b --vary batch.microbatches=4,8,12")) == Counts{6, 6, 0, 0});
}

TEST_CASE("scenarios of two folders may have one name, and a store knows them from wherever it is filled") {
  const Bench bench;
  const auto in = [&](const std::string& folder, const std::string& scenario, const std::string& more) {
    fs::create_directories(folder);
    const auto run = shell(
        fmt::format("cd '{}' && '{}' sweep {} --store '{}' {}", folder, REHEARSE_BINARY, scenario, bench.store, more) +
        " 2>'" + folder + "/err'");
    return Run{run.status, run.out, read(folder + "/err")};
  };
  const auto a = (bench.folder / "a").string(), b = (bench.folder / "b").string();
  fs::create_directories(a), fs::create_directories(b);
  std::ofstream(a + "/s.yaml") << kScenario;
  std::ofstream(b + "/s.yaml") << kScenario << "memory: {activation: 1}\n";
  CHECK(counts(in(a, "s.yaml", "")) == Counts{1, 1, 0, 0});
  CHECK(counts(in(b, "s.yaml", "")) == Counts{1, 1, 0, 0});
  CHECK(counts(in(a, "s.yaml", "")) == Counts{1, 0, 1, 0});  // not taken over by the other
  CHECK(counts(in(b, "../a/s.yaml", "")) == Counts{1, 0, 1, 0});
  const auto rows = rehearse("compare '" + bench.store + "' --format csv").out;
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 3);
  CHECK(contains(rows, "a/s.yaml"));
  CHECK(contains(rows, "b/s.yaml"));
}

TEST_CASE("text, CSV and JSON are the same for every number of threads, batch and history") {
  const std::string vary = "--vary schedule=gpipe,1f1b,nonsense --vary batch.microbatches=" + numbers(4, 20);
  const Bench bench;
  for (const std::string format : {"text", "csv", "json"}) {
    CAPTURE(format);
    const auto out = bench.sweep(vary, "--jobs 1 --format " + format).out;
    CHECK_FALSE(out.empty());
    for (const std::string other : {"--jobs 4 --batch 1", "--jobs 3 --batch 100"}) {
      fs::remove(bench.store);
      if (other == "--jobs 3 --batch 100") bench.sweep("--vary batch.microbatches=20,7 --vary schedule=1f1b");
      CHECK(bench.sweep(vary, other + " --format " + format).out == out);
    }
  }
}

TEST_CASE("a key that nothing knows is refused before anything is computed") {
  const Bench bench;
  for (const auto& [vary, more] :
       {std::pair{"--vary nonsense.key=1,2", ""}, {"--vary batch.microbatches=8", "--set batch.mikrobatches=4"}}) {
    const auto refused = bench.sweep(vary, more);
    CHECK(refused.status == 2);
    CHECK(contains(refused.err, "unknown key"));
    CHECK_FALSE(fs::exists(bench.store));
  }
}

TEST_CASE("an error is a row, and is not computed twice") {
  const Bench bench;
  const auto run = bench.sweep("--vary schedule=1f1b,1f2b --vary batch.microbatches=8,0", "--format json");
  CHECK(run.status == 0);
  const auto rows = json::parse(run.out)["rows"];
  REQUIRE(rows.size() == 4);
  CHECK_FALSE(rows[0].contains("error"));
  for (int wrong : {1, 2, 3}) CHECK(rows[wrong]["error"].is_string());
  CHECK(contains(rows[2]["error"], "did you mean '1f1b'?"));
  CHECK(counts(bench.sweep("--vary schedule=1f1b,1f2b --vary batch.microbatches=8,0")) == Counts{4, 0, 4, 0});
  CHECK(contains(bench.sweep("--vary schedule=1f1b,1f2b").out, "did you mean '1f1b'?"));
}

TEST_CASE("killed at any moment, a sweep goes on where it was") {
  const std::string all = numbers(4, 403);
  const Bench calm;
  REQUIRE(ended(calm.start(all)) == 0);
  const auto expected = calm.sweep("--vary batch.microbatches=" + all, "--format csv");
  REQUIRE(counts(expected) == Counts{400, 0, 400, 0});

  Bench bench;
  bench.scenario = calm.scenario;
  std::mt19937 random(7);  // timing differs between machines anyway
  int before = 0, killed = 0;
  for (int i = 0; i < 10; i++) {
    const pid_t pid = bench.start(all, {"--batch", "16"});
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(0, 120)(random)));
    kill(pid, SIGKILL);
    killed += ended(pid) != 0;
    // No earlier row is lost. A file that is not a store yet has no rows either.
    const auto kept = shell("'" REHEARSE_BINARY "' compare '" + bench.store + "' --format csv 2>/dev/null");
    const int rows = kept.status == 0 ? int(std::count(kept.out.begin(), kept.out.end(), '\n')) - 1 : 0;
    CHECK(rows >= before);
    before = rows;
  }
  CHECK(killed > 0);
  const auto last = bench.sweep("--vary batch.microbatches=" + all, "--format csv");
  CHECK((last.out == expected.out));  // not printed: 400 lines
  CHECK(counts(last).computed == 400 - before);
}

TEST_CASE("two processes share the work, and the end of one does not stop the other") {
  const std::string all = numbers(4, 403);
  const std::string line = "--vary batch.microbatches=" + all, how = "--format csv --jobs 1";
  {
    const Bench bench;
    std::array<Run, 2> runs;
    std::thread second([&] { runs[1] = bench.sweep(line, how); });
    runs[0] = bench.sweep(line, how);
    second.join();
    int computed = 0;
    for (const auto& run : runs) {
      CHECK(run.status == 0);
      CHECK(std::count(run.out.begin(), run.out.end(), '\n') == 401);
      computed += counts(run).computed;
    }
    CHECK(computed == 400);  // none is lost, and none computed twice, however the processes race
  }
  const Bench bench;
  const pid_t other = bench.start(all);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  kill(other, SIGSTOP);  // holds claims and then dies: the remaining process takes them over
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(other, SIGKILL);
  });
  const auto mine = bench.sweep(line, how);
  end.join();
  ended(other);
  CHECK(mine.status == 0);
  CHECK(std::count(mine.out.begin(), mine.out.end(), '\n') == 401);
}

TEST_CASE("ranks of a launcher: all compute, the first reports") {
  const Bench bench;
  const std::string line = bench.arguments("--vary batch.microbatches=" + numbers(4, 103), "--format csv --quiet");
  const auto start = [&](int rank) {
    return fmt::format("OMPI_COMM_WORLD_RANK={} OMPI_COMM_WORLD_LOCAL_SIZE=2 '{}' {}", rank, REHEARSE_BINARY, line);
  };
  const auto run = shell(start(1) + " >'" + bench.store + ".second' & " + start(0) + "; wait");
  CHECK(run.status == 0);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') == 101);
  CHECK(read(bench.store + ".second").empty());
}

TEST_CASE("files that are no store are refused and left as they are") {
  const Bench bench;
  const auto refused = [&](int status, const std::string& hint) {
    const auto run = bench.sweep("--vary batch.microbatches=4,8");
    CHECK(run.status == status);
    CHECK(run.out.empty());
    CHECK_MESSAGE(contains(run.err, hint), run.err);
  };
  std::ofstream(bench.store) << "not a database, but long enough to have been one, one would think, or not? "
                             << std::string(4096, 'x');
  const auto before = read(bench.store);
  refused(2, "is no SQLite file");
  CHECK(read(bench.store) == before);
  fs::remove(bench.store);
  fs::create_directory(bench.store);
  refused(2, "cannot");
  fs::remove(bench.store);

  REQUIRE(bench.sweep("--vary batch.microbatches=" + numbers(4, 60)).status == 0);
  const auto whole = read(bench.store);
  // Offset 60: user_version, 68: application_id, big-endian (sqlite.org/fileformat2.html, section 1.3).
  const auto changed = [&](std::size_t offset, const std::string& bytes) {
    auto text = whole;
    text.replace(offset, bytes.size(), bytes);
    std::ofstream(bench.store, std::ios::binary) << text;
  };
  changed(60, std::string("\0\0\0\x63", 4));
  refused(2, "by a version of rehearse");
  changed(68, "else");
  refused(2, "of another program");
  // All pages but the first are overwritten: neither the table nor its index can be read.
  changed(4096, std::string(whole.size() - 4096, '\x5a'));
  refused(2, "damaged");
  CHECK(contains(rehearse("compare '" + bench.store + "'").err, "damaged"));
  changed(0, "S");
  CHECK(counts(bench.sweep("--vary batch.microbatches=" + numbers(4, 60))) == Counts{57, 0, 57, 0});
  CHECK(rehearse("sweep '" + bench.scenario + "'").status == 2);
  CHECK(rehearse("sweep --store '" + bench.store + "'").status == 2);
  CHECK(bench.sweep("--batch 0").status == 2);
  CHECK(bench.sweep("--sort nonsense").status == 2);
}

TEST_CASE("a full disk stops the sweep with what was written") {
  const Bench bench;
  const std::string vary = "--vary batch.microbatches=" + numbers(4, 203);
  // Files are limited to 512 KiB, but 200 rows need more than a megabyte.
  const auto full =
      shell("ulimit -f 512; '" REHEARSE_BINARY "' " + bench.arguments(vary, "--jobs 1 --batch 8") + " 2>&1");
  CHECK(full.status == 3);
  CHECK_MESSAGE(contains(full.out, "what was there is still there"), full.out);
  const auto rest = bench.sweep(vary);
  CHECK(rest.status == 0);
  const auto c = counts(rest);
  CHECK(c.rows == 200);
  CHECK(c.there > 0);
  CHECK(c.computed == 200 - c.there);
}

TEST_CASE("compare reads a store, in the order of values, and chooses") {
  const Bench bench;
  REQUIRE(bench.sweep("--vary batch.microbatches=16,4,8 --vary schedule=1f1b,gpipe,nonsense").status == 0);
  const std::string compare = "compare '" + bench.store + "' --format json ";
  const auto rows = json::parse(rehearse(compare).out)["rows"];
  REQUIRE(rows.size() == 9);
  CHECK(rows[0]["set"] == json{{"batch.microbatches", 4}, {"schedule", "1f1b"}});
  CHECK(rows[8]["set"] == json{{"batch.microbatches", 16}, {"schedule", "nonsense"}});
  // Slowest first; rows with errors have no time and come last, as before.
  const auto sorted = json::parse(rehearse(compare + "--sort -iteration_s").out)["rows"];
  for (int i = 1; i < 6; i++)
    CHECK(sorted[i - 1]["iteration_s"].get<double>() >= sorted[i]["iteration_s"].get<double>());
  CHECK(sorted[6]["set"]["batch.microbatches"] == 4);
  CHECK(sorted[8].contains("error"));
  // Per micro-batch the most micro-batches are best: (m + p - 1) / m falls.
  const auto top = json::parse(rehearse(compare + "--top 1").out)["rows"];
  REQUIRE(top.size() == 1);
  CHECK(top[0]["set"]["batch.microbatches"] == 16);
  CHECK(top[0]["best"] == true);
  CHECK(json::parse(rehearse(compare + "--fits").out)["rows"].size() == 6);
  for (const auto& row : json::parse(rehearse(compare + "--pareto").out)["rows"]) CHECK(row["pareto"] == true);
  CHECK(rehearse("compare '" + bench.store + "' --vary schedule=1f1b").status == 2);
  CHECK(contains(rehearse("compare '" + bench.store + "' --sort iterashun").err, "iteration_s"));
}
