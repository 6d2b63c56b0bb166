// What a row says of its recipe, beside layout and precision: who dispatches tokens, what is hidden, captured, dropped
// and repeated.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "published/run.hpp"

namespace rehearsal::published {

struct Recipe {
  std::vector<std::pair<std::string, std::string>> settings;  // by dotted keys of a scenario
  std::string recompute = "none";                             // of `training.recompute`
  bool lists_modules = false;                                 // it says which modules are computed again
  std::string unread;                                         // why its cells cannot be read: the row is not judged
  std::vector<std::string> untold;  // keys of cells that say that they do not say, of those that move a step most
};

// Reads the columns dispatcher, expert_overlap, cuda_graph, capacity, routing, tp_overlap, etp, loss, lengths and
// recompute. A cell that says that it does not say ("see recipe", "not printed") leaves the setting to rules, or
// untold. Columns of experts count where there are some.
Recipe recipe_of(const Run& run, bool experts);

}  // namespace rehearsal::published
