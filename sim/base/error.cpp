#include "base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace rehearsal {

std::string printable(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      safe += c;
  }
  return safe;
}

std::string format(const std::vector<Diagnostic>& diagnostics, std::string_view severity) {
  std::string text;
  for (const auto& [where, message] : diagnostics) {
    if (!text.empty()) text += '\n';
    if (!where.file.empty() && where.line > 0)
      text += fmt::format("{}:{}:{}: ", printable(where.file), where.line, where.column);
    else if (!where.file.empty())
      text += printable(where.file) + ": ";
    text += fmt::format("{}: {}", severity, message);
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
