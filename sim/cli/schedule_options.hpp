// Converts one case of `rehearse schedule`, from a command line or from a line of JSON, to a Problem.
//
// Both sources fill the same fields with text as on the command line (times with units), so that there is a single
// parser and a single set of rules; JSON numbers are first converted to such text (times: milliseconds).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "schedule/registry.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::cli {

enum class FieldKind : std::uint8_t { name, count, times, amounts };

struct Field {
  std::string_view key;  // as in JSON; on the command line '_' is '-'
  FieldKind kind;
  std::string_view value_name, help;  // empty help: only a key of a batch, not an option
};

// In the order of the help text.
std::vector<Field> schedule_fields();

struct ScheduleCase {
  bool from_json = false;  // determines how messages name a field: --extra-warmup or 'extra_warmup'
  std::map<std::string, std::vector<std::string>, std::less<>> values;

  std::string label(std::string_view key) const;
};

// Reads one object of a batch. Throws UserError for unknown keys, wrong types and duplicates.
ScheduleCase case_from_json(const Json& object);

// An order with more actions would take minutes and gigabytes, so it is refused.
inline constexpr std::uint64_t kMaxActions = std::uint64_t(1) << 30;

struct ResolvedCase {
  schedule::Schedule schedule;  // from the registry, or read from a file
  schedule::Problem problem;
  std::vector<std::string> warnings;
};

// Throws UserError that names the field and the allowed values.
ResolvedCase resolve(const ScheduleCase& given);

}  // namespace rehearsal::cli
