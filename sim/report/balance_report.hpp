// Reports an expert placement: text with every GPU's load before and after, JSON (contract, section 7), CSV.
#pragma once
#include <string>

#include "balance/answer.hpp"
#include "page/layout.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

struct Balanced {
  const balance::Question& question;
  const balance::Answer& answer;
};
Shown<Balanced> balance_answer();
page::Table layer_table(const balance::Answer& answer);  // how even each layer is, before and after
std::string to_text(const balance::Question& question, const balance::Answer& answer, const page::TextStyle& style);
std::string to_csv(const balance::Answer& answer);  // one row per layer
// One column per GPU and layer, stacked from the expert copies on it; if there are too many, cells with the loads
// before and after.
std::string to_svg(const balance::Question& question, const balance::Answer& answer, page::Length room = page::kWide);

}  // namespace rehearsal::report
