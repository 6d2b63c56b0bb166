#include "launch/rank_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/launchers.hpp"

namespace rehearsal::launch {
namespace {

// A number and the variable it came from.
struct Told {
  std::size_t value;
  const char* variable;
};
using Number = std::optional<Told>;

struct Claim {
  std::string launcher;
  Number rank = {}, size = {}, local_rank = {}, local_size = {};
};

Number number(const Variables& variables, const launchers::Names& names) {
  for (const char* name : names) {
    const auto text = name ? variables(name) : std::nullopt;
    if (!text) continue;
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size())
      throw UserError(fmt::format("the environment variable {} is '{}', which is not a whole number", name, *text));
    return Told{value, name};
  }
  return std::nullopt;
}
Number number(const Variables& variables, const char* name) { return number(variables, launchers::Names{name}); }

// The k-th entry of a list such as "4(x2),3": 4, 4, 3.
std::optional<std::size_t> entry(std::string_view list, std::size_t k) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view one = list.substr(0, comma);
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
    std::size_t value = 0, times = 1;
    const char* rest = std::from_chars(one.data(), one.data() + one.size(), value).ptr;
    one.remove_prefix(static_cast<std::size_t>(rest - one.data()));
    if (one.starts_with("(x")) std::from_chars(one.data() + 2, one.data() + one.size(), times);
    if (k < times) return value;
    k -= times;
  }
  return std::nullopt;
}

Claim srun(const Variables& variables) {
  Claim claim{.launcher = "srun"};
  using launchers::kSlurm;
  if (!variables(launchers::kSlurmStep)) return claim;
  claim.rank = number(variables, kSlurm.rank);
  claim.size = number(variables, kSlurm.ranks);
  claim.local_rank = number(variables, kSlurm.local_rank);
  const auto node = number(variables, launchers::kSlurmNode);
  const char* list = kSlurm.local_ranks.front();
  if (const auto tasks = variables(list); tasks && node)
    if (const auto here = entry(*tasks, node->value)) claim.local_size = Told{*here, list};
  return claim;
}

// mpirun comes first: in a Slurm allocation it starts its daemons with srun, and its ranks inherit their numbers.
Claim launcher(const Variables& variables) {
  Claim claim{.launcher = "mpirun"};
  const auto read = [&](const launchers::Variables& names) {
    if (!claim.rank) return false;
    claim.size = number(variables, names.ranks);
    claim.local_rank = number(variables, names.local_rank);
    claim.local_size = number(variables, names.local_ranks);
    return true;
  };
  claim.rank = number(variables, launchers::kOpenMpi.rank);
  if (read(launchers::kOpenMpi)) return claim;
  Claim slurm = srun(variables);
  claim.rank = number(variables, launchers::kPmi.rank);
  // srun --mpi=pmi2 or pmix sets both kinds of variables for the same ranks.
  if (!claim.rank || (slurm.rank && slurm.rank->value == claim.rank->value)) return slurm;
  read(launchers::kPmi);
  return claim;
}

Claim by_hand(const Variables& variables) {
  return {.launcher = variables("TORCHELASTIC_RUN_ID") ? "torchrun" : "by hand",
          .rank = number(variables, "RANK"),
          .size = number(variables, "WORLD_SIZE"),
          .local_rank = number(variables, "LOCAL_RANK"),
          .local_size = number(variables, "LOCAL_WORLD_SIZE")};
}

void agree(const Number& hand, const Number& launcher, const std::string& name) {
  if (!hand || !launcher || hand->value == launcher->value) return;
  throw UserError(
      fmt::format("{}={} in the environment contradicts {}={} of {}; unset RANK and WORLD_SIZE, or start the ranks "
                  "without {}",
                  hand->variable, hand->value, launcher->variable, launcher->value, name, name));
}

Claim merged(const Claim& hand, Claim launcher) {
  if (hand.launcher == "torchrun" || !launcher.rank) return hand;
  agree(hand.rank, launcher.rank, launcher.launcher);
  agree(hand.size, launcher.size, launcher.launcher);
  if (!launcher.size) launcher.size = hand.size;
  // A scheduler may hide all other GPUs of the host from a rank: then the user's local rank overrides the launcher's.
  if (hand.local_rank) launcher.local_rank = hand.local_rank, launcher.local_size = hand.local_size;
  return launcher;
}

void require(const Number& number, const char* missing, const Number& present) {
  if (number) return;
  throw UserError(fmt::format("the environment says {}={}, but not {}: set {} (torchrun sets both), or unset {}",
                              present->variable, present->value, missing, missing, present->variable));
}

// The same on all ranks of a job. A restart of torchrun keeps it, because its agents count restarts themselves.
std::string job(const std::string& launcher, const Variables& variables) {
  std::string name = launcher;
  const auto add = [&](const char* variable) {
    const auto value = variables(variable);
    if (value) name += "-" + *value;
    return value.has_value();
  };
  if (launcher == "torchrun") add("TORCHELASTIC_RUN_ID");
  if (launcher == "srun") add("SLURM_JOB_ID"), add("SLURM_STEP_ID");
  if (launcher == "mpirun") add("PMIX_NAMESPACE") || add("OMPI_MCA_ess_base_jobid") || add("PMI_JOBID");
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ' '; }, '-');
  return name;
}

std::optional<RankEnvironment> membership_of(const Claim& claim, const Variables& variables) {
  if (!claim.rank) return std::nullopt;
  if (claim.size && claim.rank->value >= claim.size->value)
    throw UserError(fmt::format("{}={} in the environment, but {}={}: ranks count from 0", claim.rank->variable,
                                claim.rank->value, claim.size->variable, claim.size->value));
  if (claim.local_rank && claim.local_size && claim.local_rank->value >= claim.local_size->value)
    throw UserError(fmt::format("{}={} in the environment, but {}={}: local ranks count from 0",
                                claim.local_rank->variable, claim.local_rank->value, claim.local_size->variable,
                                claim.local_size->value));
  auto value = [](const Number& number) { return number ? number->value : 0; };
  return RankEnvironment{claim.rank->value,       value(claim.size), value(claim.local_rank),
                         value(claim.local_size), claim.launcher,    job(claim.launcher, variables)};
}

RankEnvironment started_by_us(const Variables& variables) {
  auto rank = number(variables, kRankVariable);
  if (!rank) rank = launcher(variables).rank;
  const auto ranks = number(variables, kRanksVariable);
  if (!rank || !ranks || rank->value >= ranks->value)
    throw MachineError("mpirun does not tell its processes which rank they are; OpenMPI and MPICH do");
  return {rank->value, ranks->value, rank->value, ranks->value, "rehearse"};  // one host
}

}  // namespace

Variables environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') return std::nullopt;
    return text;
  };
}

Launchers launchers_of(const std::string& backend) { return backend == "cuda" ? Launchers::any : Launchers::mpi; }

std::optional<RankEnvironment> membership(Launchers launchers, const Variables& variables) {
  if (variables(kFolderVariable)) return started_by_us(variables);
  if (launchers == Launchers::mpi) return membership_of(launcher(variables), variables);
  Claim claim = merged(by_hand(variables), launcher(variables));
  if (claim.size) require(claim.rank, "RANK", claim.size);
  if (!claim.rank) return std::nullopt;
  require(claim.size, "WORLD_SIZE", claim.rank);
  if (claim.size->value == 1 && !claim.local_rank) claim.local_rank = Told{0, "LOCAL_RANK"};
  require(claim.local_rank, "LOCAL_RANK", claim.rank);
  return membership_of(claim, variables);
}

void refuse_plain_srun(const Variables& variables) {
  const auto mine = membership(Launchers::mpi, variables);
  if (!mine || mine->launcher != "srun" || mine->size == 1) return;
  for (const char* told : {"PMIX_RANK", "PMI_RANK", "PMI_FD"})
    if (variables(told)) return;
  throw UserError(
      fmt::format("srun has started {} ranks and told MPI nothing of each other; start them with "
                  "'srun --mpi=pmix ...' ('srun --mpi=list' shows what this Slurm has), or with mpirun inside of "
                  "salloc or sbatch",
                  mine->size));
}

bool is_rank() { return environment()(kFolderVariable).has_value(); }

bool in_job(const std::string& backend) {
  if (is_rank()) return false;
  const auto mine = membership(launchers_of(backend));
  return mine && mine->size != 1;
}

}  // namespace rehearsal::launch
