// Several jobs on one fabric: they slow each other down only through what they share.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "answer/jobs.hpp"

using namespace rehearsal;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("rehearsal-jobs-{}", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

std::string scenario_of(int layers, const std::string& layout) {
  return fmt::format(
      "version: 1\nmodel: {{family: gpt, layers: {}, hidden: 4096, heads: 32, vocabulary: 51200, sequence: 2048}}\n"
      "cluster: dgx-a100-80g\nparallelism: {}\nbatch: {{global: 48, micro: 1}}\nframework: megatron-2021\n"
      "training: {{recompute: selective, attention: unfused}}\n",
      layers, layout);
}

constexpr const char* kNarrow = "{name: fat-tree, radix: 40, oversubscription: 4}";  // leaves of 4 nodes

std::string jobs_of(const std::string& topology, const std::string& first, const std::string& second, int nodes = 12) {
  return fmt::format(
      "version: 1\ncluster: {{use: dgx-a100-80g, nodes: {}, topology: {}}}\njobs:\n  - {{scenario: a.yaml, nodes: "
      "{}}}\n  - {{scenario: b.yaml, nodes: {}}}\n",
      nodes, topology, first, second);
}

answer::SharedJobs ask(const std::string& text) {
  const Folder folder;
  folder.write("a.yaml", scenario_of(16, "{tensor: 8, data: 6}"));
  folder.write("b.yaml", scenario_of(8, "{tensor: 4, pipeline: 2, data: 6}"));
  return answer::predict(scenario::load_jobs(folder.write("jobs.yaml", text)));
}

std::string error_of(const std::string& text) {
  try {
    ask(text);
  } catch (const UserError& e) {
    std::string all;
    for (const auto& d : e.diagnostics()) all += d.message + "\n";
    return all;
  }
  return "";
}

}  // namespace

TEST_CASE("jobs that share nothing take what they take alone, to the picosecond") {
  // Each on leaves of its own; and on a fabric that does not block, wherever they stand.
  for (const auto& text : {jobs_of(kNarrow, "[0-3, 8-9]", "[4-7, 12-13]", 16), jobs_of("rail-optimized", "0-5", "6-11"),
                           jobs_of("rail-optimized", "[0-2, 6-8]", "[3-5, 9-11]")}) {
    const auto jobs = ask(text);
    REQUIRE(jobs.jobs.size() == 2);
    for (const auto& job : jobs.jobs) CHECK(job.together == job.alone.summary.iteration);
  }
}

TEST_CASE("jobs that share the uplinks of a leaf slow each other down") {
  const auto jobs = ask(jobs_of(kNarrow, "0-5", "6-11"));
  REQUIRE(jobs.jobs.size() == 2);
  for (const auto& job : jobs.jobs) {
    CHECK(job.together > job.alone.summary.iteration);
    CHECK(job.together < 2 * job.alone.summary.iteration);
  }
  REQUIRE(!jobs.contended.empty());
  CHECK(jobs.contended.front().name.find("leaf") != std::string::npos);
  CHECK(jobs.jobs[0].iterations == 3);
  CHECK(jobs.jobs[1].iterations > 3);  // shorter steps
}

TEST_CASE("commands that need one scenario say so") {
  const Folder folder;
  const auto path = folder.write("jobs.yaml", jobs_of(kNarrow, "0-5", "6-11"));
  std::string said;
  try {
    scenario::load(path);
  } catch (const UserError& e) {
    said = e.diagnostics()[0].message;
    CHECK(e.diagnostics().size() == 1);
  }
  CHECK(said.find("several jobs") != std::string::npos);
}

TEST_CASE("impossible input is refused with its rule") {
  const std::pair<std::string, const char*> cases[] = {
      {jobs_of(kNarrow, "0-5", "5-10"), "node 5 is given to two jobs"},
      {jobs_of(kNarrow, "0-5", "6-12"), "node 12 does not exist"},
      {jobs_of(kNarrow, "0-5", "11-6"), "'nodes' must be a range"},
      {jobs_of(kNarrow, "0-5", "most"), "'nodes' must be a range"},
      {jobs_of(kNarrow, "0-5", "-1"), "'nodes' must be a range"},
      {jobs_of(kNarrow, "0-5", "-3-5"), "'nodes' must be a range"},
      {jobs_of(kNarrow, "0-5", "[]"), "'nodes' is an empty list"},
      {jobs_of(kNarrow, "0-5", "6-10"), "data 5 would fit"},
      {"version: 1\ncluster: dgx-a100-80g\njobs:\n  - {scenario: a.yaml, nodes: 0-5}\n", "needs its number of 'nodes'"},
      {"version: 1\ncluster: {use: dgx-a100-80g, nodes: 2}\njobs: []\n", "'jobs' must be a list"},
      {"version: 1\ncluster: {use: dgx-a100-80g, nodes: 2}\njobs:\n  - {scenario: c.yaml, nodes: 0-1}\n",
       "cannot be opened"}};
  for (const auto& [text, rule] : cases) {
    CAPTURE(text);
    const auto said = error_of(text);
    CAPTURE(said);
    CHECK(said.find(rule) != std::string::npos);
  }
}
