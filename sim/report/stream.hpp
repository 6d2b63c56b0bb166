// Text that streams to a sink in large pieces.
#pragma once
#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>
#include <string>

#include "base/json.hpp"
#include "report/perfetto.hpp"

namespace rehearsal::report {

// Collects text and hands it on in large pieces.
class Stream {
 public:
  explicit Stream(const Sink& sink) : sink_(sink) { buffer_.reserve(kPiece + 4096); }
  template <class Format, class... Args>
  void put(const Format& format, const Args&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, args...);
    if (buffer_.size() >= kPiece) flush();
  }
  void flush() {
    sink_({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  const Sink& sink_;
  fmt::memory_buffer buffer_;
};

inline std::string quoted(const std::string& text) { return Json(text).dump(); }

}  // namespace rehearsal::report
