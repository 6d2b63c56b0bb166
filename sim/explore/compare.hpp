// Many variants of scenarios side by side: which ones (the cross product of what varies), and running them all.
//
// Variants run on several threads; each result lands at the place of its variant, so that nothing depends on the number
// of threads. A variant that is wrong is a result too: its errors.
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

// Takes what is wanted from one variant that worked. Called once per variant from any thread, several at a time.
using Keep = std::function<void(std::size_t variant, answer::Result prediction)>;

// Predicts every variant, `common` (KEY=VALUE) applied before its own values, on `jobs` threads. Returns for each
// variant what is wrong with it; empty = it worked and was kept. Anything but a UserError stops the comparison and is
// thrown: of those met, the one of the first variant.
std::vector<std::vector<Diagnostic>> compare(std::span<const Variant> variants, std::span<const std::string> common,
                                             unsigned jobs, const Keep& keep);

}  // namespace rehearsal::explore
