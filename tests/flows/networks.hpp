// Networks of flows that sim/fluid and SimGrid both can run: links, flows on them, and what a flow waits for.
#pragma once
#include <cstdint>
#include <vector>

#include "fluid/flows.hpp"

namespace rehearsal::flows {

constexpr std::int64_t kMega = 1'000'000;

// Rates are whole MB/s, and the bytes of a flow a multiple of its rate alone in MB/s: then a flow alone lasts whole
// microseconds, and both simulators get exactly the same question.
struct Flow {
  std::vector<std::uint32_t> route;  // each link as often as its weight
  std::int64_t bytes = 0;
  Time at;                 // earliest start
  std::int64_t bound = 0;  // B/s; 0: none
};
struct Network {
  std::vector<std::int64_t> links;  // B/s
  std::vector<Flow> flows;
  // Flow k * chains + h follows flow (k - 1) * chains + h.
  std::size_t chains = 0;
  // Also, host h sends its flow to host h + 1: a host sends and receives a step before it starts the next.
  bool ring = false;
};

std::int64_t rate_alone(const Network& network, const Flow& flow);

enum class Platform { star, rails, tree };
// `weights`: links are used up to five times over. `bounds`: some flows have one.
Network random_network(std::uint64_t seed, Platform platform, bool bounds, bool weights);
// A ring all-reduce: `steps` steps of a chunk to the next host, NICs of 50 GB/s. `jitter`: chunks differ by 5 %.
Network ring(std::uint32_t hosts, std::uint32_t steps, bool jitter);
// A random permutation over the hosts of a fat tree (8 hosts, 8 up-links per edge switch, 64 cores per pod, 50 GB/s
// each) with random up-links. `moving`: another permutation in each round.
Network fat_tree(std::uint32_t hosts, std::uint32_t rounds, bool moving);

struct Ran {
  std::vector<double> ends;  // s
  double seconds = 0;        // wall time, without setup
  fluid::Flows::Counts counts;
};
Ran run(const Network& network, fluid::Flows::Method method = {});

bool has_simgrid();
Ran run_simgrid(const Network& network);

}  // namespace rehearsal::flows
