// `rehearse schedule`: an evaluated schedule (schedule/evaluate.hpp) as text with a picture, as JSON (contract, section
// 5; times in seconds), and as a picture.
#pragma once
#include <string>

#include "page/layout.hpp"
#include "page/svg.hpp"
#include "report/shown.hpp"
#include "schedule/evaluate.hpp"

namespace rehearsal::report {

Shown<schedule::Evaluation> schedule_answer();
struct BatchLine {
  Json id = {};
  std::optional<schedule::Evaluation> result = {};
  std::optional<std::string> error = {};
};
Shown<BatchLine> batch_answer();

std::string to_text(const schedule::Evaluation& result, const page::TextStyle& style);

// A standalone picture (svg.hpp) of the order with its times and of the memory of every rank. Throws UserError when
// there are too many actions for a picture.
std::string to_svg(const schedule::Evaluation& result);
page::Drawing drawing_of(const schedule::Evaluation& result);

}  // namespace rehearsal::report
