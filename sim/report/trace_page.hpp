// `validate --trace` as a page: both timelines on one scale.
#pragma once
#include "page/page.hpp"
#include "report/run_page.hpp"
#include "report/trace_report.hpp"

namespace rehearsal::report {

page::Page trace_page(const TraceReport& report, const Asked& asked);

}  // namespace rehearsal::report
