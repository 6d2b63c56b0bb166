// Published collectives of whole systems against what `rehearse collective NAME --cluster CLUSTER` answers, by the
// cluster files that a user names: what is in the files counts, too, where the two other tests of collectives describe
// links and machines by themselves. collectives_by_cluster.csv has its rows; systems of those tests are asked as well.
//   scored         counts in the mean of systems
//   own curve      its table is the size curve of the cluster: shown
//   shown          its `source` says why it does not count
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>

#include "base/quantity_text.hpp"
#include "cost/one_collective.hpp"
#include "mean_error.hpp"
#include "scenario/cluster_file.hpp"
#include "table.hpp"

using namespace rehearsal;
using fidelity::Row, fidelity::rows;

namespace {

using fidelity::absolute_mean, fidelity::mean, fidelity::percent;

constexpr double kLarge = 16e6;  // bytes

// Systems of the other tables: their cluster, what it lacks, and NCCL's version if it matters.
struct Asked {
  const char *cluster, *set = "", *nccl = "", *how = "scored";
};
const std::map<std::string, Asked> kOneNode{{"Azure A100", {"dgx-a100-80g"}},
                                            {"Azure H200", {"h200-sxm"}},
                                            {"ml-engineering A100", {"dgx-a100-80g"}},
                                            {"ml-engineering H200", {"h200-sxm"}},
                                            {"ml-engineering B200", {"b200-sxm", "", "", "own curve"}}};
const std::map<std::string, Asked> kAcross{
    {"DGX A100 (maintainers)", {"dgx-a100-80g"}},
    {"DGX H100 (slides)", {"dgx-h100"}},
    {"HGX 8x400 (nccl-tests 309)", {"dgx-h100"}},
    {"4x8 H200 (ml-engineering)", {"h200-sxm"}},
    {"4x8 B200 EFA (ml-engineering)", {"b200-sxm"}},
    {"2x8 H200 4x400 (nccl-tests 380)", {"h200-sxm", "links.scale_out.per_node=4"}},
    {"GB200 racks all-reduce (OCI)", {"gb200-nvl72", "gpus_per_node=64;links.scale_out.per_node=64"}},
    {"GB200 racks all-to-all (OCI)", {"gb200-nvl72", "gpus_per_node=64;links.scale_out.per_node=64"}},
    {"32x8 H100 all-reduce (nccl 1218)", {"dgx-h100"}},
    {"32x8 H100 all-gather (nccl 1218)", {"dgx-h100"}},
    {"AWS p5 all-reduce", {"aws-p5"}},
    {"AWS p5 all-to-all", {"aws-p5"}},
    {"AWS p5en all-reduce", {"aws-p5en"}},
    {"AWS p5en all-to-all", {"aws-p5en"}},
    {"AWS p4d x2; NCCL 2.8", {"aws-p4d", "", "2.8"}}};

struct Measured {
  std::string system, kind;
  Asked asked;
  std::uint32_t ranks;
  double size, seconds;
};

Measured measured(const Row& row, const std::string& system, const Asked& asked) {
  const auto& forced = row.count("algorithm") ? row.at("algorithm") : std::string();
  return {system,
          forced.empty() ? row.at(row.count("kind") ? "kind" : "collective") : forced,
          asked,
          static_cast<std::uint32_t>(std::stoul(row.at("ranks"))),
          std::stod(row.at("size_bytes")),
          std::stod(row.at("time_us")) * 1e-6};
}

double predicted(const Measured& m) {
  std::vector<std::string> sets;
  std::istringstream given(m.asked.set);
  for (std::string set; std::getline(given, set, ';');) sets.push_back(set);
  auto cluster = scenario::load_named_cluster(m.asked.cluster, sets);
  auto question = cost::named_collective(m.kind);
  question.ranks = m.ranks, question.size = Bytes(std::llround(m.size));
  const auto group = cost::place(question, cluster.spec, cluster.sized);
  const cost::CommunicationModel model(cluster.spec, cluster.curves,
                                       *m.asked.nccl ? parse_version(m.asked.nccl) : kNewestNccl);
  return cost::step_by_step(model, question, group).seconds;
}

std::vector<Measured> all_systems() {
  std::vector<Measured> all;
  static std::vector<Row> own;  // whose texts `Asked` points to
  own = rows("collectives_by_cluster.csv", true);
  for (const auto& row : own)
    all.push_back(
        measured(row, row.at("system"),
                 {row.at("cluster").c_str(), row.at("set").c_str(), row.at("nccl").c_str(), row.at("how").c_str()}));
  for (auto row : rows("collectives.csv", true)) {
    const auto name = row.at("sweep") + " " + row.at("gpu");
    if (const auto found = kOneNode.find(name); found != kOneNode.end() && row.at("algorithm").empty()) {
      row.at("collective") = "all-reduce";
      all.push_back(measured(row, name, found->second));
    }
  }
  for (const auto& row : rows("collectives_across_nodes.csv", true))
    if (const auto found = kAcross.find(row.at("system")); found != kAcross.end())
      all.push_back(measured(row, found->first, found->second));
  return all;
}

}  // namespace

TEST_CASE("collectives of every published system, as a user asks for them") {
  struct Errors {
    std::string how;
    std::vector<double> large, small;
  };
  std::vector<std::string> order;
  std::map<std::string, Errors> systems;
  for (const auto& m : all_systems()) {
    if (!systems.count(m.system)) order.push_back(m.system), systems[m.system].how = m.asked.how;
    auto& errors = systems[m.system];
    (m.size > kLarge ? errors.large : errors.small).push_back(predicted(m) / m.seconds - 1);
  }
  std::string table = fmt::format("\n{:<36} {:>6} {:>6} {:>6}   {:>6} {:>6} {:>6}   errors in %\n", "system", ">16 MB",
                                  "mean", "bias", "less", "mean", "bias");
  std::vector<double> large, small;
  for (const std::string how : {"scored", "own curve", "shown"}) {
    if (how != "scored") table += fmt::format("--- {}\n", how);
    for (const auto& name : order) {
      const auto& e = systems[name];
      if (e.how != how) continue;
      table += fmt::format("{:<36} {:>6} {}   {:>6} {}\n", name, e.large.size(), percent(e.large), e.small.size(),
                           percent(e.small));
      if (how != "scored") continue;
      if (!e.large.empty()) large.push_back(absolute_mean(e.large));
      if (!e.small.empty()) small.push_back(absolute_mean(e.small));
    }
    if (how == "scored")
      table += fmt::format("    mean of {} systems {:.1f}, up to 16 MB of {} systems {:.1f}\n", large.size(),
                           100 * mean(large), small.size(), 100 * mean(small));
  }
  MESSAGE(table);
  CHECK(large.size() >= 25);
  CHECK(mean(large) <= .10);
  CHECK(mean(small) <= .30);  // LL and LL128 across nodes are not modelled
}
