// A larger space is never worse: with a value, a framework or a cluster more to choose from, the best of a plan is as
// good or better, also where frameworks lack what is listed.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../nightly.hpp"
#include "predicted.hpp"
#include "random_space.hpp"
#include "search/search.hpp"

using namespace rehearsal;

namespace {

struct Best {
  std::optional<search::Key> key;  // nothing fits
  bool noted = false;              // something is searched that a framework lacks
};

constexpr std::uint64_t kMostLayouts = 1000;

// Nothing where the space is refused, or too large for a test.
std::optional<Best> best_of(const std::string& path, const std::vector<std::string>& sets, std::uint64_t most) {
  std::optional<search::Space> space;
  try {
    space.emplace(scenario::load_plan(path, sets));
  } catch (const UserError&) {
    return std::nullopt;
  }
  if (space->layouts() > most) return std::nullopt;
  const auto outcome = search::search(*space, {.best = 1, .proven = 1, .predict = false});
  Best best{{}, !space->file().notes.empty()};
  if (!outcome.top.empty()) {
    const auto& found = outcome.top.front();
    best.key = search::key_of(search::goal_of(space->file().space), space->gpus(found.layout), found.step, found.run);
  }
  return best;
}

// A dimension, and values of it: all are offered in the larger space, the first of them in the smaller one.
struct Dimension {
  const char* key;
  std::vector<std::string> values;
};
std::string cluster(const char* gpu, const char* bandwidth, const char* more) {
  return fmt::format(
      "{{gpu: {{use: {}, memory: 4GB}}, gpus_per_node: 2, nodes: [1, 2], topology: rail-optimized, node_topology: "
      "nvswitch, links: {{scale_up: {{bandwidth: 300GB/s, latency: 3us}}, scale_out: {{bandwidth: {}, latency: 5us, "
      "per_node: 2}}}}, host: {{memory: 1TB, memory_bandwidth: 200GB/s, cores: 64, pcie: {{bandwidth: 25GB/s, latency: "
      "5us}}}}{}}}",
      gpu, bandwidth, more);
}
const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> all{
      {"plan.zero", {"0", "1", "2", "3"}},
      {"plan.schedules", {"1f1b", "gpipe", "zb-h1", "interleaved-1f1b"}},
      {"plan.recompute", {"none", "selective", "full"}},
      {"plan.sequence", {"true", "false"}},
      {"plan.tensor", {"1", "2"}},
      {"plan.context", {"1", "2"}},
      {"plan.pipeline", {"1", "2"}},
      {"plan.offload", {"{}", "{optimizer: host}", "{activations: host}"}},
      {"plan.framework", {"megatron-2025", "titan-2025", "deepspeed-2023", "fsdp-2024", "megatron-2021"}},
      {"plan.clusters",
       {cluster("a100-80g-sxm", "200Gb/s", ", name: slow"), cluster("h100-80g-sxm", "400Gb/s", ", name: quick"),
        cluster("h100-80g-sxm", "400Gb/s", ", name: sharded, framework: titan-2025")}}};
  return all;
}

}  // namespace

TEST_CASE("a larger space is never worse") {
  contract::settle();
  const auto path = (std::filesystem::temp_directory_path() / fmt::format("larger-{}.yaml", ::getpid())).string();
  const int cases = nightly() ? 300 : 12;
  int compared = 0, better = 0, noted = 0;
  for (std::uint64_t seed = 1; compared < cases; ++seed) {
    REQUIRE(seed < std::uint64_t(20 * cases));
    std::ofstream(path) << contract::RandomSpace(seed).text();
    Random random(seed);
    // A few dimensions are lists; one of them is the one that grows.
    auto dims = dimensions();
    for (std::size_t i = dims.size(); i > 1; --i) std::swap(dims[i - 1], dims[random.below(i)]);
    dims.resize(2 + random.below(3));
    std::vector<std::string> small, large;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      auto& values = dims[d].values;
      for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
      values.resize(std::min<std::size_t>(values.size(), 2 + random.below(2)));
      const auto fewer = d == 0 ? std::vector(values.begin(), values.begin() + 1) : values;
      small.push_back(fmt::format("{}=[{}]", dims[d].key, fmt::join(fewer, ", ")));
      large.push_back(fmt::format("{}=[{}]", dims[d].key, fmt::join(values, ", ")));
    }
    CAPTURE(seed);
    CAPTURE(fmt::format("{}", fmt::join(small, " ")));
    CAPTURE(fmt::format("{}", fmt::join(large, " ")));
    const auto before = best_of(path, small, kMostLayouts);
    if (!before) continue;
    const auto after = best_of(path, large, 100 * kMostLayouts);
    REQUIRE(after);
    ++compared;
    noted += after->noted;
    if (!before->key) continue;
    REQUIRE(after->key);
    CHECK_FALSE(*before->key < *after->key);
    better += *after->key < *before->key;
  }
  std::filesystem::remove(path);
  CHECK(better > 0);
  CHECK(noted > 0);
  MESSAGE(compared << " spaces and larger ones, " << better << " of which are better; " << noted
                   << " list what a framework lacks");
}
