// Traces of PyTorch's profiler (tests/traces/SOURCES). What is expected was computed from the same files by another
// program, which puts all events into lists and takes unions of intervals one by one.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "traces/analysis.hpp"
#include "traces/samples.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& classes() {
  static const KernelClasses all;
  return all;
}

struct Read {
  std::vector<Trace> traces;
  Analysis analysis;
  const Trace& trace() const { return traces.front(); }
};
Read read_one(const std::string& name) {
  Read one{read(std::vector<std::string>{TEST_DATA "/traces/" + name}, classes()), {}};
  REQUIRE(one.traces.size() == 1);
  one.analysis = analyse(one.traces, classes()).front();
  return one;
}

double percent(Time part, const Shares& of) { return 100 * (part / of.window); }
constexpr double kDigit = .05;  // expected values have one digit behind the point

struct Expected {
  const char* file;
  double span_ms, busy, computing, communicating, exposed, idle;  // of the span: percent
  std::size_t kernels, steps;
};
constexpr Expected kExpected[] = {
    {"dlrm_rank_0_of_128.json.gz", 1222.8, 44.8, 17.3, 32.4, 27.5, 55.2, 1204, 2},
    {"qwen1.5_h100.json.gz", 49.7, 91.9, 91.9, 0, 0, 8.1, 1707, 1},
    {"resnet_2_a100_kernels.json.gz", 660.6, 23.8, 17.9, 7.1, 5.9, 76.2, 3774, 3},
    {"gpt_oss_b200_kernels.json.gz", 84.5, 13.7, 11.2, 2.5, 2.5, 86.3, 929, 0},
};

TEST_CASE("busy, computing, exposed and idle time of real traces") {
  for (const auto& expected : kExpected) {
    CAPTURE(expected.file);
    const auto one = read_one(expected.file);
    const auto& whole = one.analysis.whole;
    CHECK(to_seconds(whole.window) * 1e3 == doctest::Approx(expected.span_ms).epsilon(.001));
    CHECK(std::abs(percent(whole.busy(), whole) - expected.busy) < kDigit);
    CHECK(std::abs(percent(whole.computing, whole) - expected.computing) < kDigit);
    CHECK(std::abs(percent(whole.communicating, whole) - expected.communicating) < kDigit);
    CHECK(std::abs(percent(whole.exposed, whole) - expected.exposed) < kDigit);
    CHECK(std::abs(percent(whole.idle(), whole) - expected.idle) < kDigit);
    CHECK(one.trace().kernels.size() == expected.kernels);
    CHECK(one.analysis.step_count == expected.steps);
  }
}

TEST_CASE("most of the time is of kernels that a rule knows") {
  for (const auto& expected : kExpected) {
    CAPTURE(expected.file);
    const auto one = read_one(expected.file);
    Time all;
    for (const auto& row : one.analysis.classes) all += row.time;
    CHECK(one.analysis.unknown_time * 100 <= all * std::int64_t(std::max<std::size_t>(1, one.analysis.step_count)));
  }
}

TEST_CASE("matrix products of the H100 trace, by their shapes") {
  const auto one = read_one("qwen1.5_h100.json.gz");
  CHECK(one.trace().gpu.name == "NVIDIA H100 80GB HBM3");
  CHECK(one.trace().gpu.multiprocessors == 132);
  const auto all = samples(one.trace());
  struct Row {
    const char* name;
    Gemm gemm;
    std::uint64_t count;
    double p10_us, p50_us, p90_us, tflops;
  };
  // The quotient of 2 m n k and the median.
  const Row rows[] = {
      {"aten::mm", {8944, 2816, 1024, 1, Precision::bf16}, 48, 82.047, 83.711, 85.535, 616.2},
      {"aten::addmm", {8944, 1024, 1024, 1, Precision::bf16}, 72, 31.041, 31.456, 31.904, 596.3},
      {"aten::mm", {8944, 1024, 2816, 1, Precision::bf16}, 24, 75.2, 75.647, 76.288, 681.9},
      {"aten::mm", {8944, 1024, 1024, 1, Precision::bf16}, 24, 31.424, 31.552, 31.903, 594.5},
  };
  for (const auto& row : rows) {
    CAPTURE(row.tflops);
    const auto found = std::find_if(all.gemms.begin(), all.gemms.end(),
                                    [&](const GemmSample& s) { return s.name == row.name && s.gemm == row.gemm; });
    REQUIRE(found != all.gemms.end());
    CHECK(found->count == row.count);
    CHECK(to_seconds(found->median) * 1e6 == doctest::Approx(row.p50_us).epsilon(.02));
    CHECK(to_seconds(found->p10) * 1e6 == doctest::Approx(row.p10_us).epsilon(.02));
    CHECK(to_seconds(found->p90) * 1e6 == doctest::Approx(row.p90_us).epsilon(.02));
    CHECK(found->flop_rate() / 1e12 == doctest::Approx(row.tflops).epsilon(.02));
  }
  REQUIRE(all.attention.size() == 1);
  const auto& attention = all.attention.front();
  CHECK(attention.count == 24);
  CHECK(attention.attention.batch == 16);
  CHECK(attention.attention.heads == 16);
  CHECK(attention.attention.queries == 559);
  CHECK(attention.attention.head_dim == 64);
  CHECK(to_seconds(attention.median) * 1e6 == doctest::Approx(113.855).epsilon(.02));
}

TEST_CASE("matrix products of the B200 trace, by their shapes") {
  const auto all = samples(read_one("gpt_oss_b200_kernels.json.gz").trace());
  REQUIRE(all.gemms.size() == 4);
  const auto row = [&](std::int64_t n, std::int64_t k) {
    return *std::find_if(all.gemms.begin(), all.gemms.end(),
                         [&](const GemmSample& s) { return s.gemm.n == n && s.gemm.k == k; });
  };
  CHECK(row(640, 2880).flop_rate() / 1e12 == doctest::Approx(405.9).epsilon(.02));
  CHECK(row(2880, 512).flop_rate() / 1e12 == doctest::Approx(413.4).epsilon(.02));
  CHECK(row(128, 2880).flop_rate() / 1e12 == doctest::Approx(100.8).epsilon(.02));
  CHECK(row(25136, 2880).count == 1);
}

TEST_CASE("collectives carry their sizes and groups") {
  const auto one = read_one("resnet_2_a100_kernels.json.gz");
  CHECK(one.trace().rank == 0);
  CHECK(one.trace().world == 2);
  const auto& moved = one.analysis.moved;
  REQUIRE(moved.size() == 7);
  const auto found =
      std::find_if(moved.begin(), moved.end(), [](const Moved& m) { return m.what.bytes() == Bytes(8'196'000); });
  REQUIRE(found != moved.end());
  CHECK(found->what.name == "allreduce");
  CHECK(found->what.members() == std::vector<std::int64_t>{0, 1});
  CHECK(found->count == 3);
  CHECK(to_seconds(found->median) * 1e6 == doctest::Approx(3307.0).epsilon(.0001));
}

// Kernels that compute by the range of the main thread ("## forward ##", ...) in whose time their launch is, of three
// steps; in the trace, what is backward is told by autograd's nodes as well.
TEST_CASE("passes of a trained ResNet") {
  const auto one = read_one("resnet_2_a100_kernels.json.gz");
  CHECK(one.trace().launches.size() == 3774);
  const auto of = [&](Pass pass) {
    std::pair<double, std::uint64_t> sum{};
    for (const auto& part : one.analysis.passes)
      if (part.pass == pass) sum.first += to_seconds(part.time) * 3e6, sum.second += part.kernels;
    return sum;
  };
  CHECK(of(Pass::forward).first == doctest::Approx(37921.541).epsilon(1e-6));
  CHECK(of(Pass::backward).first == doctest::Approx(75656.028).epsilon(1e-6));
  CHECK(of(Pass::optimizer).first == doctest::Approx(2078.278).epsilon(1e-6));
  CHECK(of(Pass::forward).second == 873 / 3);
  CHECK(of(Pass::backward).second == 1779 / 3);
  CHECK(of(Pass::optimizer).second == 27 / 3);
  CHECK(of(Pass::unknown).first == 0);
  CHECK(one.analysis.microbatches.empty());
  // Eager, with small batches: the GPU waits for its host nearly always.
  CHECK(one.analysis.launching.late / one.analysis.launching.idle > .99);
}

TEST_CASE("what is no trace is refused") {
  CHECK_THROWS_AS(read(std::string(TEST_DATA "/traces/SOURCES"), classes()), UserError);
  CHECK_THROWS_AS(read(std::string(TEST_DATA "/traces"), classes()), UserError);
  CHECK_THROWS_AS(read(std::string(TEST_DATA "/traces/nothing.json"), classes()), UserError);
}

}  // namespace
}  // namespace rehearsal::traces
