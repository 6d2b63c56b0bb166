// The same step with other numbers: works are priced again, the graph stays. What hundreds of small changes of one
// machine are asked by (explore/sensitivity.hpp).
#pragma once
#include <optional>
#include <string_view>

#include "answer/predict.hpp"

namespace rehearsal::answer {

// Whether a number of the scenario is looked at by prices and capacities alone, and by nothing that makes a graph.
bool only_prices(std::string_view key);

// The iteration that predict(other) finds, to the picosecond, from the graph of `base`. `other` differs from the
// scenario of `base` in keys for which only_prices() holds. Nothing where other prices may make another graph: a
// schedule that is searched by the times of stages, layers dealt by them, links that no longer are alike.
std::optional<Time> repriced(const Prediction& base, const scenario::Scenario& other);

}  // namespace rehearsal::answer
