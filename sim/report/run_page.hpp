// `run` and `measure` as a page: what the step takes, where its time, memory and messages go, and what was assumed.
#pragma once
#include <string>
#include <vector>

#include "page/page.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

// What was asked, to be asked again.
struct Asked {
  std::string command;   // "rehearse run x.yaml --set batch.micro=2"
  std::string scenario;  // the text of the file; may be empty
};

page::Page run_page(const Result& answer, const Asked& asked, const std::string& version);

// The last section of pages about a scenario.
page::Section scenario_section(const Asked& asked);

// Who works when on every lane of every rank. Above some number of ranks or tasks it folds, and `note` says so.
struct Timed {
  page::Drawing drawing;
  std::string note;
};
Timed timed(const Result& answer);

// Where the time of an iteration goes on each rank.
page::Bars breakdown_bars(const Result& answer);
// Colours of graph::Category.
std::vector<page::Rgb> category_colors();

}  // namespace rehearsal::report
