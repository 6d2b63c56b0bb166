// The variables in which launchers tell a process which of its ranks it is (sim/design/starting-ranks.md).
#pragma once
#include <array>

namespace rehearsal::launchers {

// Variables for one number, in order of precedence; null if there are fewer.
using Names = std::array<const char*, 2>;

// Of all ranks, and of those on this machine.
struct Variables {
  Names rank, ranks, local_rank, local_ranks;
};
inline constexpr Variables kOpenMpi{
    {"OMPI_COMM_WORLD_RANK"}, {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_RANK"}, {"OMPI_COMM_WORLD_LOCAL_SIZE"}};
// MPICH's mpirun, and srun --mpi=pmi2 or pmix.
inline constexpr Variables kPmi{{"PMI_RANK", "PMIX_RANK"},
                                {"PMI_SIZE"},
                                {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                                {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}};
// Local ranks as a list over the nodes of the step, "4(x2),3", of which kSlurmNode is one.
inline constexpr Variables kSlurm{
    {"SLURM_PROCID"}, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}, {"SLURM_STEP_TASKS_PER_NODE"}};
inline constexpr const char* kSlurmNode = "SLURM_NODEID";
// Set within a step of srun alone: a batch script has a rank too.
inline constexpr const char* kSlurmStep = "SLURM_STEP_ID";
// A task of an array: its number, the first one, the distance between two, and how many there are.
struct Array {
  const char *task, *first, *step, *tasks;
};
inline constexpr Array kSlurmArray{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP",
                                   "SLURM_ARRAY_TASK_COUNT"};

}  // namespace rehearsal::launchers
