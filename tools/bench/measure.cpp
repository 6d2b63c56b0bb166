// measure N COMMAND [ARGUMENT...]: runs a command N times with its output thrown away and prints the best wall time in
// seconds and the largest resident set in bytes, as "0.012345 6291456". Exits with the command's status when it fails.
//
// The wall time is from fork to the end of the process, as whoever waits for the prompt sees it. Linux counts ru_maxrss
// in KiB; a forked child starts with this program's few pages, far below anything measured here.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  const int runs = argc > 2 ? std::atoi(argv[1]) : 0;
  if (runs < 1) return std::fputs("usage: measure N COMMAND [ARGUMENT...]\n", stderr), 2;
  double best = 1e30;
  long largest = 0;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child < 0) return std::perror("measure: fork"), 3;
    if (child == 0) {
      const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
      dup2(nowhere, STDOUT_FILENO);
      execvp(argv[2], argv + 2);
      std::perror(argv[2]);
      _exit(127);
    }
    int status = 0;
    rusage usage{};
    if (wait4(child, &status, 0, &usage) != child) return std::perror("measure: wait4"), 3;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    if (!WIFEXITED(status)) return std::fprintf(stderr, "measure: %s was killed\n", argv[2]), 70;
    if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
    best = std::min(best, wall.count());
    largest = std::max(largest, usage.ru_maxrss);
  }
  std::printf("%.6f %ld\n", best, largest * 1024);
}
