// Fills in what a table row leaves out, by rules that are data (configs/published_runs.yaml): the machine, the
// framework profile of that time, the recipe defaults of that release. Rules see the printed columns but never the
// measurements, so they cannot be chosen to fit the error.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "published/run.hpp"
#include "scenario/files.hpp"

namespace rehearsal::published {

// A cell matches if one of its patterns does. Patterns ignore case: "text" anywhere in the cell, "^text" at its
// beginning, "=text" the whole cell ("=": nothing is printed), ">1" a number above.
struct Condition {
  std::string column;
  std::vector<std::string> patterns;
};

bool fits(const Condition& condition, const std::string& cell);

struct Rule {
  std::vector<Condition> when;  // all must match; a "!column" must not match
  std::string cluster, gpu;     // names in configs; the GPU if it differs from the cluster's
  std::int64_t gpus_per_node = 0;
  std::string framework;
  std::optional<std::int64_t> head_dim;  // if no heads are printed
  std::string not_judged, not_timed;     // why rows cannot be judged; why only their memory can, not their time
  std::string peak_rank;     // the rank whose peak is printed: "first", "last"; empty: the one with the highest
  bool fine_tuning = false;  // rows that tune trained weights, all or adapters; a cause of forecasts (constants.hpp)
  // Dotted keys and values, as YAML, or "number in COLUMN" or "number after WORD in COLUMN", which a row without it
  // does not set. `over` also overrides the row's own knobs if these came from a column without details ("see recipe").
  std::vector<std::pair<std::string, std::string>> set, over;
};

// The result of the rules for a row. For machine and framework the first match wins, unless the row names its own; a
// rule that matches a row's `framework` may replace it by a release. Settings accumulate, later ones win.
struct Mapped {
  std::string cluster, gpu, framework, not_judged, not_timed, peak_rank;
  std::int64_t gpus_per_node = 8, head_dim = 128;
  bool fine_tuning = false;
  std::vector<std::pair<std::string, std::string>> set, over;
};

class Mapping {
 public:
  // `frameworks`: the names of profiles, which a row may give as its framework.
  Mapping(std::vector<Rule> rules, std::set<std::string> frameworks)
      : rules_(std::move(rules)), frameworks_(std::move(frameworks)) {}
  Mapped of(const Run& run) const;

 private:
  std::vector<Rule> rules_;
  std::set<std::string> frameworks_;
};

// From configs/published_runs.yaml. Throws UserError.
Mapping read_mapping(const scenario::Files& files = scenario::disk());

std::string lower(std::string text);  // ASCII letters

}  // namespace rehearsal::published
