// Stages of a model: lists with empty stages, and Megatron-Core's layouts.
#include "plan/partition.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

std::string text(const std::vector<Stage>& stages) {
  std::string all;
  for (const auto& s : stages) {
    if (!all.empty()) all += '|';
    if (s.embedding) all += 'E';
    all += std::string(std::size_t(s.layers), 't') + std::string(std::size_t(s.bodies), 'm') +
           std::string(std::size_t(s.predictions), 'M') + (s.head ? "H" : "") + std::string(std::size_t(s.losses), 'L');
  }
  return all;
}

std::string refused(const std::string& layout) {
  try {
    stages_of_layout(layout);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}
bool says(const std::string& all, const char* part) { return all.find(part) != std::string::npos; }

models::Transformer model(std::int64_t layers, std::int64_t modules) {
  models::Transformer m;
  m.layers = layers, m.mtp_layers = modules;
  return m;
}

}  // namespace

TEST_CASE("a layout, written out") {
  CHECK(text(stages_of_layout("E|(t|)*3m|m|m|LL|LL")) == "E|t|t|t|m|m|m|HL|LL");
  CHECK(text(stages_of_layout("Et*3|(tt|)*2m|L")) == "Ettt|tt|tt|m|HL");
  CHECK(text(stages_of_layout("Et,t | ttmmL")) == "Ett|ttMMH");  // one loss for all: modules beside it end in theirs
  CHECK(text(stages_of_layout("Ett||tL")) == "Ett||tH");         // nothing in between
  CHECK(text(stages_of_layout("E(t(t|)*2)*2L")) == "Ett|t|tt|t|H");
}

TEST_CASE("a layout that says something else is refused") {
  CHECK(says(refused("tt|L"), "E stands once"));
  CHECK(says(refused("t|EtL"), "parts follow each other"));
  CHECK(says(refused("Et|tm|LLL"), "L stands once"));
  CHECK(says(refused("EtLt"), "parts follow each other"));
  CHECK(says(refused("Et*L"), "a number is missing"));
  CHECK(says(refused("E(tt|L"), "')' is missing"));
  CHECK(says(refused("Ett)|L"), "closes nothing"));
  CHECK(says(refused("Ex|L"), "'x' is no part"));
  CHECK(says(refused("E(((t)*9999)*9999)*9999L"), "too many parts"));
}

TEST_CASE("the stages of a model are those of its layout, in number and in parts") {
  std::vector<std::string> none;
  const Partition layout{.kind = Partition::Kind::listed, .layout = "E|tt|tt|m|LL"};
  const auto stages = deal_stages(model(4, 1), 5, layout, none);
  CHECK(stages[2].first == 2);
  CHECK(stages[3].first == 4);
  CHECK_THROWS_AS(deal_stages(model(4, 1), 4, layout, none), UserError);
  CHECK_THROWS_AS(deal_stages(model(5, 1), 5, layout, none), UserError);
  CHECK_THROWS_AS(deal_stages(model(4, 2), 5, layout, none), UserError);
}

TEST_CASE("any stage of a list may be empty") {
  std::vector<std::string> none;
  const Partition list{.kind = Partition::Kind::listed, .layers = {0, 2, 0, 2, 0}};
  CHECK(text(deal_stages(model(4, 2), 5, list, none)) == "E|tt||tt|MMH");
}
