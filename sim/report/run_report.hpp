// `run` and `measure` for people (text), for programs (JSON, contract section 4) and for tables (CSV).
#pragma once
#include <span>
#include <string>

#include "answer/predict.hpp"
#include "base/json.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

using answer::Result;

// Without `all_assumptions`: the first ten lines of them.
std::string run_text(const Result& answer, const page::TextStyle& style, bool all_assumptions = false);
// For what follows the answers may be brief ones.
Json to_json(const Result& answer, const std::string& version);
// One object per answer; several make an array.
std::string run_json(std::span<const Result> answers, const std::string& version);
// The memory of each tier over time, by what it is held for: of the GPU that holds most, and of hosts and disks for all
// GPUs of the node that holds most. Under each what is there at most, and the capacity.
std::string memory_svg(const Result& answer);
// A header and one line per answer.
std::string run_csv(std::span<const Result> answers);

}  // namespace rehearsal::report
