// What this program is.
#pragma once
#include <string>

namespace rehearsal {

std::string program_version();  // "0.1.0"

}  // namespace rehearsal
