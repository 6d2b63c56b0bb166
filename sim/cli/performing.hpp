// What `measure` and `validate` share: their options, and a scenario on its way through a backend.
#pragma once
#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "cli/output.hpp"
#include "explore/perform.hpp"

namespace rehearsal::cli {

struct PerformingOptions {
  std::string backend, compute, timeout = "60s";
  std::string timeline, trace;  // files
  backend::RunOptions run = [] {
    backend::RunOptions usual;
    usual.warmup = 3, usual.iterations = 10, usual.weights = false;
    return usual;
  }();
};
OptionList performing_options(PerformingOptions& options);

// A scenario with every rank, predicted, and the backend that will perform it.
struct Performing {
  explore::Performable what;
  answer::Result predicted;
  std::unique_ptr<backend::Backend> backend;
  backend::RunOptions options;
};
// Reads what the options say; `arguments` of the command `name`.
Performing begin_performing(const std::string& name, const Arguments& arguments, const std::string& scenario,
                            const CommonOptions& common, const PerformingOptions& options);

// On a terminal it says first how long this will take, where the prediction is for this machine, and then how far it
// is.
explore::Performed perform(const Performing& performing, const CommonOptions& common);

}  // namespace rehearsal::cli
