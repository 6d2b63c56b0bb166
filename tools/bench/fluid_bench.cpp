// fluid_bench [repeats]: flows per second of sim/fluid and, where there is one, of SimGrid on the same networks in the
// same session. Appends to tools/bench/results/fluid.csv. Best of the repeats, of SimGrid's too unless it takes longer
// than 1 s; neither counts what is made before the first flow starts. `differ`: the largest relative difference of an
// end; where who meets whom depends on who was first, what SimGrid rounds away grows from round to round. Exit status 1
// when following up changes and solving anew do not end alike.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "first_line.hpp"
#include "flows/networks.hpp"

namespace {

using namespace rehearsal;

struct Case {
  const char* name;
  flows::Network network;
};

std::vector<Case> cases() {
  return {{"ring 64 hosts, 126 steps, equal chunks", flows::ring(64, 126, false)},
          {"ring 64 hosts, 126 steps, chunks +-5 %", flows::ring(64, 126, true)},
          {"ring 256 hosts, 100 of 510 steps, chunks +-5 %", flows::ring(256, 100, true)},
          {"ring 1024 hosts, 40 of 2046 steps, equal chunks", flows::ring(1024, 40, false)},
          {"ring 1024 hosts, 40 of 2046 steps, chunks +-5 %", flows::ring(1024, 40, true)},
          {"fat tree 64 hosts, one permutation, 100 rounds", flows::fat_tree(64, 100, false)},
          {"fat tree 64 hosts, 100 permutations", flows::fat_tree(64, 100, true)},
          {"fat tree 1024 hosts, one permutation, 20 rounds", flows::fat_tree(1024, 20, false)},
          {"fat tree 1024 hosts, 20 permutations", flows::fat_tree(1024, 20, true)}};
}

int measure(int repeats) {
  std::ofstream file(RESULTS, std::ios::app);
  if (file.tellp() == 0)
    file << "date,cpu,commit,network,flows,seconds,flows_per_s,rate_changes,ns_per_change,peer_seconds,ratio\n";
  const auto date = first_line_of("date -u +%F"), cpu = first_line_of("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo");
  const auto commit = first_line_of("git rev-parse --short HEAD 2>/dev/null");
  fmt::print("{:48} {:>6} {:>9} {:>9} {:>8} {:>7} {:>6} {:>9} {:>9} {:>6} {:>8}\n", "network", "flows", "ours", "anew",
             "ns/flow", "changes", "opened", "ns/change", "SimGrid", "ratio", "differ");
  int status = 0;
  for (const Case& c : cases()) {
    const auto n = double(c.network.flows.size());
    flows::Ran ours = flows::run(c.network);
    for (int i = 1; i < repeats; ++i) ours.seconds = std::min(ours.seconds, flows::run(c.network).seconds);
    const flows::Ran anew = flows::run(c.network, {.coast = false, .whole = true});
    // What a change of a rate costs is all that a run costs where rates do change.
    const auto changes = double(ours.counts.sharing.changes);
    const auto per_change = changes < n / 10 ? std::string() : fmt::format("{:.0f}", ours.seconds / changes * 1e9);
    fmt::print("{:48} {:>6.0f} {:>7.2f}/us {:>6.3f}/us {:>8.0f} {:>7.0f} {:>6} {:>9}", c.name, n,
               n / ours.seconds / 1e6, n / anew.seconds / 1e6, ours.seconds / n * 1e9, changes,
               ours.counts.sharing.opened, per_change);
    file << fmt::format("{},{},{},\"{}\",{:.0f},{:.6f},{:.0f},{:.0f},{},", date, cpu, commit, c.name, n, ours.seconds,
                        n / ours.seconds, changes, per_change);
    const bool alike = ours.ends == anew.ends;
    if (!alike) status = 1;
    if (flows::has_simgrid()) {
      flows::Ran theirs = flows::run_simgrid(c.network);
      for (int i = 1; i < repeats && theirs.seconds < 1; ++i)
        theirs.seconds = std::min(theirs.seconds, flows::run_simgrid(c.network).seconds);
      double worst = 0;
      for (std::size_t i = 0; i < ours.ends.size(); ++i)
        worst = std::max(worst, std::abs(ours.ends[i] - theirs.ends[i]) / theirs.ends[i]);
      fmt::print(" {:>6.3f}/us {:>6.1f} {:>8.1e}", n / theirs.seconds / 1e6, theirs.seconds / ours.seconds, worst);
      file << fmt::format("{:.6f},{:.2f}\n", theirs.seconds, theirs.seconds / ours.seconds);
    } else {
      file << ",\n";
    }
    fmt::print("{}\n", alike ? "" : "  NOT AS ANEW");
    std::fflush(stdout);
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return measure(argc > 1 ? std::atoi(argv[1]) : 5);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 70;
  }
}
