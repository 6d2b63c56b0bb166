// Constants fitted to training runs (configs/constants.yaml), and forecasts without them: each family of runs
// (publisher, GPU, framework), framework, GPU and cause is predicted once more with the constants that only it provided
// replaced by substitutes.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "published/score.hpp"
#include "scenario/files.hpp"

namespace rehearsal::published {

struct Substitute {
  std::string value;  // as YAML; empty: there is no substitute
  std::string source;
  std::vector<std::string> saw, causes;  // as of Constant: what else must not be left out
};

struct Constant {
  std::string key, gpu, framework;  // affects scenarios with this GPU and framework, if named
  std::string value, where;         // where: file and line
  double width = 0;                 // relative half width
  std::vector<std::string> saw;
  std::vector<std::string> causes;  // those (kCauses) that all rows have which gave it
  // By family, or "any"; of several the first that does not rest on what is left out, too.
  std::map<std::string, std::vector<Substitute>> without;
  bool acts_on(const std::string& its_gpu, const std::string& its_framework) const {
    return (gpu.empty() || gpu == its_gpu) && (framework.empty() || framework == its_framework);
  }
};

// Throws UserError.
std::vector<Constant> read_constants(const scenario::Files& files = scenario::disk());

// "mosaic@a100-40g-sxm/fsdp-2023": the table's name up to its first digit or underscore.
std::string family_of(const std::string& table, const std::string& gpu, const std::string& framework);

// The run that a forecast is for.
struct ForecastOf {
  std::string family, gpu, framework;
  std::vector<std::string> causes;
};
// The changes for a forecast without what was left out. `missing`: constants that only what is left out gave, and that
// have no substitute.
struct Forecast {
  std::vector<std::string> sets;  // "framework.attention_rate=0.5"
  std::vector<std::string> missing;
};
Forecast forecast_of(const std::vector<Constant>& constants, const ForecastOf& run, Left left);

// What a row is beyond a run of its class.
struct RowTraits {
  bool natural_routing = false;  // the router's own choices, not forced balance
  bool fine_tuning = false;      // of all weights or of adapters
  bool eager_launches = false;   // Python issues the operations of a layer one by one, whether fused or not
};
// What a run is beyond a dense pre-training step in 16 bits with balanced tokens, of kCauses and in their order.
inline constexpr const char* kCauses[] = {"routing", "fine-tuning", "eager", "8 or 4 bits", "long context"};
std::vector<std::string> causes_of(const scenario::RunClass& run, const RowTraits& row);
// Of a row as it is predicted: `fine_tuning` as its rules say (mapping.hpp).
std::vector<std::string> causes_of(const scenario::Scenario& scenario, const scenario::RunClass& run, bool fine_tuning);

}  // namespace rehearsal::published
