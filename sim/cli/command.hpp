// The commands of the program. To add one: write cmd_<name>.cpp, declare its function here, list it in commands.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::cli {

using Arguments = std::vector<std::string>;  // what follows the command's name

struct Command {
  std::string_view name;
  std::string_view summary;                // one sentence
  int (*run)(const Arguments& arguments);  // returns the exit status; throws the exceptions of base/error.hpp
};

std::span<const Command> commands();

int run_balance(const Arguments& arguments);
int run_calibrate(const Arguments& arguments);
int run_check(const Arguments& arguments);
int run_collective(const Arguments& arguments);
int run_compare(const Arguments& arguments);
int run_completion(const Arguments& arguments);
int run_explain(const Arguments& arguments);
int run_groups(const Arguments& arguments);
int run_list(const Arguments& arguments);
int run_measure(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_reshard(const Arguments& arguments);
int run_run(const Arguments& arguments);
int run_schedule(const Arguments& arguments);
int run_sweep(const Arguments& arguments);
int run_validate(const Arguments& arguments);

std::string_view version();

// The whole program: finds the command, runs it, turns exceptions into messages and an exit status (contract,
// section 2): 0 done, 1 a checked condition does not hold, 2 wrong input, 3 the machine lacks something, 70 internal.
int run_program(const Arguments& arguments) noexcept;

}  // namespace rehearsal::cli
