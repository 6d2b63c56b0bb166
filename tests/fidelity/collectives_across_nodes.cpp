// NCCL across nodes as published, against our prices for descriptions of those machines: NICs and links by their data
// sheets, the payload rate that perftest measures on such NICs, the kind of fabric; inside nodes the curves of the
// cluster in configs/clusters with the same GPUs (`curves_of`; none where NVLS is off but the curves have it). Nothing
// is fitted. collectives_across_nodes.csv: `scored` rows count; a `shown` row's `source` says why it does not.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "cluster/fields.hpp"
#include "cost/cost_model.hpp"
#include "mean_error.hpp"
#include "scenario/cluster_file.hpp"
#include "table.hpp"

using namespace rehearsal;
using fidelity::Row, fidelity::rows;

namespace {

using fidelity::absolute_mean, fidelity::mean, fidelity::percent;

constexpr double kLarge = 16e6;  // bytes

const cluster::Interconnect& links_of(const std::string& generation) {
  static std::map<std::string, cluster::Interconnect> known;
  const auto [at, fresh] = known.try_emplace(generation);
  if (fresh) at->second = scenario::named_interconnect("nvlink-" + generation);
  return at->second;
}
const cluster::Library& nccl() {
  static const auto all = scenario::named_libraries();
  return *std::find_if(all.begin(), all.end(), [](const auto& library) { return library.name == "nccl"; });
}

cluster::ClusterSpec described(const Row& row, std::int64_t domains) {
  cluster::ClusterSpec c;
  c.name = row.at("machine");
  c.gpus_per_node = std::stoi(row.at("gpus_per_domain")), c.nodes = domains;
  c.topology.name = "rail-optimized";
  c.nvlink = Bandwidth(std::stod(row.at("nvlink_gbs")) * 1e9), c.interconnect = links_of(row.at("generation"));
  c.library = nccl();
  c.nvlink_latency = c.interconnect.step;
  c.nics_per_node = std::stoi(row.at("nics")), c.nic = Bandwidth(std::stod(row.at("nic_gbits")) * 1e9 / 8);
  c.nic_latency = seconds(25e-6);  // as in configs/clusters
  c.nic_efficiency = c.nic_message_efficiency = std::stod(row.at("nic_efficiency"));
  if (row.at("fabric") == "roce-tuned") c.fabric = cluster::kFabricRoceTuned / cluster::kFabricInfiniband;
  c.message_overhead = Time{};
  c.gpu.sms = 132, c.gpu.sustained_memory_bandwidth = Bandwidth(1e12), c.gpu.gemm_efficiency = 1;  // not used here
  return c;
}

CollectiveKind kind_of(const std::string& name) {
  using enum CollectiveKind;
  for (const auto kind : {all_reduce, all_gather, reduce_scatter, all_to_all})
    if (name == rehearsal::name(kind)) return kind;
  throw UserError("no collective " + name);
}

double predicted(const cluster::ClusterSpec& machine, const collective::SizeCurves& curves, bool nvls, Version nccl,
                 const Row& row) {
  const auto ranks = static_cast<std::uint32_t>(std::stoul(row.at("ranks")));
  const Bytes size(std::stoll(row.at("size_bytes")));
  // NCCL with NVLS disabled is modelled as a version before NVLS, which had everything else.
  const cost::CommunicationModel model(machine, curves, nvls ? nccl : std::min(nccl, Version{2, 16}));
  if (row.at("kind") == "send-recv") {
    const auto last = static_cast<std::uint32_t>(machine.gpus_per_node) - 1;  // its neighbour is in the next node
    return model.message({size, last, last + 1, {}});
  }
  const GroupShape group{ranks, 1};
  const auto quote = model.quote(group, kind_of(row.at("kind")), size);
  const auto& forced = row.at("algorithm");
  if (forced.empty()) return quote.choice.seconds;
  for (const auto& candidate : quote.candidates)
    if (candidate.algorithm->name == forced) return candidate.seconds;
  throw UserError("no algorithm " + forced);
}

collective::SizeCurves curves_of(const std::string& cluster) {
  return cluster.empty() ? collective::SizeCurves{} : scenario::load_named_cluster(cluster).curves;
}

struct Errors {
  std::vector<double> small, large;  // predicted / measured - 1
};

}  // namespace

TEST_CASE("collectives across nodes, above 16 MB") {
  std::map<std::string, std::map<std::string, std::string>> machines;
  for (const auto& row : rows("collectives_across_nodes_machines.csv")) machines[row.at("machine")] = row;
  std::vector<std::string> order;
  std::map<std::string, Errors> systems;
  std::map<std::string, bool> scored;
  std::map<std::string, std::vector<double>> kinds;
  for (const auto& row : rows("collectives_across_nodes.csv", true)) {
    const auto& machine = machines.at(row.at("machine"));
    const auto spec = described(machine, std::stoi(row.at("domains")));
    const double error = predicted(spec, curves_of(machine.at("curves_of")), machine.at("nvls") == "yes",
                                   parse_version(machine.at("nccl")), row) /
                             (std::stod(row.at("time_us")) * 1e-6) -
                         1;
    const auto& name = row.at("system");
    if (!systems.count(name)) order.push_back(name);
    (std::stod(row.at("size_bytes")) > kLarge ? systems[name].large : systems[name].small).push_back(error);
    scored[name] = row.at("how") == "scored";
  }
  std::string table = fmt::format("\n{:<42} {:>6} {:>6} {:>6}   {:>6} {:>6} {:>6}   errors in %\n", "system", ">16 MB",
                                  "mean", "bias", "less", "mean", "bias");
  std::vector<double> means;
  for (const bool counts : {true, false}) {
    for (const auto& name : order) {
      if (scored[name] != counts) continue;
      const auto& e = systems[name];
      table += fmt::format("{:<42} {:>6} {}   {:>6} {}\n", name, e.large.size(), percent(e.large), e.small.size(),
                           percent(e.small));
      if (counts && !e.large.empty()) means.push_back(absolute_mean(e.large));
    }
    if (counts)
      table += fmt::format("    mean of {} systems {:.1f}\n--- shown only\n", means.size(), 100 * mean(means));
  }
  MESSAGE(table);
  CHECK(means.size() >= 15);
  CHECK(mean(means) <= .12);
}
