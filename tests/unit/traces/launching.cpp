// Whether the host kept up.
#include "traces/launching.hpp"

#include <doctest/doctest.h>

#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}
Launching of(const std::vector<std::string>& events) {
  const TemporaryFile file(trace_of(0, events));
  return analyse(read(std::vector{file.path()}, rules()), rules()).front().launching;
}

// Calls take 4 us. The kernels of 100 and 202 us were launched long before; the idle 2 us between them are a pause.
// That of 350 was launched at 340, when the GPU had been idle since 302, and that of 410 at 400: its idle time, from
// 400, is the host's. In all 2 + 48 + 10 us idle, of which 58 are late; 280 and 60 us from one launch to the next.
TEST_CASE("idle time before late launches is the host's") {
  const auto l = of({launched("sgemm", 1, 1, 50, 100, 100), launched("sgemm", 2, 1, 60, 202, 100),
                     launched("sgemm", 3, 1, 340, 350, 50), launched("sgemm", 4, 1, 400, 410, 50)});
  CHECK(l.kernels == 4);
  CHECK(us(l.call.median) == 4);
  CHECK(us(l.idle) == 60);
  CHECK(us(l.late) == 58);
  CHECK(l.pause.count == 1);
  CHECK(us(l.pause.median) == 2);
  const auto& each = l.each[index(Pass::unknown)];
  CHECK(each.count == 2);
  CHECK(us(each.mean) == 170);  // 280 and 60
  CHECK(us(each.p10) == 60);
}

// What another stream fills is no idle time, and behind a collective or a copy no pause between kernels.
TEST_CASE("other streams, collectives and copies") {
  const auto l = of({launched("sgemm", 1, 1, 0, 100, 100), launched("sgemm", 2, 1, 10, 150, 60, 9),
                     launched("sgemm", 3, 1, 20, 215, 10), launched("ncclDevKernel_AllReduce", 4, 1, 30, 230, 10),
                     launched("sgemm", 5, 1, 40, 245, 10)});
  CHECK(us(l.idle) == 5 + 5 + 5);
  CHECK(us(l.late) == 0);
  CHECK(l.pause.count == 0);
}

TEST_CASE("a trace without calls says nothing of its host") {
  const auto l = of({kernel("sgemm", 0, 10), kernel("sgemm", 20, 10)});
  CHECK(l.kernels == 0);
  CHECK(l.idle == Time{});
}

TEST_CASE("a spread of eleven") {
  std::vector<Time> all;
  for (int i = 1; i <= 11; ++i) all.push_back(Time(i));
  const auto spread = spread_of(all);
  CHECK(spread.count == 11);
  CHECK(spread.mean == Time(6));
  CHECK(spread.p10 == Time(2));
  CHECK(spread.median == Time(6));
  CHECK(spread.p90 == Time(10));
}

}  // namespace
}  // namespace rehearsal::traces
