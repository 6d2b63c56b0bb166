#include "base/program.hpp"

namespace rehearsal {

std::string program_version() { return REHEARSAL_VERSION; }

}  // namespace rehearsal
