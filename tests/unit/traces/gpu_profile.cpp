#include "traces/gpu_profile.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "cost/measured_gpu.hpp"
#include "made_up.hpp"
#include "scenario/profile.hpp"
#include "traces/samples.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}

TEST_CASE("a profile of the H100 trace has its products, and reads back") {
  const auto all = read(std::vector<std::string>{TEST_DATA "/traces/qwen1.5_h100.json.gz"}, rules());
  const auto made = gpu_profile(all, rules());
  const auto& gpu = *made.profile.gpu;
  CHECK(gpu.gpu.name == "NVIDIA H100 80GB HBM3");
  CHECK(gpu.gpu.capability == "9.0");
  REQUIRE(gpu.gemm.count(Precision::bf16));
  CHECK_FALSE(gpu.gemm.count(Precision::fp32));  // [32, 559, 1]: all bytes
  // The pause between kernels is part of a profile's time: 83.711 us in the trace, and at most 2 us more.
  const Gemm shape{8944, 2816, 1024, 1, Precision::bf16};
  const auto& samples = gpu.gemm.at(Precision::bf16).samples;
  const auto found = std::find_if(samples.begin(), samples.end(), [&](const auto& s) { return s.shape == shape; });
  REQUIRE(found != samples.end());
  CHECK(to_seconds(found->time.p50) * 1e6 > 83.711);
  CHECK(to_seconds(found->time.p50) * 1e6 < 85.711);
  // [16, 559, 16, 64] without a mask: the trace has the values of inputs.
  REQUIRE(gpu.attention.count(models::AttentionKernel::flash2));
  const TemporaryFile file(scenario::write_profile(made.profile), ".yaml");
  const auto again = scenario::load_profile_file(file.path());
  CHECK(scenario::profile_digest(again) == made.profile.digest);
  CHECK(made.profile.date == "2025-07-01T23:00:36Z");
}

TEST_CASE("traces that make no profile say why") {
  const TemporaryFile nameless(R"({"traceEvents":[)" + kernel("sgemm", 0, 1) + "]}");
  CHECK_THROWS_WITH_AS(gpu_profile(read(std::vector{nameless.path()}, rules()), rules()),
                       doctest::Contains("does not say which GPU"), UserError);
  const TemporaryFile shapeless(trace_of(0, {kernel("sgemm", 0, 1)}));
  CHECK_THROWS_WITH_AS(gpu_profile(read(std::vector{shapeless.path()}, rules()), rules()),
                       doctest::Contains("record_shapes=True"), UserError);
}

}  // namespace
}  // namespace rehearsal::traces
