// The backends by name, as commands open and list them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cli/command.hpp"

namespace rehearsal::cli {

struct BackendEntry {
  std::string name;
  std::string summary;             // one honest sentence
  bool performs = false;           // for real; the simulator does not
  std::optional<std::string> why;  // this machine cannot use it; nothing = it can
  std::vector<backend::Capability> capabilities;
};
// All there are, also those that are missing here.
std::vector<BackendEntry> backends();

// A backend that performs, for `measure`, `validate` and `calibrate`. `arguments`: the whole command line without the
// name of the program, for backends whose ranks are processes (launch/launch.hpp). Throws UserError for a name that
// does not perform, MachineError "backend mpi unavailable: ...".
std::unique_ptr<backend::Backend> open_backend(const std::string& name, const Arguments& arguments);

}  // namespace rehearsal::cli
