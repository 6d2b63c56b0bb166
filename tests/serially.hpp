// What one rank alone trains, for tests that hold many trainings against it: trained once for each scenario, whatever
// is broken in the runs that it is compared with.
#pragma once
#include <map>
#include <utility>

#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal {

// The serial reference of this scenario, of a run with these options. By the digest, which covers all that a training
// depends on.
inline const backend::Trained& trained_serially(const scenario::Scenario& scenario,
                                                const backend::RunOptions& options) {
  static std::map<std::pair<std::string, int>, backend::Trained> known;
  const auto serially = explore::serial_options(options, scenario);
  const auto [it, fresh] = known.try_emplace({scenario.digest, serially.iterations});
  if (!fresh) return it->second;
  try {
    it->second =
        explore::perform(answer::prepare(explore::serial_reference(scenario)), *loopback::make_loopback(), serially)
            .trained;
  } catch (...) {
    known.erase(it);
    throw;
  }
  return it->second;
}

}  // namespace rehearsal
