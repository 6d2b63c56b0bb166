// rehearse run --svg --picture memory as users see it: a panel per tier, with its maximum and its capacity at the right
// heights; and what it does not draw.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "../rehearse.hpp"

namespace {

const std::string kScenario = "run " PROJECT_ROOT "/scenarios/gpt-10b-offload-1xv100.yaml --set model.layers=4";

std::string drawn(const std::string& arguments) {
  const Scratch scratch;
  const auto file = (scratch.folder / "memory.svg").string();
  const auto run = rehearse(arguments + " --format json --picture memory --svg " + file);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  return read(file);
}
std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
// Heights of the lines across the whole panel.
std::vector<double> heights(const std::string& svg, const std::string& of) {
  const std::regex line("<path d=\"M[0-9.]+ ([0-9.]+)L[0-9.]+ [0-9.]+\" [^>]*" + of);
  std::vector<double> all;
  for (std::sregex_iterator it(svg.begin(), svg.end(), line), end; it != end; ++it) all.push_back(std::stod((*it)[1]));
  return all;
}
// The highest points of the areas, from the top of the picture to the bottom, panel by panel.
std::vector<double> tops(const std::string& svg, std::size_t panels) {
  const std::regex area("<path d=\"(M[^L\"]*Z)\""), vertical("V([0-9.]+)"), begin("^M[0-9.]+ ([0-9.]+)");
  std::map<double, double> of_bottom;  // bottom of a panel: its highest point
  for (std::sregex_iterator it(svg.begin(), svg.end(), area), end; it != end; ++it) {
    const std::string path = (*it)[1];
    std::smatch bottom;
    std::regex_search(path, bottom, begin);
    auto& top = of_bottom.try_emplace(std::stod(bottom[1]), 1e9).first->second;
    for (std::sregex_iterator v(path.begin(), path.end(), vertical); v != end; ++v)
      top = std::min(top, std::stod((*v)[1]));
  }
  std::vector<double> all;
  for (const auto& [bottom, top] : of_bottom) all.push_back(top);
  CHECK(all.size() == panels);
  return all;
}

}  // namespace

TEST_CASE("a panel for each tier that holds something") {
  const auto host = drawn(kScenario);
  CHECK(count(host, ">Device of rank 0<") == 1);
  CHECK(count(host, ">Host memory of node 0, for its 1 GPU<") == 1);
  CHECK(count(host, "NVMe") == 0);
  const auto all = drawn(kScenario + " --set 'training.offload={optimizer: nvme, gradients: nvme, parameters: nvme}'");
  CHECK(count(all, ">Disks (NVMe) of node 0, for its 1 GPU<") == 1);
  const auto device = drawn(kScenario + " --set 'training.offload={}'");
  CHECK(count(device, "Host memory") == 0);
  CHECK(count(device, "<title>optimizer</title>") == 1);
}

TEST_CASE("what is there at most is what the report says, and drawn where the areas end") {
  const auto svg = drawn(kScenario);
  const auto json = nlohmann::json::parse(rehearse(kScenario + " --format json").out);
  const auto size = [](double bytes) {
    const double gib = bytes / 1024 / 1024 / 1024;
    char text[32];
    std::snprintf(text, sizeof text, gib < 1024 ? "%.2f GiB" : "%.2f TiB", gib < 1024 ? gib : gib / 1024);
    return std::string(text);
  };
  CHECK(contains(svg, "high water " + size(json["peak_memory_bytes"]["allocated"]) + "; "));
  CHECK(contains(svg, size(json["peak_memory_bytes"]["reserved"]) + " reserved"));
  CHECK(contains(svg, "high water " + size(json["tiers"]["host"]["peak_bytes"]) + "; "));
  CHECK(contains(svg, "capacity " + size(json["tiers"]["host"]["capacity_bytes"])));
  const auto lines = heights(svg, "stroke-dasharray=\"2 3\""), areas = tops(svg, 2);
  REQUIRE(lines.size() == 2);
  for (std::size_t panel = 0; panel < 2; ++panel) CHECK(lines[panel] == doctest::Approx(areas[panel]));
  CHECK(drawn(kScenario) == svg);
}

TEST_CASE("a peak that is shorter than a pixel is drawn") {
  const auto svg = drawn(kScenario + " --set batch.global=256" +
                         " --set 'training.offload={optimizer: nvme, gradients: nvme, parameters: nvme}'");
  const auto lines = heights(svg, "stroke-dasharray=\"2 3\""), areas = tops(svg, 3);
  REQUIRE(lines.size() == 3);
  for (std::size_t panel = 0; panel < 3; ++panel) CHECK(lines[panel] == doctest::Approx(areas[panel]));
}

TEST_CASE("the capacity is a line where it is in sight") {
  CHECK(heights(drawn(kScenario), "stroke-dasharray=\"5 3\"").empty());
  const auto full = drawn(kScenario + " --set cluster.gpu.memory=4GiB --set cluster.host.memory=10GB");
  const auto capacity = heights(full, "stroke-dasharray=\"5 3\""), most = heights(full, "stroke-dasharray=\"2 3\"");
  REQUIRE(capacity.size() == 2);
  REQUIRE(most.size() == 2);
  CHECK(most[0] != capacity[0]);
  CHECK(most[1] < capacity[1]);  // above the capacity line
  CHECK(contains(full, ">capacity 4.00 GiB<"));
}

TEST_CASE("hosts hold for all GPUs of their node") {
  const std::string sixteen =
      kScenario + " --set cluster.gpus=16 --set batch.global=64 --set 'parallelism={pipeline: 2, data: 8, zero: 1}'" +
      " --set 'training.offload={optimizer: host}'";
  const auto svg = drawn(sixteen);
  CHECK(contains(svg, ">Host memory of node 0, for its 16 GPUs<"));
  const auto json = nlohmann::json::parse(rehearse(sixteen + " --format json").out);
  const double per_node = json["tiers"]["host"]["peak_bytes"];
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", per_node / 1024 / 1024 / 1024);
  CHECK(contains(svg, text));
}

TEST_CASE("large runs make small pictures") {
  const auto svg = drawn("run " PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml");
  CHECK(svg.size() < 400'000);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("it says what it does not draw") {
  const Scratch scratch;
  const auto file = (scratch.folder / "memory.svg").string();
  const std::string abstract = "run " PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml";
  const auto none = rehearse(abstract + " --picture memory --svg " + file);
  CHECK(none.status == 2);
  CHECK(contains(none.err, "there is no picture 'memory' of this; allowed: breakdown, timeline"));
  CHECK_FALSE(std::ifstream(file).good());
  const auto given = drawn(abstract + " --set 'memory={activation: 100, weight_hold: 32, limit: 900}'");
  CHECK(contains(given, ">capacity 900<"));
  CHECK(contains(given, "high water 800; capacity 900"));
  const auto two = rehearse(kScenario + " " PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml --svg " + file);
  CHECK(two.status == 2);
  CHECK(contains(two.err, "one scenario at a time"));
}
