// Reports `validate --trace`: a prediction beside traces of the run, as text, as JSON (that of `run` plus the
// comparison) and as CSV (one line for each part of a step of each rank).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/run_report.hpp"
#include "traces/comparison.hpp"
#include "traces/samples.hpp"

namespace rehearsal::report {

// One figure of a step, on both sides; nothing: that side does not tell.
struct BesideRow {
  std::string key, name;  // in JSON and CSV, in tables
  std::optional<Time> predicted, measured;
  std::optional<std::uint64_t> kernels = {};
  std::optional<double> error() const;  // predicted / measured - 1
};

struct MeasuredRank {
  const traces::Trace* trace = nullptr;
  RankId rank;  // of the graph, that is or stands for it
  traces::Analysis measured;
  traces::Predicted predicted;
  traces::Samples samples;

  std::vector<BesideRow> parts() const;         // of the step: they add up to it
  std::vector<BesideRow> kinds() const;         // summed times of kernels
  std::vector<BesideRow> passes() const;        // likewise of those that compute; empty where the trace tells no passes
  std::vector<BesideRow> microbatches() const;  // likewise; empty where it names none
  std::vector<BesideRow> totals() const;        // of communication, by what it is for
  std::vector<BesideRow> shown() const;         // what of it is exposed, without waiting
};

struct TraceReport {
  const Result& predicted;
  std::vector<MeasuredRank> ranks;
  std::vector<std::string> warnings;
  traces::GroupOf group_of;              // what communication kernels are for
  std::optional<double> tolerance = {};  // share of the step; a larger error gives exit status 1

  Time measured_step() const;  // median over the steps of all ranks
  double error() const { return predicted.summary.iteration / measured_step() - 1; }
  bool within_tolerance() const;
};

// Throws UserError for a trace of a rank that the job does not have. Keeps references to `predicted` and `all`.
TraceReport beside(const Result& predicted, std::span<const traces::Trace> all, const traces::KernelClasses& classes);

// What communication is called: in tables, in rows of pictures (ten letters), by its colour there.
struct GroupWords {
  const char *words, *row;
  char letter;
};
GroupWords words_of(const std::optional<graph::Category>& category);

// A list of BesideRow in the answer, headed so.
page::Table beside_table(const Showing& shown, const std::string& pointer, std::string_view head);

// What of the idle time the host is the reason of, in sentences; empty where the trace has no launches.
std::vector<std::string> launching_words(const traces::Launching& launching);

const Shown<TraceReport>& trace_answer();           // "trace" of the next
const Shown<TraceReport>& validate_trace_answer();  // with the prediction
std::string trace_text(const TraceReport& report, const page::TextStyle& style);
std::string trace_json(const TraceReport& report);
std::string trace_csv(const TraceReport& report);

}  // namespace rehearsal::report
