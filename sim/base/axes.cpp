#include "base/axes.hpp"

namespace rehearsal {

const char* name(Axis axis) {
  constexpr const char* kNames[kAxes] = {"tensor",      "context", "data", "pipeline",  "expert-tensor", "expert",
                                         "expert-data", "shard",   "copy", "secondary", "near",          "across"};
  return kNames[index(axis)];
}

std::string name(Axes axes) {
  std::string text;
  for (std::size_t a = 0; a < kAxes; ++a)
    if (axes.holds(static_cast<Axis>(a))) text += (text.empty() ? "" : " x ") + std::string(name(static_cast<Axis>(a)));
  return text;
}

}  // namespace rehearsal
