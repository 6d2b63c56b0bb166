// The backends that perform, by name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/performer.hpp"

namespace rehearsal::perform {

std::vector<cli::BackendEntry> backends();
std::unique_ptr<backend::Backend> open_backend(const std::string& name, const cli::Arguments& arguments);

}  // namespace rehearsal::perform
