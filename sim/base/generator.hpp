// A lazy sequence written as a coroutine: `co_yield` hands out one value, nothing is stored.
// (std::generator is C++23.) Arguments taken by reference must outlive the sequence.
#pragma once
#include <coroutine>
#include <exception>
#include <utility>

namespace rehearsal {

template <class T>
class Generator {
 public:
  struct promise_type {
    const T* value = nullptr;
    std::exception_ptr error;

    Generator get_return_object() { return Generator(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    // The yielded temporary lives in the coroutine until it is resumed, so handing out its address saves a copy. (Half
    // the time of a small value: copying as one word what was just written in pieces stalls the processor.)
    std::suspend_always yield_value(const T& v) noexcept { return value = &v, std::suspend_always{}; }
    void return_void() noexcept {}
    void unhandled_exception() { error = std::current_exception(); }
  };

  Generator() = default;
  Generator(Generator&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Generator& operator=(Generator&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Generator() {
    if (handle_) handle_.destroy();
  }

  // Moves to the next value; false at the end.
  bool next() {
    handle_.resume();
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return !handle_.done();
  }
  // Valid until the next call of next().
  const T& value() const { return *handle_.promise().value; }

 private:
  using Handle = std::coroutine_handle<promise_type>;
  explicit Generator(Handle handle) : handle_(handle) {}
  Handle handle_;
};

}  // namespace rehearsal
