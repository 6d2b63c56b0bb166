// The program in a page: the commands of sim/cli, called with the words of a command line (JavaScript:
// web/page/worker.js), through the interface that every library user has (include/rehearsal.h).
//
// The disk is Emscripten's file system in memory: configs/, models/zoo/ and scenarios/ are there from the start.
#include <emscripten/emscripten.h>

#include <cstdlib>

#include "rehearsal.h"

namespace {

rehearsal_answer* last = nullptr;  // a page asks one question at a time

}  // namespace

// Both JSON, as rehearsal_ask() takes them. Returns the exit status; what the command said is in rehearse_out() and
// rehearse_err() until the next call.
extern "C" EMSCRIPTEN_KEEPALIVE int rehearse(const char* words, const char* files) {
  rehearsal_free(last);
  last = rehearsal_ask(words, files);
  return rehearsal_status(last);
}
extern "C" EMSCRIPTEN_KEEPALIVE const char* rehearse_out() { return rehearsal_out(last, nullptr); }
extern "C" EMSCRIPTEN_KEEPALIVE const char* rehearse_err() { return rehearsal_err(last, nullptr); }

int main() {
  setenv("REHEARSAL_HOME", "/", 1);  // there is no file of the program to look beside
  return 0;
}
