// The commands of the program. To add one: write cmd_<name>.cpp, declare its function here, list it in commands.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::cli {

class Session;  // session.hpp

using Arguments = std::vector<std::string>;  // what follows the command's name

struct Command {
  std::string_view name;
  std::string_view summary;  // one sentence
  // Returns the exit status; throws the exceptions of base/error.hpp.
  int (*run)(Session& session, const Arguments& arguments);
};

std::span<const Command> commands();

int run_balance(Session& session, const Arguments& arguments);
int run_calibrate(Session& session, const Arguments& arguments);
int run_check(Session& session, const Arguments& arguments);
int run_collective(Session& session, const Arguments& arguments);
int run_compare(Session& session, const Arguments& arguments);
int run_completion(Session& session, const Arguments& arguments);
int run_explain(Session& session, const Arguments& arguments);
int run_export(Session& session, const Arguments& arguments);
int run_groups(Session& session, const Arguments& arguments);
int run_hosts(Session& session, const Arguments& arguments);
int run_import(Session& session, const Arguments& arguments);
int run_list(Session& session, const Arguments& arguments);
int run_measure(Session& session, const Arguments& arguments);
int run_plan(Session& session, const Arguments& arguments);
int run_reshard(Session& session, const Arguments& arguments);
int run_run(Session& session, const Arguments& arguments);
int run_schedule(Session& session, const Arguments& arguments);
int run_sweep(Session& session, const Arguments& arguments);
int run_validate(Session& session, const Arguments& arguments);

// The whole program: finds the command, runs it, turns exceptions into messages and an exit status (contract,
// section 2): 0 done, 1 a checked condition does not hold, 2 wrong input, 3 the machine lacks something, 70 internal.
int run_program(Session& session, const Arguments& arguments) noexcept;

}  // namespace rehearsal::cli
