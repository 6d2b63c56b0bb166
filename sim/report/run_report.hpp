// Reports `run` and `measure` as text, as JSON (contract section 4) and as CSV.
#pragma once
#include <span>
#include <string>

#include "answer/predict.hpp"
#include "base/json.hpp"
#include "page/layout.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

using answer::Result;

// Without `all_assumptions`, only the first ten lines of them.
std::string run_text(const Result& answer, const page::TextStyle& style, bool all_assumptions = false);
// What they answer; also of brief results.
const Shown<Result>& run_answer();
Json to_json(const Result& answer);
// One object per result; several form an array.
std::string run_json(std::span<const Result> answers);
// The first keys of every answer about a scenario: "rehearsal", "scenario".
Shown<answer::Summary> who_and_what();
Shown<answer::Contended> contended_resource();
// The keys of a performed step alone.
Shown<Result> measured_answer();
Shown<answer::Measured::Link> counted_link();
// Memory of each tier over time, by category: of the GPU that holds most, and for hosts and disks of all GPUs of the
// node that holds most. Each with its peak and capacity.
std::string memory_svg(const Result& answer, page::Length room = page::kWide);
// A header and one line per result.
std::string run_csv(std::span<const Result> answers);

}  // namespace rehearsal::report
