// The program in a page: the commands of sim/cli, called with the words of a command line (JavaScript:
// web/page/worker.js).
//
// Files are those of Emscripten's file system in memory: configs/, models/zoo/ and scenarios/ are there from the start,
// and what a page writes or a command has written stands beside them. Standard output and error are two files of it, so
// that an answer of a megabyte crosses to JavaScript in one piece.
#include <emscripten/emscripten.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/json.hpp"
#include "cli/command.hpp"

namespace {

// From now on the bytes of a standard stream are those of a new file.
void redirect(int stream, const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(file, stream);
  close(file);
}

}  // namespace

// `words`: a JSON array, the command line without the name of the program. Returns the exit status; what the command
// said is in /stdout and /stderr.
extern "C" EMSCRIPTEN_KEEPALIVE int rehearse(const char* words) {
  rehearsal::cli::Arguments arguments;
  const auto line = rehearsal::Json::parse(words);
  for (const auto& word : line.items()) arguments.push_back(word.text());
  redirect(STDOUT_FILENO, "/stdout");
  redirect(STDERR_FILENO, "/stderr");
  const int status = rehearsal::cli::run_program(arguments);
  std::fflush(nullptr);
  return status;
}

int main() {
  setenv("REHEARSAL_HOME", "/", 1);  // there is no file of the program to look beside
  return 0;
}
