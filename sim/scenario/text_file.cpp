// Reading a text file with honest errors.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "scenario/document.hpp"

namespace rehearsal::scenario {
namespace {

// Offset of the first byte that is not UTF-8 (RFC 3629) or is NUL.
std::optional<std::size_t> first_bad_byte(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = byte(i);
    if (c == 0) return i;
    if (c < 0x80) {
      i++;
      continue;
    }
    const std::size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; k++)
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    // Overlong forms, surrogates, and what lies above U+10FFFF.
    if ((c == 0xE0 && byte(i + 1) < 0xA0) || (c == 0xED && byte(i + 1) > 0x9F) || (c == 0xF0 && byte(i + 1) < 0x90) ||
        (c == 0xF4 && byte(i + 1) > 0x8F))
      return i;
    i += length;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& path, const std::string& message) {
  throw UserError(std::vector{Diagnostic{{path, 0, 0}, message}});
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::string read_text_file(const std::string& path, std::size_t limit) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) refuse(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(file.fd, &status) == 0 && S_ISDIR(status.st_mode)) refuse(path, "is a directory, not a file");
  std::string text;
  for (;;) {
    const auto before = text.size();
    constexpr std::size_t kBlock = 1 << 16;
    text.resize(before + kBlock);
    const auto got = ::read(file.fd, text.data() + before, kBlock);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (text.size() > limit) refuse(path, fmt::format("is larger than {} MiB; this is no scenario", limit >> 20));
    if (got == 0) break;
  }
  if (const auto bad = first_bad_byte(text)) {
    const auto line_start = *bad == 0 ? std::string::npos : text.rfind('\n', *bad - 1);
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n') + 1;
    const auto column = *bad - (line_start == std::string::npos ? 0 : line_start + 1) + 1;
    throw UserError(std::vector{Diagnostic{
        {path, static_cast<int>(line), static_cast<int>(column)},
        fmt::format("not a text file: byte 0x{:02x} is not UTF-8 text", static_cast<unsigned char>(text[*bad]))}});
  }
  return text;
}

}  // namespace rehearsal::scenario
