// Sequences split over GPUs, end to end: the time of a ring, the traffic, the memory.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>

#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

// Two layers of 8 heads of 128, 2 of keys and values; 16,384 tokens, two micro-batches. With 100,000 SMs and 100 TB/s a
// shift takes nothing from an attention kernel.
constexpr const char* kRing =
    "version: 1\n"
    "model: {family: llama, layers: 2, hidden: 1024, heads: 8, kv_heads: 2, vocabulary: 1024, sequence: 16384}\n"
    "cluster: {use: dgx-h100, nodes: 1, message_overhead: 0s,\n"
    "          gpu: {use: h100-80g-sxm, sms: 100000, memory_bandwidth: 100TB/s, sustained_memory_bandwidth: 100TB/s, "
    "attention_tail: 0}}\n"
    "parallelism: {context: 8, zero: 1}\n"
    "batch: {global: 2, micro: 1}\n"
    "framework: {use: megatron-2024, host_time_per_kernel: 0us}\n";

answer::Result ask(const std::vector<std::string>& sets) {
  return answer::predict(scenario::load_text(kRing, "ring", sets));
}

bool near(Time a, double seconds) { return to_seconds(a) == doctest::Approx(seconds).epsilon(1e-3); }

}  // namespace

TEST_CASE("a ring takes the longer of block and transfer, step by step, and the sums") {
  for (const char* link : {"450GB/s", "1MB/s"}) {
    CAPTURE(link);
    const auto p = ask({"batch.sequence=131072", "cluster.links.scale_up.p2p_bandwidth=" + std::string(link)});
    const auto& works = p.lowered->graph.works();
    const auto& times = p.lowered->durations;
    int rings = 0;
    for (std::size_t w = 0; w < works.size(); ++w) {
      const auto* pass = std::get_if<graph::Sequence>(&works[w]);
      if (!pass) continue;
      Time took;
      double expected = 0;
      std::uint32_t beside = 0, alone = 0;
      for (const auto& item : pass->items) {
        const auto& work = works[item.work.index()];
        if (const auto* both = std::get_if<graph::Overlapped>(&work)) {
          const Time block = times[both->kernel.index()], shift = times[both->collective.index()];
          took += times[item.work.index()] * item.count, beside += item.count;
          expected += to_seconds(std::max(block, shift)) * item.count;
        } else if (std::holds_alternative<FusedAttention>(work)) {
          alone += item.count;
        }
      }
      if (beside == 0 || alone == 0) continue;
      ++rings;
      CHECK(beside == 7 * alone);  // after the last block there is no shift to wait for
      CHECK(near(took, expected));
    }
    CHECK(rings > 0);
  }
}

TEST_CASE("bytes of a context group") {
  // V = 2 B x 2048 tokens x 512 columns; 2 layers, 2 micro-batches. A ring sends 7 V, and twice that in the backward;
  // three gathers or scatters of 8 V send 7 V each; all-to-alls 7/8 of 2 x 2048 x (2 x 1024 + 2 x 1024: keys of 2 heads
  // for 8 ranks), forward and backward.
  const double v = 2. * 2048 * 512;
  const std::pair<const char*, double> ways[] = {
      {"ring", 4 * 3 * 7 * v}, {"all-gather", 4 * 3 * 7 * v}, {"all-to-all", 4 * 2 * 7. / 8 * 2 * 2048 * 4 * 1024}};
  for (const auto& [way, bytes] : ways)
    for (const char* detail : {"stage", "layer", "operator"}) {
      CAPTURE(way);
      const auto p = ask({"training.context=" + std::string(way), "simulate.detail=" + std::string(detail)});
      const auto traffic = answer::traffic(*p.lowered, p.summary.iteration, std::numeric_limits<std::size_t>::max());
      CHECK(traffic.per_gpu.context == bytes);
    }
}

TEST_CASE("more ranks, less to hold and less to wait for") {
  const auto of = [](const std::string& context, const char* way, const std::string& more = "simulate.detail=stage") {
    const auto p =
        ask({"parallelism={context: " + context + ", data: 1, zero: 1}", "training.context=" + std::string(way),
             "cluster.gpu.sms=132", "cluster.gpus_per_node=" + context, more});
    return std::pair(p.summary.iteration, p.lowered->problem.activation.front());
  };
  const auto alone = of("1", "ring");
  for (const char* way : {"ring", "all-gather", "all-to-all"}) {
    CAPTURE(way);
    const auto two = of("2", way), eight = of("8", way);
    CHECK(two.first < alone.first);
    CHECK(eight.first < two.first);
    CHECK(to_seconds(eight.first) > to_seconds(alone.first) / 8);
    // Memory kept for the two layers and the ends; results twice when heads are exchanged.
    const double kept = alone.second / 8;
    CHECK(eight.second >= kept * .999);
    CHECK(eight.second < kept * 1.2);
    // A single rank has no other to share a sequence with.
    CHECK(of("1", way) == alone);
    CHECK(of("1", way, "training.context_balance=false") == alone);
  }
  // In sequence order all ranks wait for the last one, except when heads are split.
  CHECK(of("8", "ring", "training.context_balance=false").first > of("8", "ring").first);
  CHECK(of("8", "all-gather", "training.context_balance=false").first > of("8", "all-gather").first);
  CHECK(of("8", "all-to-all", "training.context_balance=false").first == of("8", "all-to-all").first);
}
