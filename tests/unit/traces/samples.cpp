// Times of known shapes, by calls of PyTorch's operators.
#include "traces/samples.hpp"

#include <doctest/doctest.h>

#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}
Samples of(const std::vector<std::string>& events) {
  const TemporaryFile file(trace_of(0, events));
  return samples(read(file.path(), rules()).front());
}

std::string call(int id, const std::string& name, const std::string& shapes, const std::string& values = "") {
  return on_host(
      "cpu_op", name, 1, 0, 1,
      fmt::format(R"("External id":{},"Input Dims":[{}],"Input type":["c10::BFloat16"],"Concrete Inputs":[{}])", id,
                  shapes, values));
}
std::string part(int id, const std::string& name, double start, double duration, const std::string& more = "") {
  return event("kernel", name, start, duration, fmt::format(R"("device":0,"stream":7,"External id":{}{})", id, more));
}

// A backward pass of attention is several kernels: 10 + 100 + 5 us, and 12 + 104 + 7 us.
TEST_CASE("the kernels of a call count together") {
  const std::string shapes = "[2,8,512,64],[2,8,512,64],[2,4,512,64],[2,4,512,64],[2,8,512,64],[2,8,512,1]";
  const std::string values = R"("","","","","","","","","","","","512","512","0.","True","0.125")";
  std::vector<std::string> events;
  for (const int id : {1, 2}) events.push_back(call(id, "aten::_cudnn_attention_backward", shapes, values));
  const auto kernels = [&](int id, double start, double first, double main, double last) {
    events.push_back(part(id, "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>()", start, first));
    events.push_back(part(id, "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16", start + 20, main));
    events.push_back(part(id, "void cudnn::fusion::convert_dq_to_16bits<true>()", start + 200, last));
  };
  kernels(1, 100, 10, 100, 5), kernels(2, 400, 12, 104, 7);
  const auto all = of(events);
  REQUIRE(all.attention.size() == 1);
  const auto& one = all.attention.front();
  CHECK(one.count == 2);
  CHECK(us(one.median) == 115);
  CHECK(us(one.p90) == 123);
  CHECK(one.attention.backward);
  CHECK(one.attention.causal);
  CHECK(one.mask_known);
  CHECK(one.attention.heads == 8);
  CHECK(one.attention.queries == 512);
  CHECK(attention_kernel("cudnn_generated_fort_native_sdpa_sm90_flash_bprop") == models::AttentionKernel::cudnn);
  CHECK(attention_kernel("void flash_fwd_kernel<Flash_fwd_kernel_traits>") == models::AttentionKernel::flash2);
  CHECK_FALSE(attention_kernel("fmha_cutlassF_bf16_aligned_64x64_rf_sm80"));
}

// Forward: 512 tokens times [64, 256]. Backward: of the input [512, 256] times [256, 64], of the weight [256, 512]
// times [512, 64], which adds up over the tokens.
TEST_CASE("products that add up over tokens are gradients of weights") {
  const auto gemm = [](int id, const std::string& range) {
    const double at = 100. * id;
    return on_host("cuda_runtime", "cudaLaunchKernel", 1, at, 2, fmt::format(R"("correlation":{})", id)) + "," +
           on_host("user_annotation", range, 1, at - 5, 20) + "," +
           part(id, "nvjet_sm90_tst_128x256", at + 10, 20, fmt::format(R"(,"correlation":{})", id));
  };
  const auto all =
      of({call(1, "aten::mm", "[512,64],[64,256]"), gemm(1, "forward"), call(2, "aten::mm", "[512,256],[256,64]"),
          gemm(2, "backward"), call(3, "aten::mm", "[256,512],[512,64]"), gemm(3, "backward")});
  REQUIRE(all.gemms.size() == 3);
  for (const auto& one : all.gemms) CHECK(one.gemm.weight_gradient == (one.gemm.k == 512));
}

// What is not contiguous, or of several types, moves more than its shapes say, and has other kernels.
TEST_CASE("pointwise operators count where their kernel is vectorized") {
  const auto all = of({call(1, "aten::mul", "[1024],[1024]"), call(2, "aten::mul", "[2048],[2048]"),
                       part(1, "void at::native::vectorized_elementwise_kernel<8, Mul>", 10, 5),
                       part(2, "void at::native::elementwise_kernel<128, 4, Mul>", 20, 50)});
  REQUIRE(all.memory_bound.size() == 1);
  CHECK(all.memory_bound.front().traffic == Bytes(3 * 1024 * 2));
}

}  // namespace
}  // namespace rehearsal::traces
