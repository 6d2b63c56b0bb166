// Kernels that send tokens to their experts, as published, against the price that they have in a step
// (expert_exchange.csv): HybridEP inside a GB200 rack, DeepEP on H800, inside a node and between them.
//
// Both count what a rank gets with the share that it sends to itself: copies for each rank of the NVLink domain, or for
// each node over RDMA. Rates are of the kernels, without `framework.dispatch_overhead`. DeepEP's kernels on 16 ranks
// are not here: between two nodes NVLink is what limits them, which its table counts as RDMA. The constants took the
// rate printed for 8 ranks for that of the links, which is 7/8 of it: most of what is left.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "cost/cost_model.hpp"
#include "models/closed_forms.hpp"
#include "scenario/cluster_file.hpp"
#include "table.hpp"

using namespace rehearsal;
using fidelity::Row, fidelity::rows;

namespace {

constexpr double kMeanLimit = .11, kWorstLimit = .25;

double error(const Row& row) {
  const auto number = [&](const char* column) { return std::int64_t(std::stoll(row.at(column))); };
  const auto ranks = number("ranks");
  models::Framework framework;
  framework.dispatcher = row.at("dispatcher") == "deepep" ? models::Dispatcher::deepep : models::Dispatcher::hybridep;
  framework.dispatch_sms = number("sms"), framework.dispatch_overhead = 0;
  auto machine = scenario::load_named_cluster(row.at("machine")).spec;
  machine.nodes = std::max<std::int64_t>(1, ranks / machine.gpus_per_node);
  const cost::CostModel model(machine, {}, framework);
  const double width = row.at("precision") == "fp8" ? 1 : 2,
               tokens = double(number("tokens") * number("hidden")) * width;
  const graph::Dispatch work{number("tokens"),          Bytes(std::int64_t(double(number("hidden")) * width)),
                             number("experts"),         number("top_k"),
                             number("limit_nodes"),     true,
                             {std::uint32_t(ranks), 1}, 1};
  const auto sent = model.hops(work, cost::CostModel::Of::busiest);
  const double nodes = double(machine.nodes);
  const double counted =
      row.at("counted") == "nvlink" ? sent.inside * double(ranks) / double(ranks - 1) : sent.out * nodes / (nodes - 1);
  CHECK(counted <= tokens * double(number("top_k")) * 1.0001);
  return counted / model.dispatch(work) / (std::stod(row.at("gbs")) * 1e9) - 1;
}

}  // namespace

TEST_CASE("kernels that send tokens to experts") {
  std::map<std::string, std::vector<double>> errors;
  for (const auto& row : rows("expert_exchange.csv")) {
    errors[row.at("dispatcher")].push_back(error(row));
    INFO(row.at("dispatcher"), " ", row.at("op"), " of ", row.at("ranks"),
         " ranks: ", errors[row.at("dispatcher")].back());
    CHECK(std::abs(errors[row.at("dispatcher")].back()) < kWorstLimit);
  }
  for (const auto& [dispatcher, all] : errors) {
    double sum = 0;
    for (const double e : all) sum += std::abs(e);
    MESSAGE(dispatcher, ": ", 100 * sum / double(all.size()), " % over ", all.size(), " kernels");
    CHECK(sum / double(all.size()) < kMeanLimit);
  }
}
