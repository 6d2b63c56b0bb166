#include "traces/pieces.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "traces/refuse.hpp"

namespace rehearsal::traces {

struct Pieces::File {
  gzFile handle = nullptr;  // reads uncompressed files too, as they are
  ~File() {
    if (handle) gzclose_r(handle);
  }
};

Pieces::Pieces(const std::string& path, std::function<void(std::size_t)> passed)
    : file_(std::make_unique<File>()),
      bytes_(std::make_unique<std::array<char, kSize + 1>>()),
      passed_(std::move(passed)) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) refuse(path, "is a folder; name the traces in it");
  file_->handle = gzopen(path.c_str(), "rb");
  if (!file_->handle) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  gzbuffer(file_->handle, kSize);
}

Pieces::~Pieces() = default;

std::size_t Pieces::next(char*& begin) {
  begin = bytes_->data();
  if (!damage_.empty()) return 0;
  const int got = gzread(file_->handle, begin, unsigned(kSize));
  if (passed_) passed_(std::size_t(std::max<z_off_t>(0, gzoffset(file_->handle))));
  if (got > 0) return std::size_t(got);
  int code = Z_OK;
  const char* why = gzerror(file_->handle, &code);
  if (code == Z_BUF_ERROR)
    damage_ = "the compressed file ends early";
  else if (code != Z_OK && code != Z_STREAM_END)
    damage_ = fmt::format("the compressed file is damaged ({})", code == Z_ERRNO ? std::strerror(errno) : why);
  return 0;
}

}  // namespace rehearsal::traces
