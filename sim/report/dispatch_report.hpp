// Reports one exchange of tokens with their experts: text, JSON, CSV. Rates are of one GPU and one way, in bytes that
// it sends over NVLink and over NICs; time in ms (text, CSV) or seconds (JSON).
#pragma once
#include <string>

#include "base/json.hpp"
#include "cost/one_dispatch.hpp"

namespace rehearsal::report {

std::string to_text(const cost::OneDispatch& one);
Json to_json(const cost::OneDispatch& one);
std::string to_csv(const cost::OneDispatch& one);

}  // namespace rehearsal::report
