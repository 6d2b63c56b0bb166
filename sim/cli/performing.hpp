// Shared by `measure` and `validate`: their options, and performing a scenario on a backend.
#pragma once
#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "cli/output.hpp"
#include "explore/perform.hpp"

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
