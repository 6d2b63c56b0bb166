// Reports one collective: text, JSON (contract, section 2), CSV, a picture of the transfers of each step.
//
// Sizes are as in nccl-tests: the whole array. Steps and links are listed for at most cost::kMostListed ranks.
#pragma once
#include <string>

#include "cost/one_collective.hpp"
#include "cost/one_dispatch.hpp"
#include "page/layout.hpp"
#include "report/performed_alone.hpp"

namespace rehearsal::report {

struct Exchange {
  const cost::CommunicationModel& model;
  const cost::OneCollective& one;
  const PerformedAlone* performed = nullptr;  // where a backend performed it
};
Shown<Exchange> collective_answer();
std::string to_text(const Exchange& exchange, const page::TextStyle& style);
std::string to_csv(const cost::OneCollective& one);  // one row per transfer
// The sum of its time, the algorithms that it was chosen from, and what goes over links of each kind.
page::Table closed_form(const cost::CommunicationModel& model, const cost::OneCollective& one);
page::Table candidates(const cost::CommunicationModel& model, const cost::OneCollective& one);
page::Table links(const cost::OneCollective& one);
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

// One exchange of tokens with their experts. Rates are of one GPU and one way, in bytes that it sends over NVLink and
// over NICs; time in ms (text, CSV) or seconds (JSON).
struct TokenExchange {
  const cost::OneDispatch& one;
  const PerformedAlone* performed = nullptr;
};
Shown<TokenExchange> dispatch_answer();
std::string to_text(const TokenExchange& exchange, const page::TextStyle& style);
std::string to_csv(const cost::OneDispatch& one);

}  // namespace rehearsal::report
