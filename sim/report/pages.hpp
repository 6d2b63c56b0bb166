// The results of commands as pages: figures, pictures and tables (page/page.hpp). The page of `run` and `measure` is in
// report/run_page.hpp.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "page/page.hpp"
#include "report/balance_report.hpp"
#include "report/collective_report.hpp"
#include "report/compare_report.hpp"
#include "report/explain_report.hpp"
#include "report/groups_report.hpp"
#include "report/plan_report.hpp"
#include "report/reshard_report.hpp"
#include "report/run_page.hpp"
#include "report/schedule_report.hpp"
#include "report/validate_report.hpp"

namespace rehearsal::report {

// Takes out the columns, but the first, that say the same in each of several rows, and says so: "The same in all: GPUs
// 8, ...". Wide tables would end beyond the page.
std::string say_once(page::Table& table);

// `shown`: from choose().
page::Page compare_page(std::span<const CompareRow> rows, std::span<const std::size_t> shown, const Asked& asked);
page::Page plan_page(const Plan& plan, const Asked& asked);
page::Page explain_page(const Explanation& explanation, const Asked& asked);
page::Page validate_page(const Validation& validation, const Asked& asked);
page::Page reshard_page(const Planned& planned, const Asked& asked);
page::Page balance_page(const balance::Question& question, const balance::Answer& answer, const Asked& asked);
page::Page collective_page(const Exchange& exchange, const Asked& asked);
page::Page groups_page(const GroupMap& map, const Asked& asked);
// One schedule, or several on a common time scale. Throws UserError as to_svg does.
page::Page schedule_page(std::span<const schedule::Evaluation> results, const Asked& asked);

}  // namespace rehearsal::report
