// Errors about whole files.
#pragma once
#include <string>

#include "base/error.hpp"

namespace rehearsal::traces {

[[noreturn]] inline void refuse(const std::string& file, const std::string& why) {
  throw UserError(std::vector<Diagnostic>{{{file}, why}});
}

}  // namespace rehearsal::traces
