// Where the ranks of a job meet before NCCL connects them: a folder shared by all, or a port of rank 0's host.
//
//   REHEARSAL_STORE    /path, file:///path or tcp://host:port: said by the user, or by our parent for ranks of its own
//   MASTER_ADDR, MASTER_PORT   as torchrun sets them; its agent may keep a store of its own at MASTER_PORT
//   otherwise, what the launcher tells: srun the first node of the step, mpirun whether all ranks share this host; the
//   port is derived from the number of the job
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "launch/rank_environment.hpp"

namespace rehearsal::launch {

inline constexpr const char* kStoreVariable = "REHEARSAL_STORE";
// The secret that all ranks of a job share, and only they: it keeps strangers who reach the port out. Our parent makes
// one for the ranks that it starts, and Open MPI's mpirun does so too; with other launchers the user sets it.
inline constexpr const char* kSecretVariable = "REHEARSAL_STORE_SECRET";

struct StoreAddress {
  std::filesystem::path folder;  // empty: use the port
  std::string host;
  std::uint16_t port = 0;   // the first port to try
  std::uint16_t ports = 1;  // how many to try from there: other programs may hold some
  std::string job;          // job name, equal on all ranks and unique to the job; may be empty
  std::string secret = {};  // kSecretVariable; may be empty
  bool one_host = false;    // all ranks are on this host
};

// Throws UserError that says which variables to set when the address cannot be derived.
StoreAddress store_address(const RankEnvironment& mine, const Variables& variables = environment());

// "gpu[003-005,7],login" -> "gpu003": the first name of a node list of Slurm.
std::string first_host(const std::string& list);

}  // namespace rehearsal::launch
