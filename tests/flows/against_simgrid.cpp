// End times of random flows, ours against SimGrid's: two independent implementations of one idea.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "flows/networks.hpp"

namespace rehearsal::flows {
namespace {

double worst(const Ran& ours, const Ran& theirs) {
  double worst = 0;
  for (std::size_t i = 0; i < ours.ends.size(); ++i)
    worst = std::max(worst, std::abs(ours.ends[i] - theirs.ends[i]) / theirs.ends[i]);
  return worst;
}

void skip_without_simgrid() {
  if (has_simgrid()) return;
  std::puts("skipped: built without SimGrid (libsimgrid-dev)");
  std::exit(77);
}

}  // namespace

TEST_CASE("random flows on stars, rails and trees end when SimGrid says") {
  skip_without_simgrid();
  for (const Platform platform : {Platform::star, Platform::rails, Platform::tree})
    for (const bool bounds : {false, true})
      for (const bool weights : {false, true}) {
        double all = 0;
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
          CAPTURE(seed);
          const Network network = random_network(seed, platform, bounds, weights);
          const double difference = worst(run(network), run_simgrid(network));
          CHECK(difference < 1e-8);
          all = std::max(all, difference);
        }
        MESSAGE("platform " << int(platform) << ", bounds " << bounds << ", weights " << weights << ": " << all);
      }
}

TEST_CASE("so do a ring and a fat tree") {
  skip_without_simgrid();
  // Each flow starts when others end, so what SimGrid rounds away
  // adds up.
  for (const Network& network : {ring(16, 30, true), fat_tree(64, 10, false), fat_tree(64, 10, true)})
    CHECK(worst(run(network), run_simgrid(network)) < 1e-7);
}

}  // namespace rehearsal::flows
