// Where the ranks of a job meet before NCCL connects them: a folder that all of them see, or a port of rank 0's host.
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
// What all ranks of a job know and nobody else: with it, strangers who reach the port cannot join. Our parent makes one
// up for ranks of its own, and Open MPI's mpirun for all that it starts; others leave it to the user.
inline constexpr const char* kSecretVariable = "REHEARSAL_STORE_SECRET";

struct StoreAddress {
  std::filesystem::path folder;  // empty: the port
  std::string host;
  std::uint16_t port = 0;   // the first to be tried
  std::uint16_t ports = 1;  // how many from there on: a port that others may hold has alternatives
  std::string job;          // name of the job, the same at all ranks and different in other jobs; may be empty
  std::string secret = {};  // kSecretVariable; may be empty
  bool one_host = false;    // all ranks are on it
};

// Throws UserError that says which variables to set when the place cannot be known.
StoreAddress store_address(const RankEnvironment& mine, const Variables& variables = environment());

// "gpu[003-005,7],login" -> "gpu003": the first name of a list as Slurm writes them.
std::string first_host(const std::string& list);

}  // namespace rehearsal::launch
