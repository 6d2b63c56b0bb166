// Every registered collective: ownership by symbolic execution, bytes on the wire, and time = an unrolled run.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "collective/registry.hpp"

using namespace rehearsal;
using namespace rehearsal::collective;

namespace {

using Owners = std::set<std::uint32_t>;  // whose contribution a copy of a chunk holds
// held[rank][chunk]; empty = the rank has nothing of this chunk.
using State = std::vector<std::vector<Owners>>;

std::uint32_t chunks_of(const Algorithm& a, std::uint32_t n) { return a.point_to_point ? 1 : n; }

State before(const Algorithm& a, std::uint32_t n) {
  State state(n, std::vector<Owners>(chunks_of(a, n)));
  for (std::uint32_t r = 0; r < n; ++r) {
    for (std::uint32_t c = 0; c < state[r].size(); ++c) {
      const bool has = a.point_to_point ? r == 0 : a.kind != CollectiveKind::all_gather || c == r;
      if (has) state[r][c] = {r};
    }
  }
  return state;
}

// One step: all transfers read the state before it.
void apply(const std::vector<Transfer>& step, State& state) {
  const State old = state;
  std::set<std::pair<std::uint32_t, std::uint32_t>> written;
  for (const Transfer& t : step) {
    REQUIRE(t.from != t.to);
    const Owners& sent = old.at(t.from).at(t.chunk);
    REQUIRE_MESSAGE(!sent.empty(), "a rank sends a chunk that it does not have");
    REQUIRE_MESSAGE(written.emplace(t.to, t.chunk).second, "two writes of one chunk in one step");
    Owners& target = state.at(t.to).at(t.chunk);
    if (!t.reduce) {
      target = sent;
      continue;
    }
    for (const auto rank : sent) REQUIRE_MESSAGE(target.insert(rank).second, "a contribution is added twice");
  }
}

void check_result(const Algorithm& a, std::uint32_t n, const State& state) {
  Owners all;
  for (std::uint32_t r = 0; r < n; ++r) all.insert(r);
  for (std::uint32_t r = 0; r < n; ++r) {
    for (std::uint32_t c = 0; c < state[r].size(); ++c) {
      if (a.point_to_point) {
        if (r <= 1) CHECK(state[r][c] == Owners{0});
      } else if (a.kind == CollectiveKind::all_reduce) {
        CHECK(state[r][c] == all);
      } else if (a.kind == CollectiveKind::all_gather) {
        CHECK(state[r][c] == Owners{c});
      } else if (r == c) {
        CHECK(state[r][c] == all);
      }
    }
  }
}

// Ranks with one sending and one receiving port; a transfer starts when both ends have finished their earlier steps.
double unrolled(const Algorithm& a, std::uint32_t n, Bytes size, double fixed, double latency, Bandwidth rate) {
  std::vector<double> ready(n, 0.);
  const double chunk = double(size.count()) / chunks_of(a, n);
  for (const auto& step : a.schedule(n)) {
    auto next = ready;
    std::vector<double> port(n, 0.);  // when the sender's port is free
    for (const Transfer& t : step) {
      const double start = std::max({ready[t.from], ready[t.to], port[t.from]});
      const double end = start + latency + chunk / rate.value();
      port[t.from] = end;
      next[t.to] = std::max(next[t.to], end);
      next[t.from] = std::max(next[t.from], end);
    }
    ready = next;
  }
  const double last = *std::max_element(ready.begin(), ready.end());
  return last > 0 ? fixed + last : 0;
}

template <class Check>
void for_every(Check check) {
  for (const auto& [name, algorithm] : registry()) {
    for (std::uint32_t n = 1; n <= (algorithm.point_to_point ? 2U : 16U); ++n) {
      CAPTURE(name);
      CAPTURE(n);
      check(algorithm, n);
    }
  }
}

}  // namespace

TEST_CASE("the shelf is not empty and every entry explains itself") {
  for (const char* name : {"ring-all-reduce", "ring-reduce-scatter", "ring-all-gather", "send-recv"})
    CHECK(registry().find(name) != nullptr);
  for (const auto& [name, algorithm] : registry()) CHECK(algorithm.summary.ends_with('.'));
}

TEST_CASE("everyone ends with what the collective promises") {
  for_every([](const Algorithm& a, std::uint32_t n) {
    State state = before(a, n);
    const auto steps = a.schedule(n);
    CHECK(steps.size() == a.steps(n));
    for (const auto& step : steps) apply(step, state);
    check_result(a, n, state);
  });
}

TEST_CASE("bytes sent by the busiest rank") {
  for_every([](const Algorithm& a, std::uint32_t n) {
    const std::int64_t chunk = 720'720;  // divisible by 1..16
    std::vector<std::int64_t> sent(n, 0);
    for (const auto& step : a.schedule(n))
      for (const auto& t : step) sent[t.from] += chunk;
    CHECK(a.bytes_sent_per_rank(n, Bytes(chunk * chunks_of(a, n))) ==
          Bytes(*std::max_element(sent.begin(), sent.end())));
  });
}

TEST_CASE("closed form = unrolled run without contention") {
  for_every([](const Algorithm& a, std::uint32_t n) {
    const Bytes size(10'000'000);
    const double formula = a.time(n, size, 7e-6, 3e-6, Bandwidth(50e9));
    CHECK(formula == doctest::Approx(unrolled(a, n, size, 7e-6, 3e-6, Bandwidth(50e9))).epsilon(1e-12));
  });
}
