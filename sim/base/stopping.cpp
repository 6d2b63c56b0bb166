#include "base/stopping.hpp"

#include <utility>

namespace rehearsal {
namespace {

thread_local const Stoppable* innermost = nullptr;

}  // namespace

Stoppable::Stoppable(std::function<bool()> asked) : asked_(std::move(asked)), outer_(std::exchange(innermost, this)) {}
Stoppable::~Stoppable() { innermost = outer_; }

const std::function<bool()>& Stoppable::here() {
  static const std::function<bool()> kNothing;
  return innermost ? innermost->asked_ : kNothing;
}

bool asked_to_stop() {
  const auto& asked = Stoppable::here();
  return asked && asked();
}

void go_on() {
  if (asked_to_stop()) throw Stopped();
}

}  // namespace rehearsal
