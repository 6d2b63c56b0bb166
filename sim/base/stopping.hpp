// Stopping work that takes long, from outside. Who begins the work says by what it may be stopped; its longest loops
// look there from time to time. This goes with the thread and is no argument: every function of a prediction would pass
// it on.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>

namespace rehearsal {

// Somebody asked the work to stop.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

// During its lifetime the work of this thread, and of those of in_parallel(), may be stopped; `asked` may be called by
// all of them at once. Empty: may not.
class Stoppable {
 public:
  explicit Stoppable(std::function<bool()> asked);
  ~Stoppable();
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;

  static const std::function<bool()>& here();  // what this thread's work may be stopped by

 private:
  std::function<bool()> asked_;
  const Stoppable* outer_;
};

// Whether this thread's work was asked to stop: for work that then ends with what it has.
bool asked_to_stop();
// Throws Stopped if it was.
void go_on();

// Looks once in so many steps of a loop.
class LooksUp {
 public:
  explicit LooksUp(std::uint32_t steps) : steps_(steps) {}
  void step() {
    if (++done_ == steps_) done_ = 0, go_on();
  }

 private:
  std::uint32_t steps_, done_ = 0;
};

}  // namespace rehearsal
