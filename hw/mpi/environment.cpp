#include "mpi/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"

namespace rehearsal::mpi {
namespace {

constexpr int kTag = 1;

// Calls `move` for pieces of `bytes`, because MPI counts are int.
template <class Move>
void in_pieces(std::string& bytes, Move move) {
  static constexpr std::size_t kPiece = 1 << 30;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece)
    move(bytes.data() + at, static_cast<int>(std::min(kPiece, bytes.size() - at)));
}

class MpiBootstrap : public launch::Bootstrap {
 public:
  using Bootstrap::Bootstrap;
  ~MpiBootstrap() override {
    if (!failed_) MPI_Finalize();
  }

  std::vector<std::string> gather(const std::string&, std::string_view bytes) override {
    std::vector<std::string> all = {std::string(bytes)};
    if (rank() != 0) {
      const std::uint64_t length = bytes.size();
      check(MPI_Send(&length, 1, MPI_UINT64_T, 0, kTag, MPI_COMM_WORLD), "MPI_Send");
      in_pieces(all.front(),
                [](char* at, int count) { check(MPI_Send(at, count, MPI_BYTE, 0, kTag, MPI_COMM_WORLD), "MPI_Send"); });
      return {};
    }
    for (int from = 1; from < static_cast<int>(size()); ++from) {
      std::uint64_t length = 0;
      check(MPI_Recv(&length, 1, MPI_UINT64_T, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
      in_pieces(all.emplace_back(length, '\0'), [from](char* at, int count) {
        check(MPI_Recv(at, count, MPI_BYTE, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
      });
    }
    return all;
  }

  std::string broadcast(const std::string&, std::string_view bytes) override {
    std::uint64_t length = bytes.size();
    check(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    std::string all(rank() == 0 ? bytes : std::string_view{});
    all.resize(length);
    in_pieces(all, [](char* at, int count) { check(MPI_Bcast(at, count, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast"); });
    return all;
  }

  void fail(const std::string&) noexcept override { failed_ = true; }

 private:
  bool failed_ = false;
};

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw MachineError(fmt::format("{}: {}", call, text));
}

std::unique_ptr<launch::Bootstrap> open_bootstrap() {
  int before = 0, provided = 0, rank = 0, size = 1;
  MPI_Initialized(&before);
  if (before) throw MachineError("MPI can be started once in a process, and was");
  setenv("HWLOC_COMPONENTS", "-gl", 0);  // no X servers, as in launch/mpirun.cpp, but for any launcher
  // Our other threads only watch; one thread calls MPI.
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return std::make_unique<MpiBootstrap>(static_cast<std::size_t>(rank), static_cast<std::size_t>(size));
}

std::size_t ranks_here() {
  int count = 0;
  MPI_Comm here = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
  check(MPI_Comm_size(here, &count), "MPI_Comm_size");
  // The minimum: all ranks must agree on whether there is more than one host.
  check(MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  MPI_Comm_free(&here);
  return static_cast<std::size_t>(count);
}

}  // namespace rehearsal::mpi
