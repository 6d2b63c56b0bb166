// Which pass and micro-batch kernels are of, by what their launches stand in.
#include "traces/passes.hpp"

#include <doctest/doctest.h>

#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}

constexpr int kMain = 1, kAutograd = 2;
std::string node(double start, double duration, int thread = kAutograd) {
  return on_host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", thread, start, duration);
}
std::string range(const std::string& name, double start, double duration, int thread = kMain) {
  return on_host("user_annotation", name, thread, start, duration);
}
std::vector<Label> labels(const std::vector<std::string>& events) {
  const TemporaryFile file(trace_of(0, events));
  const auto trace = read(file.path(), rules()).front();
  std::vector<Label> all;
  for (const auto& kernel : trace.kernels) all.push_back(trace.labels[kernel.label]);
  return all;
}
std::vector<Pass> passes(const std::vector<std::string>& events) {
  std::vector<Pass> all;
  for (const auto& label : labels(events)) all.push_back(label.pass);
  return all;
}

// No range names a forward pass: it is what comes before autograd's launches. Norms of gradients come before the
// optimizer's range, and what follows the last of all is not told.
TEST_CASE("a trainer with PyTorch's own marks alone") {
  CHECK(passes({launched("sgemm", 1, kMain, 10, 100, 10), node(50, 40), launched("sgemm", 2, kAutograd, 60, 120, 10),
                launched("sgemm", 3, kAutograd, 95, 140, 10),  // behind its nodes, where hooks run
                launched("reduce_kernel", 4, kMain, 110, 160, 10), range("Optimizer.step#AdamW.step", 120, 40),
                launched("multi_tensor_apply_kernel", 5, kMain, 130, 180, 10),
                launched("vectorized_elementwise_kernel", 6, kMain, 170, 200, 10)}) ==
        std::vector{Pass::forward, Pass::backward, Pass::backward, Pass::optimizer, Pass::optimizer, Pass::unknown});
}

// Without an optimizer nobody knows where the forward pass begins.
TEST_CASE("what nothing tells is not guessed") {
  CHECK(passes({launched("sgemm", 1, kMain, 10, 100, 10), node(50, 40),
                launched("sgemm", 2, kAutograd, 60, 120, 10)}) == std::vector{Pass::unknown, Pass::backward});
  CHECK(passes({launched("sgemm", 1, kMain, 10, 100, 10), launched("adam_kernel", 2, kMain, 60, 120, 10)}) ==
        std::vector{Pass::unknown, Pass::optimizer});
}

TEST_CASE("recomputation is part of the backward pass, an optimizer in it is the optimizer") {
  CHECK(passes({node(50, 40), range("FullyShardedDataParallel.forward", 55, 10, kAutograd),
                launched("sgemm", 1, kAutograd, 60, 120, 10), range("Optimizer.step#SGD.step", 70, 10, kAutograd),
                launched("sgemm", 2, kAutograd, 75, 140, 10), launched("sgemm", 3, kAutograd, 85, 160, 10)}) ==
        std::vector{Pass::backward, Pass::optimizer, Pass::backward});
}

// A closure: the whole step stands in the optimizer's range, and inner ranges count more. Autograd on the main thread.
TEST_CASE("inner ranges count more than outer ones") {
  CHECK(passes({range("Optimizer.step#AdamW.step", 0, 100), range("[pl]training_step", 10, 20),
                launched("sgemm", 1, kMain, 15, 200, 10), node(40, 20, kMain), launched("sgemm", 2, kMain, 45, 220, 10),
                launched("sgemm", 3, kMain, 80, 240, 10)}) ==
        std::vector{Pass::forward, Pass::backward, Pass::optimizer});
}

TEST_CASE("micro-batches: of the thread itself, and of the one that waits for it") {
  const auto all = labels({range("PP:2F0", 0, 10), launched("sgemm", 1, kMain, 5, 100, 10), range("PP:2F1", 10, 10),
                           launched("sgemm", 2, kMain, 15, 120, 10), range("PP:2B0", 20, 20), node(25, 10),
                           launched("sgemm", 3, kAutograd, 30, 140, 10), range("Backward 1", 40, 20), node(45, 10),
                           launched("sgemm", 4, kAutograd, 50, 160, 10)});
  CHECK(all == std::vector<Label>{{Pass::forward, 0}, {Pass::forward, 1}, {Pass::backward, 0}, {Pass::backward, 1}});
}

TEST_CASE("without calls, ranges on the GPU tell: those of the stream, else of another") {
  const auto on_gpu = [](const std::string& name, double start, double duration) {
    return event("gpu_user_annotation", name, start, duration);
  };
  CHECK(passes({on_gpu("## forward ##", 100, 15), on_gpu("## backward ##", 120, 30), kernel("sgemm", 100, 10),
                kernel("sgemm", 120, 10), kernel("sgemm", 130, 10, 9), kernel("sgemm", 160, 10)}) ==
        std::vector{Pass::forward, Pass::backward, Pass::backward, Pass::unknown});
}

TEST_CASE("words of ranges") {
  const auto label = [](const char* name) { return rules().range(name).value_or(Label{}); };
  const Label none{};
  CHECK(label("## forward ##") == Label{Pass::forward});
  CHECK(label("DistributedDataParallel.forward").pass == Pass::forward);
  CHECK(label("FSDP::pre_backward (layers.3)").pass == Pass::backward);
  CHECK(label("Optimizer.zero_grad#AdamW.zero_grad").pass == Pass::optimizer);
  CHECK(label("DeepSpeedEngine.step").pass == Pass::optimizer);
  CHECK(label("forward_backward_no_pipelining") == none);
  CHECK(label("PP:0W12") == Label{Pass::backward, 12});
  CHECK(label("PP:1RECV_F3") == Label{Pass::forward, 3});
  CHECK(label("fwd_microbatch_7") == Label{Pass::forward, 7});
  CHECK(label("microbatch 7") == Label{Pass::unknown, 7});
  CHECK(label("nccl:all_reduce") == none);
  CHECK(label("straightforward") == none);
  CHECK(label("forward 99999999999").microbatch == graph::kNoMicrobatch);
}

}  // namespace
}  // namespace rehearsal::traces
