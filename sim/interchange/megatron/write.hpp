// A scenario as arguments of Megatron-LM.
#pragma once
#include <string>

#include "interchange/format.hpp"

namespace rehearsal::interchange {

// One argument a line, "--name value", as `rehearse import -- ARGUMENTS` reads them; appends to `lacks` what
// Megatron-LM has no argument for.
std::string write_megatron(const scenario::Scenario& scenario, Lacks& lacks);

}  // namespace rehearsal::interchange
