#include "library/memory_session.hpp"

namespace rehearsal::library {

void MemorySession::write(cli::Stream to, std::string_view text) {
  const std::lock_guard lock(writing_);
  (to == cli::Stream::out ? out_ : err_) += text;
}

void MemorySession::progress(std::string_view line) {
  if (say_) say_(std::string(line).c_str());
}

}  // namespace rehearsal::library
