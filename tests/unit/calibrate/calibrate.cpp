// Tests what is measured, not its speed: all kinds and shapes are present, times are positive and ordered.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "calibrate/grid.hpp"
#include "calibrate/kernel_graph.hpp"
#include "calibrate/links.hpp"
#include "calibrate/machine.hpp"
#include "calibrate/tiers.hpp"
#include "cpu/kernels.hpp"
#include "dispatch/performable.hpp"
#include "graph/validate.hpp"
#include "loopback/loopback.hpp"

using namespace rehearsal;
using namespace rehearsal::calibrate;

namespace {

bool ordered(const KernelTime& t) { return Time() < t.p10 && t.p10 <= t.p50 && t.p50 <= t.p90; }

}  // namespace

TEST_CASE("the grid has shapes of every kind, each once, and of several sizes") {
  for (const bool quick : {true, false}) {
    CAPTURE(quick);
    std::map<KernelKind, std::set<std::int64_t>> sizes;
    std::set<Kernel> distinct;
    const auto grid = kernel_grid(quick);
    std::map<KernelKind, std::size_t> shapes;
    for (const auto& k : grid) sizes[k.kind].insert(k.traffic().count()), distinct.insert(k), shapes[k.kind]++;
    CHECK(distinct.size() == grid.size());
    CHECK(sizes.size() == kKernelKinds);
    for (const auto& [kind, traffic] : sizes) {
      CAPTURE(name(kind));
      CHECK(shapes[kind] >= (quick ? 3 : 8));
      CHECK(*traffic.rbegin() > 8 * *traffic.begin());
    }
  }
}

TEST_CASE("quantiles are those of the sorted times") {
  // Ranks 0..10: p10 is the 1st after the least, p50 the 5th, p90 the 9th.
  std::vector<Time> times;
  for (int i = 10; i >= 0; i--) times.push_back(Time(100 * i));
  const auto s = spread(times);
  CHECK(s.p10 == Time(100));
  CHECK(s.p50 == Time(500));
  CHECK(s.p90 == Time(900));
  std::vector<Time> one{Time(7)};
  CHECK(spread(one).p90 == Time(7));
}

TEST_CASE("kernels with data and state are called from several threads") {
  std::vector<Kernel> kernels;
  for (const auto& k : kernel_grid(true))
    if (!fits_kernel_graph(k.kind)) kernels.push_back(k);
  kernels.push_back({KernelKind::linear, {8, 8, 8}, {}});
  std::size_t seen = 0;
  Settings settings{.ranks = 2, .repetitions = 3, .footprint = Bytes(1 << 20)};
  settings.progress = [&](std::size_t done) { CHECK(done == ++seen); };
  const auto times = time_kernels(kernels, settings);
  REQUIRE(times.size() == kernels.size());
  CHECK(seen == kernels.size());
  for (std::size_t i = 0; i < times.size(); i++) {
    CAPTURE(name(kernels[i].kind));
    CHECK(times[i].kernel == kernels[i]);
    CHECK(ordered(times[i]));
  }
  // Work shows: 2^27 FLOP take longer than 2^10.
  const std::vector<Kernel> two{{KernelKind::linear, {8, 8, 8}, {}}, {KernelKind::linear, {256, 512, 512}, {}}};
  settings.progress = [](std::size_t) {};
  const auto t = time_kernels(two, settings);
  CHECK(t[1].p10 > t[0].p10 * 10);
}

TEST_CASE("the others are tasks of a graph that any backend performs") {
  std::vector<Kernel> kernels;
  for (const auto& k : kernel_grid(true))
    if (fits_kernel_graph(k.kind)) kernels.push_back(k);
  const auto built = kernel_graph(kernels, 2, Bytes(1 << 20));
  graph::validate(built.graph);
  CHECK_FALSE(dispatch::why_not_real(built.graph));
  const auto timeline = loopback::make_loopback()->prepare(built.graph)->run(kernel_graph_options());
  const auto times = read_kernel_graph(built, timeline);
  REQUIRE(times.kernels.size() == kernels.size());
  for (std::size_t i = 0; i < kernels.size(); i++) {
    CAPTURE(name(kernels[i].kind));
    CHECK(times.kernels[i].kernel == kernels[i]);
    CHECK(ordered(times.kernels[i]));
  }
  CHECK(times.between.p50 > Time());
}

TEST_CASE("spans become times of their kernel, and the gaps between them") {
  // One rank, two kernels, six tasks each. Tasks of the first take 2 us and those of the second 5 us; 1 us between
  // tasks.
  const std::vector<Kernel> kernels{{KernelKind::clear, {16}, {}}, {KernelKind::copy, {16}, {}}};
  const auto built = kernel_graph(kernels, 1, Bytes(4096));
  REQUIRE(built.graph.tasks() == 12);
  timeline::Timeline timeline;
  timeline::Spans spans;
  Time now;
  for (std::size_t i = 0; i < 12; i++) {
    spans.start.push_back(now);
    now += seconds(i < 6 ? 2e-6 : 5e-6);
    spans.end.push_back(now);
    now += seconds(1e-6);
  }
  timeline.iterations = {spans, spans};
  const auto times = read_kernel_graph(built, timeline);
  CHECK(times.kernels[0].p50 == seconds(2e-6));
  CHECK(times.kernels[1].p10 == seconds(5e-6));
  CHECK(times.between.p10 == seconds(1e-6));
  CHECK(times.between.p90 == seconds(1e-6));
}

TEST_CASE("messages and collectives of two threads") {
  const auto probe = probe_loopback(2);
  CHECK(probe.ranks == 2);
  CHECK(probe.links.size() >= 8);
  for (const auto& l : probe.links) CHECK(l.latency > Time());
  CHECK(probe.collectives.size() >= 3 * 8);
  CHECK_FALSE(probe.single_copy);
}

TEST_CASE("copies, an optimizer and a disk") {
  const TierSettings settings{2, "", true};
  const auto above_zero = [](const Spread& s) { return Time() < s.p10 && s.p10 <= s.p50 && s.p50 <= s.p90; };
  const auto copies = time_heap_copies(settings);
  REQUIRE(copies.size() == 3);
  for (const auto& c : copies) CHECK(above_zero(c.time));
  CHECK(copies[2].time.p10 > copies[0].time.p10);  // 256 times the bytes
  for (const bool stored : {false, true}) {
    const auto adam = time_host_adam(settings, stored);
    CHECK(adam.each == Bytes(stored ? 30 : 28));
    CHECK(adam.parameters >= 1 << 20);
    CHECK(above_zero(adam.time));
  }
  for (const bool direct : {false, true}) {
    const auto disk = probe_disk(settings, direct);
    REQUIRE_FALSE(disk.times.empty());
    for (const auto& t : disk.times) {
      CHECK(above_zero(t.write));
      CHECK(above_zero(t.read));
    }
    if (!direct) CHECK(disk.page_cache);
  }
  // A folder in memory has no disk that could answer, whatever its flags say.
  CHECK(probe_disk({1, "/dev/shm", true}, true).page_cache);
}

TEST_CASE("what machine this is") {
  const auto machine = this_machine();
  CHECK(machine.cores >= 1);
  CHECK(machine.second_cache > Bytes());
  CHECK_FALSE(machine.cpu.empty());
  CHECK(machine.system.starts_with("Linux "));
  CHECK(utc_now().size() == 20);
  CHECK(timer_overshoot(3).p50 > Time());
  const auto n = noise(1, 5);
  CHECK(n.p50 > seconds(.2e-3));  // about 1 ms of work, however fast the clock runs by now
}
