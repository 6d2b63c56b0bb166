// `run` and `measure` for people (text), for programs (JSON, contract section 4) and for tables (CSV).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "report/summary.hpp"

namespace rehearsal::report {

struct RunTextOptions {
  int width = 80;
  bool color = false;
};

std::string run_text(const Run& run, const Summary& summary, const RunTextOptions& options);
// One object per run; several runs make an array.
std::string run_json(std::span<const Run> runs, std::span<const Summary> summaries, const std::string& version);
// A header and one line per run.
std::string run_csv(std::span<const Run> runs, std::span<const Summary> summaries);

}  // namespace rehearsal::report
