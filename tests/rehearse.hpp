// The program as a user runs it, for tests at its level: what it prints, what it complains of, its exit status.
#pragma once
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "program.hpp"

struct Run : Output {
  std::string err;
};

inline std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The environment is fixed: no terminal, no width, no colour settings of the user who runs the tests.
inline Run rehearse(const std::string& arguments, const std::string& environment = "") {
  static Scratch scratch;
  static std::atomic<int> runs = 0;  // several threads of a test may run it at once
  const std::string err = (scratch.folder / ("err" + std::to_string(runs++))).string();
  Run run{shell("unset COLUMNS NO_COLOR; " + environment + " '" REHEARSE_BINARY "' 2>'" + err + "' " + arguments), {}};
  run.err = read(err);
  std::filesystem::remove(err);
  return run;
}
