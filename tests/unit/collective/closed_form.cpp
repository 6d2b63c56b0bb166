// A closed form in parts, and what ranks hold while a collective runs.
#include <doctest/doctest.h>

#include "collective/closed_form.hpp"
#include "collective/holdings.hpp"
#include "collective/registry.hpp"

using namespace rehearsal;
using namespace rehearsal::collective;
using doctest::Approx;

TEST_CASE("a ring in a node: its start, its steps, its bytes") {
  // Four ranks: 6 steps of 3 us; 1.5 x 1 GB at 50 GB/s = 30 ms.
  const auto form =
      take_apart(registry().at("ring-all-reduce"), 4, Bytes(1'000'000'000), Wires{7e-6, 3e-6, Bandwidth(50e9), 0, {}});
  CHECK(form.fixed == Approx(7e-6));
  CHECK(form.steps == Approx(6));
  CHECK(form.latency == 3e-6);
  CHECK(form.inside == Approx(30e-3));
  CHECK((form.hops == 0 && form.wire == 0 && form.hidden == 0));
  CHECK(form.seconds() == Approx(7e-6 + 6 * 3e-6 + 30e-3));
}

TEST_CASE("a ring across nodes: one part hides behind the other, but for a piece") {
  // 16 ranks on two nodes: 2 x 15/16 GB at 8 x 20 GB/s = 11.719 ms between; 4 ms inside, of which one piece does not
  // hide: 16 channels take 1 GB / (16 x 16 x 2 MiB) = 2 loops, each of 30 steps of 2 slices. 2 x 1 hop, and 2 x 7 steps
  // in the other node.
  Wires wires{0, 3e-6, Bandwidth(50e9), 11e-6, Bandwidth(20e9)};
  wires.ring_inside = 4e-3, wires.channels = 16;
  const auto form = take_apart(registry().at("ring-all-reduce"), {16, 8}, Bytes(1'000'000'000), wires);
  CHECK(form.wire == Approx(1.875 / 160));
  CHECK(form.inside == Approx(4e-3));
  CHECK(form.hidden == Approx(119. / 120 * 4e-3));
  CHECK(form.hops == Approx(2));
  CHECK(form.steps == Approx(14));
  CHECK(form.fixed == 0);
}

TEST_CASE("the parts of every algorithm are its time") {
  for (const auto& [name, algorithm] : registry()) {
    if (algorithm.point_to_point) continue;
    CAPTURE(name);
    for (const Shape shape : {Shape(2), Shape(3), Shape(8), Shape(16, 8), Shape(12, 4), Shape(6, 1)}) {
      Wires wires{7e-6, 3e-6, Bandwidth(50e9), 11e-6, Bandwidth(20e9)};
      if (shape.nodes() > 1)
        wires.inside = 1e-3, wires.ring_inside = 2e-3,
        wires.crossings = {{shape.per_node, Bandwidth(20e9 * shape.per_node)}};
      CAPTURE(shape.ranks);
      const Bytes size(100'000'000);
      CHECK(take_apart(algorithm, shape, size, wires).seconds() ==
            Approx(algorithm.time(shape, size, wires)).epsilon(1e-12));
    }
  }
}

TEST_CASE("at the end everyone holds what the collective promises, and never more") {
  for (const auto& [name, algorithm] : registry()) {
    if (algorithm.point_to_point) continue;
    CAPTURE(name);
    for (std::uint32_t n = 2; n <= 9; ++n) {
      const auto steps = algorithm.schedule(n);
      const auto held = holdings(algorithm, n, steps);
      if (algorithm.kind == CollectiveKind::all_to_all) {
        CHECK(held.after.empty());
        continue;
      }
      REQUIRE(held.after.size() == steps.size() + 1);
      const bool sums =
          algorithm.kind == CollectiveKind::all_reduce || algorithm.kind == CollectiveKind::reduce_scatter;
      CHECK(held.full == (sums ? n : 1));
      for (const auto& state : held.after)
        for (const auto& rank : state)
          for (const auto count : rank) CHECK(count <= held.full);
      for (std::uint32_t rank = 0; rank < n; ++rank)
        for (std::uint32_t part = 0; part < parts_of(algorithm, n); ++part)
          if (algorithm.kind != CollectiveKind::reduce_scatter || rank == part)
            CHECK(held.after.back()[rank][part] == held.full);
    }
  }
}
