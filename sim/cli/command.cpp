#include "cli/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "backend/interrupted.hpp"
#include "base/error.hpp"
#include "base/program.hpp"
#include "base/spelling.hpp"
#include "cli/output.hpp"
#include "page/layout.hpp"

namespace rehearsal::cli {
namespace {

constexpr int kDone = 0, kUser = 2, kMachine = 3, kBug = 70,
              kStopped = 130;  // as after Ctrl-C

std::string program_help() {
  std::string text =
      "Rehearsal predicts how long a training step takes on a GPU cluster, and\nwhether it fits in memory, before you "
      "rent the GPUs.\n\n"
      "Usage: rehearse COMMAND [OPTIONS]\n\nCommands:\n";
  for (const auto& c : commands()) text += page::fit(fmt::format("  {:<10}  {}\n", c.name, c.summary), 80);
  return text +
         "\nOptions:\n  --help     show this text; 'rehearse COMMAND --help' explains one command\n"
         "  --version  show the version\n\n"
         "Exit status: 0 done, 1 a checked condition does not hold, 2 wrong input,\n"
         "3 this machine lacks something, 70 a bug in this program.\n\n"
         "Example:\n  rehearse schedule 1f1b --pipeline 4 --microbatches 8 \\\n"
         "    --forward 5ms --backward 5ms --weight 5ms\n";
}

int dispatch(Session& session, const Arguments& arguments) {
  if (arguments.empty()) throw UserError("no command given; 'rehearse --help' lists the commands");
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") return session.write(Stream::out, program_help()), kDone;
  if (name == "--version") return session.write(Stream::out, fmt::format("rehearse {}\n", program_version())), kDone;
  std::vector<std::string> names;
  for (const auto& c : commands()) {
    if (c.name == name) return c.run(session, {arguments.begin() + 1, arguments.end()});
    names.emplace_back(c.name);
  }
  if (name.starts_with('-')) {
    const auto near = nearest(name, {"--help", "--version"});
    throw UserError(fmt::format("unknown option '{}'{}; a command comes first: {}", name,
                                near ? "; did you mean '" + *near + "'?" : "", fmt::join(names, ", ")));
  }
  throw UserError(fmt::format("unknown command '{}'{}", name, suggestion(name, names)));
}

void complain(Session& session, const std::string& text) {
  try {
    session.write(Stream::err, text + "\n");
  } catch (...) {  // nobody can be told; the status says it
  }
}

// Errors in a file have the form `file:line:column: error: ...`; all others begin with the program's name.
void complain(Session& session, const UserError& error) {
  for (const auto& d : error.diagnostics()) complain(session, (d.where.file.empty() ? "rehearse: " : "") + format({d}));
}

int report_bug(Session& session, const char* what) {
  complain(session,
           fmt::format("rehearse: internal error: {}\n"
                       "This is a bug of rehearse {}: please report it with the command line and the input files.",
                       what, program_version()));
  return kBug;
}

}  // namespace

int run_program(Session& session, const Arguments& arguments) noexcept {
  try {
    return dispatch(session, arguments);
  } catch (const ClosedPipe&) {
    return kDone;  // the reader has closed the pipe
  } catch (const UserError& error) {
    complain(session, error);
    return kUser;
  } catch (const MachineError& error) {
    complain(session, fmt::format("rehearse: error: {}", error.what()));
    return kMachine;
  } catch (const Stopped&) {
    return kStopped;
  } catch (const backend::Interrupted& stop) {
    complain(session, fmt::format("rehearse: interrupted: {}", stop.ended));
    return 128 + stop.signal;  // as shells report a program ended by a signal; all ranks have been cleaned up
  } catch (const std::bad_alloc&) {
    complain(session, "rehearse: error: this machine has too little memory for the task; try a smaller one");
    return kMachine;
  } catch (const std::exception& error) {
    return report_bug(session, error.what());
  } catch (...) {
    return report_bug(session, "unknown exception");
  }
}

}  // namespace rehearsal::cli
