// A scenario on a measured GPU, as its user sees it: other prices, fewer assumptions, a clear refusal. The profile
// holds published times of an H200 (tests/fidelity/kernels_gemm.csv) and exists only for this test.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../program.hpp"
#include "cost/gpu_fit.hpp"
#include "scenario/profile.hpp"

using namespace rehearsal;
using nlohmann::json;

namespace {

// Every tenth bf16 product of the table, in bursts as they were timed.
cost::Profile published() {
  cost::Profile p;
  p.backend = "cuda", p.ranks = 1, p.cores = 1, p.priority = "ordinary", p.date = "2025-01-02T03:04:05Z";
  auto& t = p.gpu.emplace();
  t.gpu = {"NVIDIA H200", "9.0", 132, Bytes(150'110'011'392), "580.95.05", "13.0"};
  t.settled_clock = false;
  std::ifstream in(TEST_DATA "/fidelity/kernels_gemm.csv");
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    if (cells.size() < 8 || cells[0] != "burst" || cells[1] != "h200-sxm" || number++ % 10) continue;
    const Time time = seconds(std::stod(cells[7]) * 1e-6);
    t.gemm[Precision::bf16].samples.push_back(
        {{std::stoll(cells[3]), std::stoll(cells[4]), std::stoll(cells[5]), 1, Precision::bf16}, {time, time, time}});
  }
  REQUIRE(t.gemm.at(Precision::bf16).samples.size() == 57);
  t.launch.stream = {seconds(3e-6), seconds(3e-6), seconds(3e-6)};
  cost::fit_gpu(t, scenario::gpu_file_of(t.gpu));
  return p;
}

Output run(const std::string& arguments) { return shell("'" REHEARSE_BINARY "' " + arguments + " 2>&1"); }

bool says(const json& report, const std::string& what) {
  const auto& all = report.at("assumptions");
  return std::any_of(all.begin(), all.end(),
                     [&](const json& line) { return line.get<std::string>().find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("a measured GPU prices a scenario") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.folder / "profiles");
  const auto file = (scratch.folder / "profiles" / "h200-lab.yaml").string();
  auto profile = published();
  const auto write = [&] { std::ofstream(file) << scenario::write_profile(profile); };
  write();
  CHECK(run("check '" + file + "'").status == 0);
  const std::string scenario = "'" PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml' ",
                    h200 = "--set cluster=h200-sxm ";
  const auto predict = [&](const std::string& more) {
    const auto out = run("run " + scenario + h200 + more + " --format json");
    REQUIRE_MESSAGE(out.status == 0, out.out);
    return json::parse(out.out);
  };
  const auto bare = predict(""), burst = predict("--set cluster.profile='" + file + "'");
  CHECK(says(bare, "kernel_gap") == false);                 // it has a source
  CHECK(says(burst, "sustained_clock = 0.85 is assumed"));  // bursts do not show the sustained clock
  CHECK(says(burst,
             "Profile h200-lab: measured on a NVIDIA H200 on 2025-01-02T03:04:05Z, driver 580.95.05: matrix "
             "products in bf16, the gap between kernels."));
  CHECK(burst.at("error_band").at("basis").get<std::string>().find("profile h200-lab") != std::string::npos);
  // The file's constants were fitted to the table's even rows too: the same GPU, and nearly the same prediction.
  const double ratio = burst.at("iteration_s").get<double>() / bare.at("iteration_s").get<double>();
  MESSAGE(fmt::format("bf16 products measured in bursts: {:.4f} of the prediction from the file", ratio));
  CHECK(ratio != 1);
  CHECK(std::abs(ratio - 1) < .05);

  // Declared to be at a settled clock, the same times need no assumption, and are taken as they are.
  profile.gpu->settled_clock = true;
  write();
  const auto settled = predict("--set cluster.profile='" + file + "'");
  CHECK_FALSE(says(settled, "sustained_clock"));
  CHECK(settled.at("assumptions").size() < burst.at("assumptions").size());
  CHECK(settled.at("iteration_s").get<double>() < burst.at("iteration_s").get<double>());

  const auto other = run("run " + scenario + "--set cluster.profile='" + file + "'");
  CHECK(other.status == 2);
  CHECK_MESSAGE(other.out.find("profile 'h200-lab' was measured on GPU 'NVIDIA H200', but cluster 'dgx-h100' has "
                               "GPU 'h100-80g-sxm': their names differ") != std::string::npos,
                other.out);
}
