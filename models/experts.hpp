// How a mixture of experts is routed and placed: the scenario's `experts`. What a training run decides about experts;
// what they are is the model's (transformer.hpp), how many GPUs share them the parallelism's.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rehearsal::models {

// How many tokens each expert gets.
struct Skew {
  enum class Kind : std::uint8_t { uniform, natural, zipf, loads, trace } kind = Kind::uniform;
  // natural: a router that is not forced to balance, as models are trained (sim/plan/routing.cpp)
  double zipf = 0;                                      // the n-th busiest expert gets 1/n^zipf of the busiest
  std::vector<double> loads;                            // in any unit, one per expert
  std::vector<std::vector<std::vector<double>>> trace;  // by step, layer and expert

  std::string text() const;  // all of it
};

enum class Dispatch : std::uint8_t { all_to_all, two_hop };
enum class ExpertBalance : std::uint8_t { none, eplb, best };  // sim/balance

struct ExpertSettings {
  std::optional<double> capacity;  // tokens that an expert takes, over the mean; the rest are dropped. None: dropless
  Skew skew;
  std::optional<std::int64_t> limit_nodes;  // that a token may be sent to (DeepSeek-V3, section 2.1.2)
  Dispatch dispatch = Dispatch::all_to_all;
  ExpertBalance balance = ExpertBalance::none;
  // Replicas in addition to one of each expert; at most this number, unless they are `settled`: fewer if more make a
  // step longer.
  std::int64_t redundant = 0;
  bool settled = false;
  std::optional<std::int64_t> every;  // steps from one placement to the next
};

// What routing means for the ranks of one expert group.
struct Routed {
  double load = 1;  // rows of the busiest rank over the mean of all, both before any are dropped
  // Of every rank likewise, the busiest first; where layers or steps differ, the mean of their busiest, and so on.
  // Empty: all have `load`.
  std::vector<double> loads = {};
  double kept = 1;    // of all rows, those that are not dropped
  bool waits = true;  // the host waits for the routing to know how many rows an expert gets
  bool two_hop = false;
  std::int64_t most_domains = 0;  // 0: any number
};

}  // namespace rehearsal::models
