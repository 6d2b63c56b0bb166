// What `import` made, as JSON: the scenario, and behind each of its keys where the value is from.
#pragma once
#include <string>

#include "interchange/import.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

const Shown<interchange::Imported>& imported_answer();
std::string imported_json(const interchange::Imported& imported);

}  // namespace rehearsal::report
