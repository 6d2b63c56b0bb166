// What a row of a table leaves unsaid, chosen by rules that are data (configs/published_runs.yaml): the machine, the
// profile of the framework on that day, what its recipes of that release set. Rules see what the table prints and never
// what was measured, so they stand before an error is looked at.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "published/run.hpp"
#include "scenario/files.hpp"

namespace rehearsal::published {

// A cell fits when one of its patterns does. Patterns, in any case of letters: "text" is somewhere in the cell, "^text"
// at its beginning, "=text" the whole ("=": nothing is printed), ">1" a number above.
struct Condition {
  std::string column;
  std::vector<std::string> patterns;
};

bool fits(const Condition& condition, const std::string& cell);

struct Rule {
  std::vector<Condition> when;  // all of them; of "!column" none
  std::string cluster, gpu;     // files of configs; the GPU where the cluster's is another
  std::int64_t gpus_per_node = 0;
  std::string framework;
  std::optional<std::int64_t> head_dim;  // where no heads are printed
  std::string not_judged, not_timed;     // why its rows cannot be stated; why their time says nothing, but memory does
  std::string peak_rank;                 // whose peak is printed: "first", "last"; empty: that of whoever holds most
  // Dotted keys and values, as YAML. `over`: also over the row's own knobs, which were mapped from a column that did
  // not know ("see recipe").
  std::vector<std::pair<std::string, std::string>> set, over;
};

// What the rules say of a row. Of machine and framework the first that fits counts, unless the row names its own; a rule
// that asks for the `framework` of a row may replace it by that of a release. Settings add up, later ones win.
struct Mapped {
  std::string cluster, gpu, framework, not_judged, not_timed, peak_rank;
  std::int64_t gpus_per_node = 8, head_dim = 128;
  std::vector<std::pair<std::string, std::string>> set, over;
};

class Mapping {
 public:
  explicit Mapping(std::vector<Rule> rules) : rules_(std::move(rules)) {}
  Mapped of(const Run& run) const;

 private:
  std::vector<Rule> rules_;
};

// Of configs/published_runs.yaml. Throws UserError.
Mapping read_mapping(const scenario::Files& files = scenario::disk());

std::string lower(std::string text);  // ASCII letters

}  // namespace rehearsal::published
