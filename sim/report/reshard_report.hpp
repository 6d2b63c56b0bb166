// Reports a resharding plan: text with a chart of the NICs, JSON (contract, section 6), CSV, a picture.
//
// Makespan, lower bound, start and end are in elements over one NIC; seconds include latency, chunks and NVLink.
// Pictures show the plan at the NIC's bandwidth.
#pragma once
#include <string>
#include <vector>

#include "report/performed_alone.hpp"
#include "report/shown.hpp"
#include "reshard/answer.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::report {

struct Planned {
  const reshard::Question& question;
  const reshard::Answer& answer;
  const PerformedAlone* performed = nullptr;  // where a backend performed it
};
Shown<Planned> reshard_answer();
std::string to_text(const Planned& planned, const page::TextStyle& style);
std::string to_csv(const reshard::Answer& answer);    // one row per entry of the schedule
page::Table sendings(const reshard::Answer& answer);  // by their start
page::Drawing drawing_of(const reshard::Question& question, const reshard::Answer& answer);
// How the first transfer of several hops travels, from GPU to GPU in its chunks. Nothing where every one is a message.
std::optional<page::Drawing> hops_of(const reshard::Question& question, const reshard::Answer& answer);

// Several questions, each planned by every planner: makespans in elements, one row per question.
struct Compared {
  std::string name;
  std::vector<std::pair<std::string, std::int64_t>> makespans;  // by planner
  std::int64_t lower_bound = 0;                                 // the last planner's
  bool optimal = false;
};
struct Comparison {
  std::vector<std::string> planners;
  std::vector<Compared> rows;
};
Shown<Comparison> planners_answer();
std::string to_text(const Comparison& comparison, const page::TextStyle& style);
std::string to_csv(const Comparison& comparison);

}  // namespace rehearsal::report
