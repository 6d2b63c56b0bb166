// What the reader of DeepSpeed's JSON (all/deepspeed.cpp) and its writer share with others.
#pragma once
#include <cstdint>
#include <string>

#include "interchange/format.hpp"

namespace rehearsal::interchange {

// What DeepSpeed does by default at a stage of ZeRO, whoever hands the stage to it: when gradients are reduced, what
// they add up in, and where they are while the optimizer's states are in `optimizer`: device, host or nvme.
void derive_of_stage(ScenarioDraft& draft, std::int64_t stage, const std::string& optimizer);

std::string deepspeed_text(const scenario::Scenario& scenario, Lacks& lacks);

}  // namespace rehearsal::interchange
