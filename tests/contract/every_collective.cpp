// Every registered collective: ownership by symbolic execution, bytes on the wire, and time = an unrolled run.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "collective/registry.hpp"

using namespace rehearsal;
using namespace rehearsal::collective;

namespace {

using Owners = std::set<std::uint32_t>;  // ranks whose contributions a copy of a chunk contains
// held[participant][part]; empty = it has nothing of this part. Switches follow the ranks.
using State = std::vector<std::vector<Owners>>;

std::uint32_t parts_of(const Algorithm& a, Shape s) { return a.parts > 0 ? a.parts : s.ranks; }

State before(const Algorithm& a, Shape s) {
  State state(s.ranks + a.switches, std::vector<Owners>(parts_of(a, s)));
  for (std::uint32_t r = 0; r < s.ranks; ++r) {
    for (std::uint32_t c = 0; c < state[r].size(); ++c) {
      const bool has = a.point_to_point || a.kind == CollectiveKind::broadcast
                           ? r == 0
                           : a.kind != CollectiveKind::all_gather || c == r;
      if (has) state[r][c] = {r};
    }
  }
  return state;
}

// One step: all transfers read the state before it. Several may add to one part, but only one may overwrite it. A
// switch forwards what it received in the previous step and keeps nothing.
void apply(const std::vector<Transfer>& step, std::uint32_t ranks, State& state) {
  const State old = state;
  for (auto at = ranks; at < state.size(); ++at) state[at].assign(state[at].size(), {});
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> written;
  for (const Transfer& t : step) {
    REQUIRE(t.from != t.to);
    const Owners& sent = old.at(t.from).at(t.chunk);
    REQUIRE_MESSAGE(!sent.empty(), "a rank sends a part that it does not have");
    const auto [first, fresh] = written.emplace(std::pair{t.to, t.chunk}, t.reduce);
    REQUIRE_MESSAGE((fresh || (first->second && t.reduce)), "a part is overwritten beside another write in one step");
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
      if (a.point_to_point || a.kind == CollectiveKind::broadcast) {
        CHECK(state[r][c] == Owners{0});
      } else if (a.kind == CollectiveKind::all_reduce) {
        CHECK(state[r][c] == all);
      } else if (a.kind == CollectiveKind::shift) {
        CHECK(state[r][c] == Owners{(r + n - 1) % n});
      } else if (a.kind == CollectiveKind::all_gather) {
        CHECK(state[r][c] == Owners{c});
      } else if (r == c) {
        CHECK(state[r][c] == all);
      }
    }
  }
}

// Every rank has a different part for every other rank: each is sent once, directly to its destination.
void check_all_to_all(const Algorithm& a, Shape s) {
  const auto steps = a.schedule(s);
  CHECK(steps.size() == a.steps(s));
  std::set<std::pair<std::uint32_t, std::uint32_t>> sent;
  for (const auto& step : steps)
    for (const auto& t : step) {
      CHECK((t.chunk == t.to && t.from != t.to && !t.reduce));
      CHECK(sent.emplace(t.from, t.to).second);
    }
  CHECK(sent.size() == std::size_t(s.ranks) * (s.ranks - 1));
}

const Wires kWires{7e-6, 3e-6, Bandwidth(50e9), 11e-6, Bandwidth(20e9)};

// The wire of a transfer: inside a node (or to its switch), or out of it.
struct Line {
  double latency;
  Bandwidth rate;
};
Line line(Shape s, const Transfer& t, const Wires& w) {
  if (t.from >= s.ranks || t.to >= s.ranks || t.from / s.per_node == t.to / s.per_node) return {w.latency, w.rate};
  return {w.net_latency, w.net_rate};
}

// Ranks with one sending and one receiving port; a message starts when both ends have finished their earlier steps; a
// rank's messages in one step follow each other after a single latency.
double one_after_the_other(const Algorithm& a, Shape s, Bytes size, const Wires& w) {
  std::vector<double> ready(s.ranks, 0.);
  const double part = double(size.count()) / parts_of(a, s);
  for (const auto& step : a.schedule(s)) {
    auto next = ready;
    std::vector<double> sent(s.ranks, 0.);  // seconds of the sender's port in this step
    for (const Transfer& t : step) {
      const auto [latency, rate] = line(s, t, w);
      sent[t.from] += part / rate.value();
      const double end = std::max(ready[t.from], ready[t.to]) + latency + sent[t.from];
      next[t.to] = std::max(next[t.to], end);
      next[t.from] = std::max(next[t.from], end);
    }
    ready = next;
  }
  const double last = *std::max_element(ready.begin(), ready.end());
  return last > 0 ? w.fixed + last : 0;
}

// Many pieces at once: the latency of every step, plus the total time of the busiest port of a rank. A switch has as
// many ports as ranks.
double all_at_once(const Algorithm& a, Shape s, Bytes size, const Wires& w) {
  const double part = double(size.count()) / parts_of(a, s);
  std::vector<double> out(s.ranks, 0.), in(s.ranks, 0.);
  double latencies = 0;
  for (const auto& step : a.schedule(s)) {
    double longest = 0;
    for (const Transfer& t : step) {
      const auto [latency, rate] = line(s, t, w);
      longest = std::max(longest, latency);
      if (t.from < s.ranks) out[t.from] += part / rate.value();
      if (t.to < s.ranks) in[t.to] += part / rate.value();
    }
    latencies += longest;
  }
  if (latencies <= 0) return 0;
  return w.fixed + latencies +
         std::max(*std::max_element(out.begin(), out.end()), *std::max_element(in.begin(), in.end()));
}

// Consecutive pieces: a port is busy for the bytes of a piece, which arrives one latency later.
double streamed(const Algorithm& a, Shape s, Bytes size, const Wires& w) {
  const double part = double(size.count()) / parts_of(a, s) / w.rate.value();
  std::vector<double> out(s.ranks, 0.), in(s.ranks, 0.);
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> has;  // (rank, part): arrival time
  double last = 0;
  for (const auto& step : a.schedule(s))
    for (const Transfer& t : step) {
      // The receiver is busy from the earliest arrival of the first byte.
      const double start = std::max({has[{t.from, t.chunk}], out[t.from], in[t.to] - w.latency});
      out[t.from] = start + part, in[t.to] = start + w.latency + part;
      has[{t.to, t.chunk}] = in[t.to];
      last = std::max(last, in[t.to]);
    }
  return last > 0 ? w.fixed + last : 0;
}

template <class Check>
void for_every(Check check) {
  for (const auto& [name, algorithm] : registry()) {
    for (std::uint32_t n = 1; n <= (algorithm.point_to_point ? 2U : 16U); ++n) {
      for (std::uint32_t per_node = 1; per_node <= n; ++per_node) {
        if (algorithm.across_nodes ? n % per_node != 0 : per_node != n) continue;
        CAPTURE(name);
        CAPTURE(n);
        CAPTURE(per_node);
        check(algorithm, Shape(n, per_node));
      }
    }
  }
}

}  // namespace

TEST_CASE("the shelf is not empty and every entry explains itself") {
  for (const char* name : {"ring-all-reduce", "ring-reduce-scatter", "ring-all-gather", "send-recv", "tree-all-reduce",
                           "nvls-all-reduce", "hierarchical-all-reduce", "pat-all-gather", "pat-reduce-scatter",
                           "pairwise-all-to-all", "neighbour-shift", "chain-broadcast"})
    CHECK(registry().find(name) != nullptr);
  for (const auto& [name, algorithm] : registry()) CHECK(algorithm.summary.ends_with('.'));
}

TEST_CASE("everyone ends with what the collective promises") {
  for_every([](const Algorithm& a, Shape s) {
    if (a.kind == CollectiveKind::all_to_all) return check_all_to_all(a, s);
    State state = before(a, s);
    const auto steps = a.schedule(s);
    CHECK(steps.size() == a.steps(s));
    for (const auto& step : steps) apply(step, s.ranks, state);
    check_result(a, s.ranks, state);
  });
}

TEST_CASE("bytes sent by the busiest rank") {
  for_every([](const Algorithm& a, Shape s) {
    const std::int64_t part = 720'720;  // divisible by 1..16
    std::vector<std::int64_t> sent(s.ranks, 0);
    for (const auto& step : a.schedule(s))
      for (const auto& t : step)
        if (t.from < s.ranks) sent[t.from] += part;
    CHECK(a.bytes_sent_per_rank(s, Bytes(part * parts_of(a, s))) == Bytes(*std::max_element(sent.begin(), sent.end())));
  });
}

TEST_CASE("bytes inside nodes and out of them") {
  for (const auto& [name, a] : registry()) {
    for (std::uint32_t n = 2; n <= 16; ++n) {
      for (std::uint32_t g = 1; g <= n; ++g) {
        const Shape s(n, g);
        if (a.point_to_point || n % g != 0 || (a.switches > 0 && s.nodes() > 1)) continue;
        CAPTURE(name);
        CAPTURE(n);
        CAPTURE(g);
        const double part = 720'720;
        double inside = 0, out = 0;
        for (const auto& step : a.schedule(s))
          for (const auto& t : step)
            if (t.from < n) (t.to >= n || t.from / g == t.to / g ? inside : out) += part;
        const auto [of_rank, of_node] = split(a, s, Bytes(std::int64_t(part) * parts_of(a, s)));
        CHECK(of_rank * n + of_node * s.nodes() == doctest::Approx(inside + out));
        // Algorithms that ignore nodes cross them more often than NCCL's several-GPUs-per-node algorithms.
        const bool unaware = g > 1 && s.nodes() > 1 && (a.pipelined || (a.applies && !a.applies(s, {})));
        if (unaware)
          CHECK(of_node * s.nodes() <= out * (1 + 1e-12));
        else
          CHECK(of_node * s.nodes() == doctest::Approx(out));
      }
    }
  }
}

TEST_CASE("closed form = unrolled run without contention") {
  for_every([](const Algorithm& a, Shape s) {
    const Bytes size(16 << 20);  // a piece of a broadcast is a MiB
    const double run = a.streamed    ? streamed(a, s, size, kWires)
                       : a.pipelined ? all_at_once(a, s, size, kWires)
                                     : one_after_the_other(a, s, size, kWires);
    CHECK(a.time(s, size, kWires) == doctest::Approx(run).epsilon(1e-12));
  });
}
