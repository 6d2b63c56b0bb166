#include "mpi/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"

namespace rehearsal::mpi {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw MachineError(fmt::format("{}: {}", call, text));
}

Environment::Environment() {
  guarded([&] {
    int before = 0, provided = 0;
    MPI_Initialized(&before);
    if (before) throw MachineError("MPI can be started once in a process, and was");
    setenv("HWLOC_COMPONENTS", "-gl", 0);  // no X servers, as in launch/mpirun.cpp, but for any launcher
    // Our other threads only watch; one thread calls MPI.
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
    MPI_Comm here = MPI_COMM_NULL;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here),
          "MPI_Comm_split_type");
    check(MPI_Comm_size(here, &ranks_here_), "MPI_Comm_size");
    // The minimum: all ranks must agree on whether there is more than one host.
    MPI_Allreduce(MPI_IN_PLACE, &ranks_here_, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Comm_free(&here);
  });
}

Environment::~Environment() {
  if (!failed_) MPI_Finalize();
}

std::vector<std::string> gather(const Environment& environment, const std::string& bytes) {
  static constexpr std::size_t kPiece = 1 << 30;  // MPI counts are int
  auto in_pieces = [](std::size_t size, auto&& move) {
    for (std::size_t at = 0; at < size; at += kPiece)
      move(at, static_cast<int>(std::min<std::size_t>(kPiece, size - at)));
  };
  constexpr int kTag = 1;
  if (environment.rank() != 0) {
    const std::uint64_t size = bytes.size();
    check(MPI_Send(&size, 1, MPI_UINT64_T, 0, kTag, MPI_COMM_WORLD), "MPI_Send");
    in_pieces(bytes.size(), [&](std::size_t at, int count) {
      check(MPI_Send(bytes.data() + at, count, MPI_BYTE, 0, kTag, MPI_COMM_WORLD), "MPI_Send");
    });
    return {};
  }
  std::vector<std::string> all = {bytes};
  for (int from = 1; from < static_cast<int>(environment.ranks()); ++from) {
    std::uint64_t size = 0;
    check(MPI_Recv(&size, 1, MPI_UINT64_T, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    std::string& theirs = all.emplace_back(size, '\0');
    in_pieces(size, [&](std::size_t at, int count) {
      check(MPI_Recv(theirs.data() + at, count, MPI_BYTE, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    });
  }
  return all;
}

std::vector<std::string> gather_everywhere(const Environment& environment, const std::string& text) {
  const int size = static_cast<int>(text.size());
  std::string all(text.size() * environment.ranks(), '\0');
  check(MPI_Allgather(text.data(), size, MPI_CHAR, all.data(), size, MPI_CHAR, MPI_COMM_WORLD), "MPI_Allgather");
  std::vector<std::string> list;
  for (std::size_t r = 0; r < environment.ranks(); ++r) list.push_back(all.substr(r * text.size(), text.size()));
  return list;
}

}  // namespace rehearsal::mpi
