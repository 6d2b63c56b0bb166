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
  const auto as = [&](const launchers::Variables& names) -> std::optional<Launched> {
    const auto mine = number(names.rank);
    if (!mine) return std::nullopt;
    const auto or_step = [&](auto found, const launchers::Names& others) {
      return found || !step ? found : number(others);
    };
    const auto ranks = or_step(number(names.ranks), kSlurm.ranks);
    return Launched{*mine, std::max(*mine + 1, ranks.value_or(1)),
                    or_step(number(names.local_ranks), kSlurm.local_ranks)};
  };
  if (const auto mpirun = as(launchers::kOpenMpi)) return mpirun;
  if (const auto pmi = as(launchers::kPmi)) return pmi;
  return step ? as(kSlurm) : std::nullopt;
}

Part launched_part() {
  Part part;
  if (const auto who = launched()) part = {who->rank, who->ranks};
  using launchers::kSlurmArray;
  const auto task = number({kSlurmArray.task}), tasks = number({kSlurmArray.tasks});
  if (!task || !tasks || *tasks == 0) return part;
  const auto first = std::min(*task, number({kSlurmArray.first}).value_or(0));
  const auto step = std::max(1u, number({kSlurmArray.step}).value_or(1));
  const auto index = (*task - first) / step % *tasks;  // of "1,5,7" two may have one: that only costs them time
  return {index * part.count + part.index, *tasks * part.count};
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
