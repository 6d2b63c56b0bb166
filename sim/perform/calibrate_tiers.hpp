// `rehearse calibrate`: what lies beside the memory of ranks (calibrate/tiers.hpp), as a section of a profile and a
// report.
#pragma once
#include <functional>
#include <string>

#include "base/json.hpp"
#include "cli/performer.hpp"
#include "cost/tier_times.hpp"

namespace rehearsal::perform {

struct MeasuredTiers {
  cost::TierTimes times;
  std::string no_disk;  // why there is no disk among them; empty where there is
};
// A directory that the user named must serve: what it lacks is thrown (MachineError). Where the usual one does not,
// the disk is left out.
MeasuredTiers measure_tiers(const cli::Calibration& options, unsigned threads,
                            const std::function<void(const std::string&)>& say);

std::string tiers_text(const MeasuredTiers& measured);
Json tiers_json(const MeasuredTiers& measured);

}  // namespace rehearsal::perform
