// Compares many variants of scenarios: builds them (the cross product of the varied keys) and predicts all of them.
//
// Variants run on several threads; each result is stored under its variant's index, so the outcome does not depend on
// the number of threads. A variant with errors is a result too.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"

namespace rehearsal::explore {

// One key and the values it takes, as texts: "batch.micro" with "1", "2", "4".
struct Vary {
  std::string key;
  std::vector<std::string> values;
};

// "KEY=V1,V2,...": commas inside brackets, braces and quotes do not split. Throws UserError.
Vary parse_vary(std::string_view option);

using Settings = std::vector<std::pair<std::string, std::string>>;  // keys with their values, in the order given

struct Variant {
  std::string file;                       // of the scenario
  Settings set;                           // one value of each key that varies
  std::vector<std::string> sets() const;  // KEY=VALUE, as scenario::load takes them
};

inline constexpr std::size_t kMostVariants = 100'000;

// Every file with every combination of values; the last key varies fastest. Throws UserError for a key given twice and
// for more than kMostVariants.
std::vector<Variant> variants(std::span<const std::string> files, std::span<const Vary> varies);

// Receives the result of a successful variant. Called once per variant from any thread, possibly concurrently.
using Keep = std::function<void(std::size_t variant, answer::Result prediction)>;

// Predicts every variant, with `common` (KEY=VALUE) applied before its own values, on `jobs` threads. Returns the
// errors of each variant; empty = it succeeded and was passed to `keep`. Any exception other than UserError stops the
// comparison; of several, the one of the first variant is thrown.
std::vector<std::vector<Diagnostic>> compare(std::span<const Variant> variants, std::span<const std::string> common,
                                             unsigned jobs, const Keep& keep,
                                             const scenario::Files& files = scenario::disk(), const Done& done = {});

}  // namespace rehearsal::explore
