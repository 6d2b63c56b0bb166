// predict_bench [layouts]: how many layouts of GPT-3 175B on 1,024 GPUs can be predicted in a second, in process, on
// the threads of this machine; by estimate() and, for comparison, by way of the whole task graph.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "first_line.hpp"

#include "answer/estimate.hpp"
#include "answer/predict.hpp"

using namespace rehearsal;
using Clock = std::chrono::steady_clock;

namespace {

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> from) {
  return *(from.begin() + random() % from.size());
}

// Every degree of tensor, pipeline and data parallelism, micro-batch, chunks, ZeRO-1 and recomputation that fit.
std::vector<scenario::Scenario> layouts(std::size_t count) {
  const auto base = scenario::load(PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml");
  std::mt19937_64 random(1);
  std::vector<scenario::Scenario> all;
  while (all.size() < count) {
    auto s = base;
    auto& p = s.parallelism;
    p.tensor = pick<std::int64_t>(random, {1, 2, 4, 8});
    p.sequence = p.tensor > 1 && random() % 2;
    p.pipeline = pick<std::int64_t>(random, {1, 2, 4, 8, 16, 32});
    p.data = s.concrete->cluster.gpus() / (p.tensor * p.pipeline);
    p.chunks = p.pipeline > 1 ? pick<std::int64_t>(random, {1, 1, 2, 3}) : 1;
    p.zero = static_cast<int>(random() % 2);
    s.batch.micro = pick<std::int64_t>(random, {1, 2, 4, 8});
    if (s.batch.global % (p.data * s.batch.micro) != 0) continue;
    if (p.chunks > 1 && s.microbatches() % p.pipeline != 0) continue;
    s.schedule.name = p.chunks > 1 ? "interleaved-1f1b" : "1f1b";
    s.concrete->training.recompute =
        pick(random, {models::Recompute::none, models::Recompute::selective, models::Recompute::full});
    all.push_back(std::move(s));
  }
  return all;
}

template <class Predict>
double per_second(const std::vector<scenario::Scenario>& all, unsigned threads, Predict&& predict) {
  std::atomic<std::size_t> next = 0;
  const auto start = Clock::now();
  {
    std::vector<std::jthread> pool;
    for (unsigned t = 0; t < threads; t++)
      pool.emplace_back([&] {
        for (std::size_t i; (i = next++) < all.size();) predict(all[i]);
      });
  }
  return double(all.size()) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? static_cast<std::size_t>(std::strtoull(argv[i], nullptr, 10)) : otherwise;
  };
  const std::size_t count = number(1, 10'000), graphs = std::min(count, number(2, 500));
  const auto all = layouts(count);
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  const double quick = per_second(all, threads, [](const auto& s) { answer::estimate(s); });
  const std::vector<scenario::Scenario> some(all.begin(), all.begin() + std::ptrdiff_t(graphs));
  const double whole = graphs ? per_second(some, threads,
                                           [](const auto& s) {
                                             answer::predict(s, {.summary = {.memory = false, .critical_path = false}});
                                           })
                              : 0;
  fmt::print("{} layouts on {} threads: {:.0f} estimates/s ({:.3f} ms each and thread), {:.0f} task graphs/s\n", count,
             threads, quick, 1e3 * threads / quick, whole);
  if (graphs == 0) return 0;
  std::ofstream file(RESULTS, std::ios::app);
  if (file.tellp() == 0) file << "date,cpu,benchmark,value,unit,limit\n";
  const auto date = first_line_of("date -u +%F");
  const auto cpu = first_line_of("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo");
  file << fmt::format("{},{},estimates of GPT-3 175B layouts ({} threads),{:.0f},1/s,>=12000\n", date, cpu, threads,
                      quick);
  file << fmt::format("{},{},the same by the whole task graph,{:.0f},1/s,\n", date, cpu, whole);
  return 0;
}
