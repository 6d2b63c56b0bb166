// Reports a resharding plan: text with a chart of the NICs, JSON (contract, section 6), CSV, a picture.
//
// Makespan, lower bound, start and end are in elements over one NIC; seconds include latency, chunks and NVLink.
// Pictures show the plan at the NIC's bandwidth.
#pragma once
#include <string>
#include <vector>

#include "base/json.hpp"
#include "page/layout.hpp"
#include "page/svg.hpp"
#include "reshard/answer.hpp"

namespace rehearsal::report {

Json to_json(const reshard::Question& question, const reshard::Answer& answer);
std::string to_text(const reshard::Question& question, const reshard::Answer& answer, const page::TextStyle& style);
std::string to_csv(const reshard::Answer& answer);  // one row per entry of the schedule
std::string to_svg(const reshard::Question& question, const reshard::Answer& answer);

// Several questions, each planned by every planner: makespans in elements, one row per question.
struct Compared {
  std::string name;
  std::vector<reshard::Plan> plans;  // in the order of `planners`; the last one's lower bound is used
};
std::string compare_text(const std::vector<std::string>& planners, const std::vector<Compared>& rows,
                         const page::TextStyle& style);
std::string compare_csv(const std::vector<std::string>& planners, const std::vector<Compared>& rows);
Json compare_json(const std::vector<std::string>& planners, const std::vector<Compared>& rows);

}  // namespace rehearsal::report
