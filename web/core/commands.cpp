// The commands of a page, in place of sim/cli/commands.cpp: all that predict. Those that need a machine say so.
#include <array>

#include "base/error.hpp"
#include "cli/command.hpp"

namespace rehearsal::cli {
namespace {

int elsewhere(const Arguments&) {
  throw MachineError(
      "a page in a browser has no disk, no other processes and no hardware to measure; this command is for the program "
      "itself (tools/rehearse)");
}

constexpr std::array kCommands{
    Command{"run", "Predict one iteration of scenarios: time, throughput, MFU, bubble, memory per rank, timeline.",
            run_run},
    Command{"compare", "Predict variants of scenarios and show them in one table.", run_compare},
    Command{"plan", "Search the best parallel layout and schedule for a model on a cluster, with proof.", run_plan},
    Command{"explain", "Say what decides the step, what each number of the machine is worth, and what to change.",
            run_explain},
    Command{"schedule", "Show one pipeline schedule with given costs: picture, order, bubble and memory.",
            run_schedule},
    Command{"balance", "Place experts on GPUs so that the heaviest carries least.", run_balance},
    Command{"reshard", "Plan how a tensor gets from one mesh of devices to another.", run_reshard},
    Command{"collective", "Show one collective on a machine step by step: steps, links, closed form, time.",
            run_collective},
    Command{"groups", "Show which GPU is in which tensor, context, data, pipeline and expert group.", run_groups},
    Command{"check", "Validate files without running them: every error with its line and column.", run_check},
    Command{"list", "List what exists: schedules and other parts, one sentence each.", run_list},
    Command{"sweep", "(not in a page) Predict many scenarios into a SQLite file.", elsewhere},
    Command{"measure", "(not in a page) Perform a scenario for real.", elsewhere},
    Command{"validate", "(not in a page) Predict, then perform, then compare task by task.", elsewhere},
    Command{"calibrate", "(not in a page) Measure a machine and write its profile.", elsewhere},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace rehearsal::cli
