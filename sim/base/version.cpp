#include "base/version.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/error.hpp"

namespace rehearsal {

Version parse_version(std::string_view text) {
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&](int& to) {
    const auto [after, problem] = std::from_chars(at, end, to);
    const bool fine = problem == std::errc{} && to >= 0 && *at != '-' && to < 1000;
    at = after;
    return fine;
  };
  const auto dot = [&] { return at != end && *at++ == '.'; };
  Version version;
  int patch = 0;
  if (text.empty() || !number(version.major) || !dot() || at == end || !number(version.minor) ||
      (at != end && !(dot() && at != end && number(patch) && at == end)))
    throw UserError(
        fmt::format("'{}' is no version; write major and minor number, for example 2.18", text.substr(0, 40)));
  return version;
}

std::string show(Version version) { return fmt::format("{}.{}", version.major, version.minor); }

}  // namespace rehearsal
