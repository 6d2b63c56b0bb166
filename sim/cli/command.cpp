#include "cli/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>

#include "backend/interrupted.hpp"
#include "base/error.hpp"
#include "base/spelling.hpp"
#include "cli/output.hpp"
#include "page/layout.hpp"

namespace rehearsal::cli {
namespace {

constexpr int kDone = 0, kUser = 2, kMachine = 3, kBug = 70;

std::string program_help() {
  std::string text =
      "Rehearsal predicts how large language models train on clusters, before the\ncluster is there.\n\n"
      "Usage: rehearse COMMAND [OPTIONS]\n\nCommands:\n";
  for (const auto& c : commands()) text += page::fit(fmt::format("  {:<10}  {}\n", c.name, c.summary), 80);
  return text +
         "\nOptions:\n  --help     show this text; 'rehearse COMMAND --help' explains one command\n"
         "  --version  show the version\n\n"
         "Exit status: 0 done, 1 a checked condition does not hold, 2 wrong input,\n"
         "3 this machine lacks something, 70 a bug of ours.\n\n"
         "Example:\n  rehearse schedule 1f1b --pipeline 4 --microbatches 8 \\\n"
         "    --forward 5ms --backward 5ms --weight 5ms\n";
}

int dispatch(const Arguments& arguments) {
  if (arguments.empty()) throw UserError("no command given; 'rehearse --help' lists the commands");
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") return write_stdout(program_help()), kDone;
  if (name == "--version") return write_stdout(fmt::format("rehearse {}\n", version())), kDone;
  std::vector<std::string> names;
  for (const auto& c : commands()) {
    if (c.name == name) return c.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(c.name);
  }
  if (name.starts_with('-')) {
    const auto near = nearest(name, {"--help", "--version"});
    throw UserError(fmt::format("unknown option '{}'{}; a command comes first: {}", name,
                                near ? "; did you mean '" + *near + "'?" : "", fmt::join(names, ", ")));
  }
  throw UserError(fmt::format("unknown command '{}'{}", name, suggestion(name, names)));
}

void complain(const std::string& text) { std::fputs((text + "\n").c_str(), stderr); }

// Errors in a file have the form `file:line:column: error: ...`; all others begin with the program's name.
void complain(const UserError& error) {
  for (const auto& d : error.diagnostics()) complain((d.where.file.empty() ? "rehearse: " : "") + format({d}));
}

int report_bug(const char* what) {
  complain(
      fmt::format("rehearse: internal error: {}\n"
                  "This is a bug of rehearse {}: please report it with the command line and the input files.",
                  what, version()));
  return kBug;
}

}  // namespace

std::string_view version() { return REHEARSAL_VERSION; }

int run_program(const Arguments& arguments) noexcept {
  // A closed pipe (`| head`) is reported as EPIPE by write, so that open files are cleaned up.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then reported by write too, like a full disk
  try {
    return dispatch(arguments);
  } catch (const ClosedPipe&) {
    return kDone;  // the reader has closed the pipe
  } catch (const UserError& error) {
    complain(error);
    return kUser;
  } catch (const MachineError& error) {
    complain(fmt::format("rehearse: error: {}", error.what()));
    return kMachine;
  } catch (const backend::Interrupted& stop) {
    return 128 + stop.signal;  // as shells report a program ended by a signal; all ranks have been cleaned up
  } catch (const std::bad_alloc&) {
    complain("rehearse: error: this machine has too little memory for the task; try a smaller one");
    return kMachine;
  } catch (const std::exception& error) {
    return report_bug(error.what());
  } catch (...) {
    return report_bug("unknown exception");
  }
}

}  // namespace rehearsal::cli
