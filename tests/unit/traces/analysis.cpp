#include "traces/analysis.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "base/error.hpp"
#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}
std::vector<Analysis> analysed(const std::vector<std::string>& texts) {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  std::vector<std::string> paths;
  for (const auto& text : texts) paths.push_back(files.emplace_back(std::make_unique<TemporaryFile>(text))->path());
  return analyse(read(paths, rules()), rules());
}

// One stream computes 0-100 and 150-200; communication at 80-160; a copy alone at 210-220. In all 220 us:
// computing 100 + 50 + 10, exposed 100-150, idle 200-210.
TEST_CASE("parts of a window add up to it") {
  const auto one =
      analysed(
          {trace_of(0, {kernel("ampere_sgemm_128x64_nn", 1000, 100), kernel("vectorized_elementwise_kernel", 1150, 50),
                        collective("allreduce", 1080, 80, "[0, 1]"), event("gpu_memcpy", "Memcpy DtoD", 1210, 10)})})
          .front();
  const auto& s = one.whole;
  CHECK(us(s.window) == 220);
  CHECK(us(s.computing) == 160);
  CHECK(us(s.copying) == 10);
  CHECK(us(s.communicating) == 80);
  CHECK(us(s.exposed) == 50);
  CHECK(us(s.idle()) == 10);
  CHECK(us(s.busy()) == 210);
  CHECK(us(s.waiting) == 0);  // of one rank alone nobody knows
  CHECK_FALSE(one.waiting_known);
  CHECK(one.step_count == 0);
  CHECK(us(one.step) == 220);
  const auto kinds = one.by_kind();
  CHECK(us(kinds[index(Kind::gemm)]) == 100);
  CHECK(us(kinds[index(Kind::memory_bound)]) == 50);
  CHECK(us(kinds[index(Kind::collective)]) == 80);
  CHECK(us(kinds[index(Kind::copy)]) == 10);
}

// Both ranks compute from 0; rank 0 until 100, rank 1 until 140; then an all-reduce, which ends on both at 160. Rank 0
// waits 40 of its 60; the transfer is the 20 of rank 1. Clocks need not agree: rank 1 counts from elsewhere.
TEST_CASE("the shortest kernel of a collective is its transfer, and the rest is waiting") {
  const auto both = analysed({trace_of(0, {kernel("sgemm", 5000, 100), collective("allreduce", 5100, 60, "[0, 1]")}),
                              trace_of(1, {kernel("sgemm", 9000, 140), collective("allreduce", 9140, 20, "[0, 1]")})});
  CHECK(both[0].waiting_known);
  CHECK(us(both[0].whole.exposed) == 60);
  CHECK(us(both[0].whole.waiting) == 40);
  CHECK(us(both[1].whole.waiting) == 0);
  REQUIRE(both[0].moved.size() == 1);
  CHECK(us(both[0].moved[0].transfer) == 20);
  CHECK(us(both[0].moved[0].median) == 60);
  CHECK(both[0].moved[0].ranks_seen == 2);
  CHECK(both[0].moved[0].what.bytes() == Bytes(2000));
}

// Where a rank has seen one collective less, the others cannot be told apart, and no waiting is claimed.
TEST_CASE("collectives that do not match are left alone") {
  const auto both = analysed({trace_of(0, {kernel("sgemm", 0, 10), collective("allreduce", 10, 60, "[0, 1]"),
                                           collective("allreduce", 80, 60, "[0, 1]")}),
                              trace_of(1, {kernel("sgemm", 0, 10), collective("allreduce", 10, 20, "[0, 1]")})});
  CHECK(us(both[0].whole.waiting) == 0);
  CHECK(us(both[0].moved[0].transfer) == 0);
}

// A receive of 70 where another message of the same size takes 10: 60 of it is waiting, of which 30 are beside a
// kernel.
TEST_CASE("a message waits for its sender: what exceeds the shortest of its size is a bubble") {
  const auto one = analysed({trace_of(0, {kernel("sgemm", 0, 50), collective("recv", 20, 70, "[0, 1]"),
                                          kernel("sgemm", 90, 10), collective("send", 100, 10, "[0, 1]")})})
                       .front();
  CHECK(one.waiting_known);
  CHECK(us(one.whole.exposed) == 50);  // 50-90 and 100-110
  CHECK(us(one.whole.waiting) == 30);  // 20-80 waits, 50-80 with nothing beside it
  CHECK(us(one.by_kind()[index(Kind::message)]) == 80);
}

// Steps begin at 0, 100 and 210, and the last ends at 300.
TEST_CASE("steps go from one start to the next") {
  const auto step = [](int n, double start, double length) {
    return event("user_annotation", "ProfilerStep#" + std::to_string(n), start, length);
  };
  const auto one =
      analysed({trace_of(0, {step(4, 1000, 95), step(5, 1100, 100), step(6, 1210, 90), kernel("sgemm", 1010, 50),
                             kernel("sgemm", 1110, 60), kernel("sgemm", 1290, 20)})})
          .front();
  CHECK(one.step_count == 3);
  REQUIRE(one.lengths.size() == 3);
  CHECK(us(one.lengths[0]) == 100);
  CHECK(us(one.lengths[1]) == 110);
  CHECK(us(one.lengths[2]) == 90);
  CHECK(us(one.step) == 100);
  CHECK(us(one.steps.window) == 100);
  CHECK(us(one.steps.computing) == 40);  // 50 + 60 + 10 in three steps: what runs on behind the last is not counted
  CHECK(us(one.by_kind()[index(Kind::gemm)]) == 40);
}

// Two marks of one step on two streams are one, from 30 to 130.
TEST_CASE("marks on the GPU come before those of the host") {
  const TemporaryFile file(trace_of(
      0, {event("user_annotation", "ProfilerStep#1", 0, 100), event("gpu_user_annotation", "ProfilerStep#1", 30, 80),
          event("gpu_user_annotation", "ProfilerStep#1", 40, 90), kernel("sgemm", 30, 100)}));
  const auto trace = read(file.path(), rules()).front();
  CHECK(trace.steps_of_gpu);
  REQUIRE(trace.steps.size() == 1);
  CHECK(trace.steps[0].start == 0);
  CHECK(trace.steps[0].end == 100'000);
}

// Pauses of 5, 3 and 200 us: the last is no launch gap. What another stream fills is none either.
TEST_CASE("short pauses between kernels of the busiest stream") {
  const auto one =
      analysed({trace_of(0, {kernel("sgemm", 0, 100), kernel("sgemm", 105, 100), kernel("sgemm", 208, 100),
                             kernel("sgemm", 508, 100), kernel("vectorized_elementwise_kernel", 204, 5, 9)})})
          .front();
  CHECK(one.gaps.count == 1);
  CHECK(us(one.gaps.total) == 5);
}

TEST_CASE("kernels that no rule knows are named, longest first, and at most ten of them") {
  std::vector<std::string> events{kernel("sgemm", 0, 100)};
  for (int i = 0; i < 12; ++i) events.push_back(kernel("zzz" + std::string(1, char('a' + i)), 1000 + 100 * i, i + 1));
  const auto one = analysed({trace_of(0, events)}).front();
  REQUIRE(one.unknown.size() == 10);
  CHECK(one.unknown[0].name == "zzzl");
  CHECK(us(one.unknown[0].time) == 12);
  CHECK(us(one.unknown_time) == 78);
}

TEST_CASE("two traces of one rank are refused, and files without a rank are numbered") {
  const auto text = trace_of(0, {kernel("sgemm", 0, 100)});
  const TemporaryFile a(text), b(text);
  CHECK_THROWS_AS(read(std::vector{a.path(), b.path()}, rules()), UserError);
  const TemporaryFile nameless(R"({"traceEvents":[)" + kernel("sgemm", 0, 1) + "]}");
  const auto two = read(std::vector{nameless.path(), a.path()}, rules());
  CHECK(two[0].rank == 0);
  CHECK(two[1].rank == 1);
  CHECK(two[1].file == nameless.path());
}

TEST_CASE("rules of classes: communication first, types in names do not deceive") {
  const auto of = [](const char* name) { return rules().name(rules().of(name)); };
  CHECK(of("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)") == "send and receive");
  CHECK(of("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == "collective");
  CHECK(of("void deep_ep::intranode::dispatch<8, 768>(int4*)") == "expert dispatch");
  CHECK(of("void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::KernelParams<cutlass::bfloat16_t> >") ==
        "routing");
  CHECK(of("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT") == "matrix product");
  CHECK(of("Cijk_Alik_Bljk_BBS_BH_MT256x256x64") == "matrix product");
  CHECK(of("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<AdamFunctor>") == "optimizer");
  CHECK(of("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7") == "attention");
  CHECK(of("triton_poi_fused_add_mul_3") == "elementwise");
  CHECK(of("triton_tem_fused_mm_5") == "matrix product");
  CHECK(of("transformer_engine::rmsnorm_fwd_tuned_kernel") == "norm");
  CHECK(of("sm_zzz") == "unknown");
}

}  // namespace
}  // namespace rehearsal::traces
