// The rank and job of this process, from environment variables: those of our own parent, of torchrun (or the same set
// by hand), of mpirun and of srun. The only place that reads them. Known before MPI or NCCL is started.
//
// RANK and WORLD_SIZE are exported by many cluster images and batch scripts, so they count only for a backend whose
// users start it with torchrun; for MPI only the variables that mpirun and srun set per process count. Where both
// count:
//   torchrun itself (TORCHELASTIC_RUN_ID) wins: it starts below srun or mpirun, one agent per node, and its ranks
//     inherit the number of their agent;
//   otherwise variables set by hand and by the launcher must agree, and each fills in what the other omits.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rehearsal::launch {

// Set by our parent for the ranks it starts: the path of its RunFolder, the number of ranks and, unless mpirun numbers
// the ranks, the rank and the descriptor of its socket (launch/star.hpp).
inline constexpr const char* kFolderVariable = "REHEARSAL_RANK_FOLDER";
inline constexpr const char* kRanksVariable = "REHEARSAL_RANKS";
inline constexpr const char* kRankVariable = "REHEARSAL_RANK";
inline constexpr const char* kSocketVariable = "REHEARSAL_RANK_SOCKET";
// Set by the user: a folder where the ranks of a launcher meet (launch/shared_folder.hpp).
inline constexpr const char* kRendezvousVariable = "REHEARSAL_RENDEZVOUS";

// Looks up a variable of an environment; nothing when it is unset or empty.
using Variables = std::function<std::optional<std::string>(const char* name)>;
Variables environment();  // of this process

struct RankEnvironment {
  std::size_t rank = 0;
  std::size_t size = 0;        // 0: the launcher leaves it to MPI
  std::size_t local_rank = 0;  // among the ranks of this host
  std::size_t local_size = 0;  // 0: unknown
  std::string launcher;        // "rehearse", "torchrun", "mpirun", "srun" or "by hand"
  std::string job = {};        // the launcher with its number of the job, if it has one: a file name
};

enum class Launchers : std::uint8_t {
  mpi,  // mpirun and srun
  any   // also torchrun and variables set by hand; size and local_rank are then known
};
Launchers launchers_of(const std::string& backend);

// Nothing outside a job. Throws UserError that names the variable when one of a set is missing, is not a number, is too
// large, or contradicts another.
std::optional<RankEnvironment> membership(Launchers launchers, const Variables& variables = environment());

// Throws UserError for ranks of an srun that tells MPI nothing: MPI would end each of them with a page of its own
// words.
void refuse_plain_srun(const Variables& variables = environment());

bool is_rank();  // started by a parent of ours
// A rank started by the user's launcher. A job of one rank does not count: an interactive shell of srun looks like one.
bool in_job(const std::string& backend);

}  // namespace rehearsal::launch
