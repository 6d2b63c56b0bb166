// The writer of DeepSpeed's JSON (all/deepspeed.cpp reads it).
#pragma once
#include <string>

#include "interchange/format.hpp"

namespace rehearsal::interchange {

std::string deepspeed_text(const scenario::Scenario& scenario, Lacks& lacks);

}  // namespace rehearsal::interchange
