// The search of search.hpp for one goal.
#pragma once
#include <cstddef>
#include <optional>

#include "search/goal.hpp"
#include "search/search.hpp"

namespace rehearsal::search {

// `only`: on one cluster. `closest` is left empty.
Outcome best_first(const Space& space, const Options& options, const Goal& goal, std::optional<std::size_t> only = {});

}  // namespace rehearsal::search
