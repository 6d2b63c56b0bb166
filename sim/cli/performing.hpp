// Shared by `measure` and `validate`: their options, and performing a scenario on a backend.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/backend.hpp"
#include "cli/output.hpp"
#include "cli/performer.hpp"
#include "explore/perform.hpp"
#include "lower/alone.hpp"

namespace rehearsal::cli {

struct PerformingOptions {
  std::string backend, compute, collectives, timeout = "60s";
  std::string timeline, trace;  // files
  backend::RunOptions run = [] {
    backend::RunOptions usual;
    usual.warmup = 3, usual.iterations = 10, usual.weights = false;
    return usual;
  }();
};
OptionList performing_options(PerformingOptions& options);

// Throws UserError unless the value of an option is a whole number from `least` to 100,000.
void check_count(const char* option, int value, int least);

// The value of --timeout. Throws UserError.
Time timeout_of(const std::string& text);

// Links between the hosts that the ranks of a backend run on, before they run; empty elsewhere, and in ranks.
HostLinks host_links(const std::string& backend);
// What has passed the links since then, beside what was predicted of an iteration; the most used first.
std::vector<answer::Measured::Link> counted(const HostLinks& before, const std::map<std::string, double>& predicted,
                                            int iterations);

// The backend of a command; its ranks, where they are processes, run the same command line again.
std::unique_ptr<backend::Backend> open_backend(const std::string& backend, const std::string& command,
                                               const Arguments& arguments);

// How collectives are performed as the option says, or as usual. Throws UserError where it would have no effect.
backend::Collectives collectives_asked(const std::string& option, const std::string& backend, backend::Compute compute);

// For commands that perform a plan or a collective by itself.
struct AlonePerforming {
  std::string backend, collectives, timeout = "60s";
  int warmup = 1, iterations = 3;
};
// `what`: "the plan". Throws UserError for options without --backend.
OptionList alone_options(AlonePerforming& options, const std::string& what);
void check(const CommandLine& line, const AlonePerforming& options);
// The steps of collectives are those of `executions`, by WorkId; `links`: what is predicted of them, where that is
// known. Nothing in ranks that do not report.
std::optional<explore::Performed> perform(const AlonePerforming& options, backend::Backend& backend,
                                          const lower::Alone& what, double predicted,
                                          std::span<const collective::Execution> executions, const HostLinks& links,
                                          const CommonOptions& common);

// A predicted scenario with all ranks, and the backend that will perform it.
struct Performing {
  explore::Performable what;
  answer::Result predicted;
  std::unique_ptr<backend::Backend> backend;
  backend::RunOptions options;
};
// Reads the options; `arguments`: those of the command `name`.
Performing begin_performing(const std::string& name, const Arguments& arguments, const std::string& scenario,
                            const CommonOptions& common, const PerformingOptions& options);

// Follows the iterations, whose duration is known at first if the prediction is for this machine.
explore::Performed perform(const Performing& performing, const CommonOptions& common);

}  // namespace rehearsal::cli
