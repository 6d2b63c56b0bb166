// balance_bench: 58 layers of 256 experts (DeepSeek-V3) placed as EPLB does it and by our own search with 20, 200 and
// 2000 ms of effort, beside the seconds of the original (deepseek-ai/EPLB, commit d52c72d, torch 1.13, one thread of a
// machine of this kind). Loads of both are Zipf over a random order of the experts, not the same order.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>

#include "balance/eplb.hpp"
#include "balance/registry.hpp"
#include "balance/search/layers.hpp"
#include "first_line.hpp"

using namespace rehearsal;

namespace {

struct Setting {
  std::uint32_t replicas, nodes, gpus;
  double zipf, peer_s;  // median of three
};
constexpr Setting kSettings[] = {
    {288, 4, 32, .5, .4414},    {288, 8, 32, .5, .3145},    {320, 8, 64, .5, .4701}, {384, 16, 128, .5, 3.7662},
    {288, 18, 144, .5, 1.9969}, {640, 40, 320, .5, 9.8983}, {288, 4, 32, .8, .6350}, {288, 8, 32, .8, 1.1488},
};

balance::Problem problem_of(const Setting& s) {
  std::mt19937_64 random(1);
  balance::Problem p;
  p.replicas = s.replicas, p.groups = 8, p.nodes = s.nodes, p.gpus = s.gpus;
  for (int l = 0; l < 58; l++) {
    balance::Loads layer(256);
    for (std::size_t e = 0; e < layer.size(); e++) layer[e] = std::round(1e4 / std::pow(double(e + 1), s.zipf));
    std::shuffle(layer.begin(), layer.end(), random);
    p.weights.push_back(std::move(layer));
  }
  return p;
}

double seconds_of(const auto& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double mean_ratio(const balance::Problem& p, const balance::Placement& placement) {
  double sum = 0;
  for (std::uint32_t l = 0; l < placement.layers; l++)
    sum += balance::max_over_mean(balance::gpu_loads(balance::shape_of(p), p.weights[l], placement.slots(l)));
  return sum / double(placement.layers);
}

}  // namespace

int main() {
  std::ofstream file(RESULTS, std::ios::app);
  if (file.tellp() == 0)
    file << "date,cpu,replicas,nodes,gpus,zipf,peer_s,eplb_s,eplb_ratio,best_20ms_s,best_20ms_ratio,best_200ms_s,"
            "best_200ms_ratio,best_2000ms_s,best_2000ms_ratio,lower_bound\n";
  const auto date = first_line_of("date -u +%F"), cpu = first_line_of("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo");
  const auto& best = balance::registry().at("best");
  fmt::print(
      "max over mean, mean of 58 layers; one thread\n{:>8} {:>5} {:>4} {:>4}  {:>9} {:>9} {:>7}   {:>18} {:>18} {:>18} "
      "{:>7}\n",
      "replicas", "nodes", "gpus", "zipf", "EPLB", "as EPLB", "ratio", "best 20 ms", "200 ms", "2000 ms", "bound");
  for (const auto& s : kSettings) {
    const auto p = problem_of(s);
    balance::Placement placement = balance::eplb(p);
    double eplb_s = 1e9;
    for (int i = 0; i < 5; i++) eplb_s = std::min(eplb_s, seconds_of([&] { placement = balance::eplb(p); }));
    const double eplb_ratio = mean_ratio(p, placement);
    std::string line = fmt::format("{},{},{},{},{},{},{},{:.6f},{:.6f}", date, cpu, s.replicas, s.nodes, s.gpus, s.zipf,
                                   s.peer_s, eplb_s, eplb_ratio);
    fmt::print("{:>8} {:>5} {:>4} {:>4}  {:>7.2f} s {:>6.2f} ms {:>7.4f}  ", s.replicas, s.nodes, s.gpus, s.zipf,
               s.peer_s, eplb_s * 1e3, eplb_ratio);
    for (const int ms : {20, 200, 2000}) {
      balance::Plan plan;
      const double took = seconds_of([&] { plan = best.plan(p, balance::effort_within(seconds(ms * 1e-3))); });
      const double ratio = mean_ratio(p, plan.placement);
      line += fmt::format(",{:.4f},{:.6f}", took, ratio);
      fmt::print(" {:>7.4f} ({:>5.2f} s)", ratio, took);
    }
    const auto bounds = balance::search::lower_bounds(p);
    const double bound = std::accumulate(bounds.begin(), bounds.end(), 0.) / double(bounds.size());
    fmt::print(" {:>7.4f}\n", bound);
    file << line << fmt::format(",{:.6f}\n", bound);
  }
  return 0;
}
