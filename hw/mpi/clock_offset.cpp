#include "mpi/clock_offset.hpp"

#include "dispatch/clock.hpp"

namespace rehearsal::mpi {

ClockOffset measure_clock(MPI_Comm all) {
  constexpr int kExchanges = 200, kTag = 2;
  int rank = 0, ranks = 1;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &ranks);
  ClockOffset mine;
  Time shortest{INT64_MAX};
  for (int asking = 1; asking < ranks; ++asking) {
    for (int i = 0; i < kExchanges && (rank == 0 || rank == asking); ++i) {
      std::int64_t theirs = 0;
      if (rank == 0) {
        MPI_Recv(nullptr, 0, MPI_BYTE, asking, kTag, all, MPI_STATUS_IGNORE);
        theirs = dispatch::now().count();
        MPI_Send(&theirs, 1, MPI_INT64_T, asking, kTag, all);
        continue;
      }
      const Time asked = dispatch::now();
      MPI_Send(nullptr, 0, MPI_BYTE, 0, kTag, all);
      MPI_Recv(&theirs, 1, MPI_INT64_T, 0, kTag, all, MPI_STATUS_IGNORE);
      const Time answered = dispatch::now();
      if (answered - asked >= shortest) continue;
      shortest = answered - asked;
      const Time half(shortest.count() / 2);
      mine = {asked + half - Time(theirs), half};
    }
  }
  return mine;
}

}  // namespace rehearsal::mpi
