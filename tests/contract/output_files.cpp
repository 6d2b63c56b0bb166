// Where commands write: never onto what they read, never two things into one file or onto standard output.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "../program.hpp"

namespace fs = std::filesystem;

namespace {

Output rehearse(const std::string& arguments) {
  return shell("REHEARSAL_PROFILES=/nowhere '" REHEARSE_BINARY "' " + arguments + " 2>&1");
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

struct Files : Scratch {
  fs::path teaching = copy("scenarios/teaching-1f1b-8-stages.yaml"),
           other = copy("scenarios/teaching-zb-h1-8-stages.yaml"), reshard = copy("scenarios/reshard/case1.yaml"),
           balance = copy("scenarios/balance/eplb-readme.yaml"), table = copy("tests/fidelity/vtrain_single_node.csv"),
           order = folder / "order.csv", link = folder / "link", fresh = folder / "fresh";

  Files() {
    fs::create_symlink(teaching, link);
    REQUIRE(
        rehearse("schedule gpipe --pipeline 2 --microbatches 2 --forward 1ms --backward 1ms --weight 1ms --format csv "
                 "--output " +
                 order.string())
            .status == 0);
  }
  fs::path copy(const char* path) const {
    const auto to = folder / fs::path(path).filename();
    fs::copy_file(fs::path(PROJECT_ROOT) / path, to);
    return to;
  }
};

}  // namespace

TEST_CASE("no output goes onto an input, whatever it is called") {
  const Files f;
  const std::string times = " --forward 1ms --backward 1ms --weight 1ms";
  const std::vector<std::pair<fs::path, std::string>> lines = {
      {f.teaching, fmt::format("run {0} --output {0}", f.teaching.string())},
      {f.teaching, fmt::format("run {} --trace {}", f.teaching.string(), f.link.string())},
      {f.teaching, fmt::format("run {0} --timeline {1}/../{2}/{3}", f.teaching.string(), f.folder.string(),
                               f.folder.filename().string(), f.teaching.filename().string())},
      {f.other, fmt::format("compare {0} {1} --output {1}", f.teaching.string(), f.other.string())},
      {f.teaching, fmt::format("check {0} --output {0}", f.teaching.string())},
      {f.reshard, fmt::format("reshard {0} --svg {0}", f.reshard.string())},
      {f.reshard, fmt::format("reshard {0} --output {0}", f.reshard.string())},
      {f.balance, fmt::format("balance {0} --svg {0}", f.balance.string())},
      {f.order, fmt::format("schedule --import {0} --svg {0}", f.order.string()) + times},
      {f.order, fmt::format("schedule --import {0} --format csv --output {0}", f.order.string()) + times},
      {f.order, fmt::format("schedule --batch {0} --output {0}", f.order.string())},
      {f.table, fmt::format("validate --against {0} --html {0}", f.table.string())},
      {f.table, fmt::format("validate --against {0} --output {0}", f.table.string())},
      {f.teaching, fmt::format("measure {0} --backend loopback --weights {0}", f.teaching.string())},
      {f.teaching, fmt::format("validate {0} --backend loopback --prediction {0}", f.teaching.string())},
      {f.teaching, fmt::format("calibrate {0} --backend loopback --output {0}", f.teaching.string())}};
  for (const auto& [input, line] : lines) {
    CAPTURE(line);
    const auto before = text_of(input);
    const auto run = rehearse(line);
    CHECK(run.status == 2);
    CHECK(contains(run.out, "is what this command reads and would be overwritten"));
    CHECK(text_of(input) == before);
  }
}

TEST_CASE("who names a file that cannot be made is told by the option that named it") {
  const Files f;
  for (const char* option : {"svg", "html", "trace", "timeline", "output"}) {
    CAPTURE(option);
    const auto run = rehearse(fmt::format("run {} --{} /nonexistent/x.svg", f.teaching.string(), option));
    CHECK(run.status == 2);
    CHECK(run.out.find(fmt::format("give --{} a file in a folder", option)) != std::string::npos);
  }
}

TEST_CASE("two outputs never share a file or standard output") {
  const Files f;
  const auto check = [&](const std::string& line, const std::string& hint) {
    CAPTURE(line);
    const auto run = rehearse(line);
    CHECK(run.status == 2);
    CHECK_MESSAGE(contains(run.out, hint), run.out);
    CHECK_FALSE(fs::exists(f.fresh));
  };
  const auto run = "run " + f.teaching.string(), fresh = " " + f.fresh.string();
  check(run + " --trace" + fresh + " --timeline" + fresh, "--timeline and --trace name the same file");
  check(run + " --trace" + fresh + " --output " + f.folder.string() + "/./fresh", "name the same file");
  check(run + " --trace -", "--trace and the report would be mixed on standard output");
  check(run + " --trace - --output -", "mixed on standard output");
  check(run + " --trace - --timeline - --output" + fresh, "mixed on standard output");
  check("measure " + f.teaching.string() + " --backend loopback --trace" + fresh + " --timeline" + fresh,
        "name the same file");
  check("validate " + f.teaching.string() + " --backend loopback --prediction" + fresh + " --trace" + fresh,
        "name the same file");
  check("reshard " + f.reshard.string() + " --svg -", "mixed on standard output");
  // One of them on standard output is what a pipe is for.
  const auto piped = rehearse(run + " --trace - --output" + fresh);
  CHECK(piped.status == 0);
  CHECK(piped.out.starts_with("{\"displayTimeUnit\""));
  CHECK(contains(text_of(f.fresh), "Iteration"));
  // Devices may be shared; --output - is standard output.
  CHECK(rehearse(run + " --trace /dev/null --timeline /dev/null --output /dev/null").status == 0);
  CHECK(contains(rehearse(run + " --output -").out, "Iteration"));
}
