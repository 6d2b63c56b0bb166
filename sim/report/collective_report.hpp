// Reports one collective: text, JSON (contract, section 2), CSV, a picture of the transfers of each step.
//
// Sizes are as in nccl-tests: the whole array. Steps and links are listed for at most cost::kMostListed ranks.
#pragma once
#include <string>

#include "base/json.hpp"
#include "cost/one_collective.hpp"
#include "page/layout.hpp"
#include "page/svg.hpp"

namespace rehearsal::report {

Json to_json(const cost::CommunicationModel& model, const cost::OneCollective& one);
std::string to_text(const cost::CommunicationModel& model, const cost::OneCollective& one,
                    const page::TextStyle& style);
std::string to_csv(const cost::OneCollective& one);  // one row per transfer
// A column per rank, a row per step; between steps, the chunks that each rank holds. Throws UserError if too large.
std::string to_svg(const cost::OneCollective& one);

// The steps as drawn: several transfers between the same two ranks in one step become one arrow.
struct Arrow {
  std::uint32_t from, to;
  bool reduce;
  std::vector<std::uint32_t> chunks;
};
std::vector<Arrow> arrows(const std::vector<collective::Transfer>& step);
std::string chunk_text(const std::vector<std::uint32_t>& chunks);      // "3", "2,3", "4 chunks"
std::string step_verb(const std::vector<collective::Transfer>& step);  // "adds", "copies"

}  // namespace rehearsal::report
