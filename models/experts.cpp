#include "models/experts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rehearsal::models {

std::string Skew::text() const {
  switch (kind) {
    case Kind::uniform:
      return "";
    case Kind::natural:
      return "natural";
    case Kind::zipf:
      return fmt::format("zipf {}", zipf);
    case Kind::loads:
      return fmt::format("loads {}", loads);
    case Kind::trace:
      return fmt::format("trace {}", trace);
  }
  return "";
}

}  // namespace rehearsal::models
