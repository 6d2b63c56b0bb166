// The commands of the program. In a browser, commands that need a machine report that (web/core/left_out.cpp).
#include <array>

#include "cli/command.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::array kCommands{
    Command{"run", "Predict one iteration of scenarios: time, throughput, MFU, bubble, memory per rank, timeline.",
            run_run},
    Command{"compare", "Predict variants of scenarios and show them in one table.", run_compare},
    Command{"plan", "Search for the best parallel layout and schedule for a model on a cluster, with proof.", run_plan},
    Command{"explain", "Say what limits the step, what each number of the machine is worth, and what to change.",
            run_explain},
    Command{"sweep", "Predict many scenarios into a SQLite file, on all cores and ranks, and resume after a stop.",
            run_sweep},
    Command{"schedule", "Show one pipeline schedule with given costs: picture, order, bubble and memory.",
            run_schedule},
    Command{"balance", "Place experts on GPUs so that the busiest GPU has the least load.", run_balance},
    Command{"reshard", "Plan how to move a tensor from one mesh of devices to another.", run_reshard},
    Command{"collective", "Show one collective step by step: transfers, bytes on links, closed form, time.",
            run_collective},
    Command{"groups", "Show which GPU is in which tensor, context, data, pipeline and expert group.", run_groups},
    Command{"measure", "Perform a scenario for real: the same task graph, by threads, processes or a GPU.",
            run_measure},
    Command{"validate", "Predict, then perform, then compare task by task.", run_validate},
    Command{"calibrate", "Measure this machine, so that scenarios on it are predicted from its own numbers.",
            run_calibrate},
    Command{"hosts", "Make the nodes of a cluster on this machine, with shaped links, and run commands on them.",
            run_hosts},
    Command{"import", "Make a scenario from files of other tools: configurations, arguments, logs, measurements.",
            run_import},
    Command{"export", "Write a scenario as the configuration of another tool, to run it there.", run_export},
    Command{"check", "Validate files without running them: every error with its line and column.", run_check},
    Command{"completion", "Print a script that lets bash, zsh or fish complete commands, options, files and keys.",
            run_completion},
    Command{"list", "List what is known: schedules, models, clusters and more, one sentence each.", run_list},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace rehearsal::cli
