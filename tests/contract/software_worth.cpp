// A scenario that names no software hears what the choice is worth, in numbers that it gets when it makes it.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../program.hpp"

using nlohmann::json;

namespace {

const std::string kModel =
    "version: 1\nmodel: llama3-70b\ncluster: {use: dgx-h100, nodes: 8}\n"
    "parallelism: {tensor: 8, sequence: true, pipeline: 4, zero: 1}\nbatch: {global: 64, micro: 1}\n";

json run(const std::string& text, const std::string& more = "") {
  const Scratch scratch;
  const auto file = (scratch.folder / "x.yaml").string();
  std::ofstream(file) << text;
  const auto result = shell("'" REHEARSE_BINARY "' run '" + file + "' --format json " + more);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

bool warned(const json& answer) {
  for (const auto& warning : answer["warnings"])
    if (contains(warning.get<std::string>(), "software: none was given")) return true;
  return false;
}

}  // namespace

TEST_CASE("without a name: the times of the others, and a warning") {
  const auto assumed = run(kModel);
  REQUIRE(assumed["other_software"].size() >= 2);
  CHECK(warned(assumed));
  double least = assumed["iteration_s"], most = least;
  for (const auto& other : assumed["other_software"]) {
    const std::string name = other["software"];
    CAPTURE(name);
    CHECK(other["iteration_s"] == run(kModel, "--set software=" + name)["iteration_s"]);
    least = std::min(least, other["iteration_s"].get<double>());
    most = std::max(most, other["iteration_s"].get<double>());
  }
  CHECK(most > 1.1 * least);  // it matters
}

TEST_CASE("with a name there is nothing to say") {
  const auto named = run(kModel + "software: megatron-2024\n");
  CHECK(named["other_software"].empty());
  CHECK_FALSE(warned(named));
}
