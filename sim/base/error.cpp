#include "base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace rehearsal {

std::string format(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& [where, message] : diagnostics) {
    if (!text.empty()) text += '\n';
    if (!where.file.empty() && where.line > 0)
      text += fmt::format("{}:{}:{}: ", where.file, where.line, where.column);
    else if (!where.file.empty())
      text += where.file + ": ";
    text += "error: " + message;
  }
  return text;
}

UserError::UserError(std::string message) : UserError(std::vector{Diagnostic{{}, std::move(message)}}) {}
UserError::UserError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(format(diagnostics)), diagnostics_(std::move(diagnostics)) {}
UserError::UserError(const UserError&) = default;
UserError& UserError::operator=(const UserError&) = default;
UserError::~UserError() = default;

MachineError::MachineError(const MachineError&) = default;
MachineError::~MachineError() = default;

void invariant_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: {} does not hold: {}", file, line, condition, message));
}

}  // namespace rehearsal
