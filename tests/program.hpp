// Running a command line as a user's shell does, for tests at the level of the program.
#pragma once
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

struct Output {
  int status = -1;  // of the shell: 128 + n for a signal
  std::string out;
};

inline Output shell(const std::string& command) {
  Output run;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) run.out.append(buffer, n);
  const int status = pclose(pipe);
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A folder of this process, removed with it.
struct Scratch {
  std::filesystem::path folder;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearse_test_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    folder = name;
  }
  ~Scratch() { std::filesystem::remove_all(folder); }
};
