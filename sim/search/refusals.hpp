// Refused layouts, grouped by the rule that refuses them.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "search/search.hpp"

namespace rehearsal::search {

// Messages that differ only in numbers have the same rule.
class Refusals {
 public:
  void add(const Refusal& refusal) {
    std::string rule = refusal.why;
    std::erase_if(rule, [](char c) { return c >= '0' && c <= '9'; });
    auto& kept = by_rule_.emplace(rule, Refusal{refusal.layout, refusal.why, 0}).first->second;
    if (refusal.layout < kept.layout) kept.layout = refusal.layout, kept.why = refusal.why;
    kept.layouts += refusal.layouts;
  }
  std::vector<Refusal> sorted() const {
    std::vector<Refusal> all;
    for (const auto& [rule, refusal] : by_rule_) all.push_back(refusal);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.layouts > b.layouts; });
    return all;
  }

 private:
  std::map<std::string, Refusal> by_rule_;
};

}  // namespace rehearsal::search
