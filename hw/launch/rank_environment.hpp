// Which rank of which job this process is, as the environment tells it: the variables of our own parent, of torchrun
// (or the same set by hand), of mpirun and of srun. The only place that reads them. Known before MPI or NCCL is
// started.
//
// RANK and WORLD_SIZE are exported by many cluster images and batch scripts, so they count for a backend alone whose
// users start it with torchrun; for MPI only the variables that mpirun and srun set per process do. Where both count:
//   torchrun itself (TORCHELASTIC_RUN_ID) wins: it starts below srun or mpirun, one agent per node, and its ranks
//     inherit the number of their agent;
//   otherwise what is set by hand and what the launcher says must agree, and each fills in what the other leaves out.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rehearsal::launch {

// Set by a parent of ours for the ranks it starts: the path of its RunFolder, how many they are and, where no mpirun
// numbers them, which one this is.
inline constexpr const char* kFolderVariable = "REHEARSAL_RANK_FOLDER";
inline constexpr const char* kRanksVariable = "REHEARSAL_RANKS";
inline constexpr const char* kRankVariable = "REHEARSAL_RANK";

// What an environment says; nothing for a variable that is not set or empty.
using Variables = std::function<std::optional<std::string>(const char* name)>;
Variables environment();  // of this process

struct RankEnvironment {
  std::size_t rank = 0;
  std::size_t size = 0;        // 0 where the launcher leaves it to MPI to tell
  std::size_t local_rank = 0;  // among the ranks of this host
  std::size_t local_size = 0;  // 0 where nobody says
  std::string launcher;        // "rehearse", "torchrun", "mpirun", "srun" or "by hand"
};

enum class Launchers : std::uint8_t {
  mpi,  // mpirun and srun
  any   // torchrun and variables set by hand too; size and local_rank are known then
};
Launchers launchers_of(const std::string& backend);

// Nothing outside of a job. Throws UserError that names the variable: one of a set is missing, is no number, is too
// large, or contradicts another.
std::optional<RankEnvironment> membership(Launchers launchers, const Variables& variables = environment());

bool is_rank();  // started by a parent of ours
// A rank that the user's launcher started. A job of one rank is none: an interactive shell of srun looks like that.
bool in_job(const std::string& backend);

}  // namespace rehearsal::launch
