// The commands of the program. In a browser, commands that need a machine report that (web/core/left_out.cpp).
#include <array>

#include "cli/command.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::array kCommands{
    Command{"run", "Predict one iteration of scenarios: time, throughput, MFU, bubble, memory per rank, timeline.",
            run_run},
    Command{"compare", "Predict variants of scenarios and show them in one table.", run_compare},
    Command{"plan", "Search the best parallel layout and schedule for a model on a cluster, with proof.", run_plan},
    Command{"explain", "Say what decides the step, what each number of the machine is worth, and what to change.",
            run_explain},
    Command{"sweep", "Predict many scenarios into a SQLite file, on all cores and ranks, and resume after a stop.",
            run_sweep},
    Command{"schedule", "Show one pipeline schedule with given costs: picture, order, bubble and memory.",
            run_schedule},
    Command{"balance", "Place experts on GPUs so that the heaviest carries least.", run_balance},
    Command{"reshard", "Plan how a tensor gets from one mesh of devices to another.", run_reshard},
    Command{"collective", "Show one collective on a machine step by step: steps, links, closed form, time.",
            run_collective},
    Command{"groups", "Show which GPU is in which tensor, context, data, pipeline and expert group.", run_groups},
    Command{"measure", "Perform a scenario for real: the same task graph, by threads or processes.", run_measure},
    Command{"validate", "Predict, then perform, then compare task by task.", run_validate},
    Command{"calibrate", "Measure this machine and write its profile, from which scenarios on it are predicted.",
            run_calibrate},
    Command{"hosts", "Make the nodes of a cluster on this machine, with shaped links, and run commands on them.",
            run_hosts},
    Command{"import", "Make a scenario of files that other tools have: configurations, arguments, logs, measurements.",
            run_import},
    Command{"export", "Write a scenario in the words of another tool, so that it can be run there.", run_export},
    Command{"check", "Validate files without running them: every error with its line and column.", run_check},
    Command{"completion", "Print a script that lets bash, zsh or fish complete commands, options, files and keys.",
            run_completion},
    Command{"list", "List what exists: schedules and other parts, one sentence each.", run_list},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace rehearsal::cli
