#include "cli/launched.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/launchers.hpp"

namespace rehearsal::cli {
namespace {

// The first number of "4(x2),3": ranks on the first node, and about as many on the others.
std::optional<unsigned> number(const launchers::Names& names) {
  for (const char* name : names) {
    const char* text = name ? std::getenv(name) : nullptr;
    unsigned value = 0;
    if (!text || !*text) continue;
    if (std::from_chars(text, text + std::strlen(text), value).ec == std::errc{}) return value;
  }
  return std::nullopt;
}

}  // namespace

// mpirun's ranks inherit srun's variables from its daemons: so mpirun is checked first, and srun only within a step.
std::optional<Launched> launched() {
  using launchers::kSlurm;
  const bool step = std::getenv(launchers::kSlurmStep) != nullptr;
  if (const auto mine = number(launchers::kOpenMpi.rank))
    return Launched{*mine, number(launchers::kOpenMpi.local_ranks)};
  if (const auto mine = number(launchers::kPmi.rank)) {
    const auto beside = number(launchers::kPmi.local_ranks);
    return Launched{*mine, beside || !step ? beside : number(kSlurm.local_ranks)};
  }
  if (const auto mine = number(kSlurm.rank); mine && step) return Launched{*mine, number(kSlurm.local_ranks)};
  return std::nullopt;
}

unsigned share_of_cores() {
  const unsigned all = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t set;
  const unsigned allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? unsigned(CPU_COUNT(&set)) : all;
  const auto who = launched();
  // a launcher that binds has already divided the cores
  if (!who || !who->beside || allowed < all) return std::max(1u, allowed);
  return std::max(1u, allowed / std::max(1u, *who->beside));
}

}  // namespace rehearsal::cli
