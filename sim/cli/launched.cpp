#include "cli/launched.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace rehearsal::cli {
namespace {

// Of "4(x2),3" the first: how many are on the first node, and about as many on the others.
std::optional<unsigned> number(const char* variable) {
  const char* text = std::getenv(variable);
  unsigned value = 0;
  if (!text || !*text) return std::nullopt;
  const auto [end, problem] = std::from_chars(text, text + std::strlen(text), value);
  return problem == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace

// The names are those of sim/design/starting-ranks.md. In an allocation mpirun's ranks inherit srun's of its daemons,
// and a batch script has a SLURM_PROCID but no step: mpirun first, and srun's only within a step.
std::optional<Launched> launched() {
  struct Names {
    const char *rank, *beside;
  };
  for (const auto& [rank, beside] :
       std::array<Names, 2>{{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}, {"PMI_RANK", "MPI_LOCALNRANKS"}}})
    if (const auto mine = number(rank)) return Launched{*mine, number(beside)};
  if (const auto mine = number("SLURM_PROCID"); mine && std::getenv("SLURM_STEP_ID"))
    return Launched{*mine, number("SLURM_STEP_TASKS_PER_NODE")};
  return std::nullopt;
}

unsigned share_of_cores() {
  const unsigned all = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t set;
  const unsigned allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? unsigned(CPU_COUNT(&set)) : all;
  const auto who = launched();
  // A launcher that binds has dealt out the cores already.
  if (!who || !who->beside || allowed < all) return std::max(1u, allowed);
  return std::max(1u, allowed / std::max(1u, *who->beside));
}

}  // namespace rehearsal::cli
