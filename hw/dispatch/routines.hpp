// The routines of one member of one group: each is made once, when its first collective begins.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "collective/routine.hpp"

namespace rehearsal::dispatch {

class Routines {
 public:
  // Of member `me` of `members`; stays where it is.
  const collective::Routine& of(const collective::Execution& execution, std::uint32_t me, std::uint32_t members) {
    INVARIANT(execution.shape.ranks == members, "steps are made for as many members as the group has");
    for (const auto& [known, routine] : made_)
      if (known == execution) return *routine;
    made_.emplace_back(execution, std::make_unique<collective::Routine>(collective::routine(execution, me)));
    return *made_.back().second;
  }

 private:
  std::vector<std::pair<collective::Execution, std::unique_ptr<collective::Routine>>> made_;
};

}  // namespace rehearsal::dispatch
