#include "launch/machine.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace rehearsal::launch {

unsigned cores() {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0) return static_cast<unsigned>(CPU_COUNT(&mine));
  return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// Tested on a child with the same page at the same address. The child permits all readers, as MPI libraries do.
bool single_copy_works() {
  volatile int word = 42;
  int copy = 0;
  int ready[2];
  if (pipe(ready) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
#ifdef PR_SET_PTRACER
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    word = 43;
    if (write(ready[1], "r", 1) == 1) pause();
    _exit(0);
  }
  close(ready[1]);
  char byte = 0;
  bool works = false;
  if (child > 0 && read(ready[0], &byte, 1) == 1) {
    const iovec here{&copy, sizeof copy}, there{const_cast<int*>(&word), sizeof word};
    works = process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof copy && copy == 43;
  }
  close(ready[0]);
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return works;
}

}  // namespace rehearsal::launch
