#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::size_t kBuffer = 1 << 18;

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

bool goes_to_terminal(const CommonOptions& common) { return common.output.empty() && isatty(STDOUT_FILENO) == 1; }

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string option)
    : path_(std::move(path)), target_(path_), option_(std::move(option)) {
  struct stat found {};
  if (path_.empty() || path_ == "-") {
    descriptor_ = STDOUT_FILENO, direct_ = true;
  } else if (stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    // A pipe or a device is written directly, never replaced.
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC), direct_ = true;
    if (descriptor_ < 0) fail(errno);
  } else {
    open_beside();
  }
  if (path_.ends_with(".gz")) {
    gzip_ = gzdopen(dup(descriptor_), "wb6");
    if (!gzip_) throw std::bad_alloc();
  }
}

void AtomicFile::open_beside() {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored)) {
    auto followed = std::filesystem::weakly_canonical(path_, ignored);
    if (!ignored) target_ = followed.string();
  }
  struct stat found {};
  const bool exists = stat(target_.c_str(), &found) == 0;
  if (exists && access(target_.c_str(), W_OK) != 0) fail(errno);
  // An unnamed file leaves nothing behind even if the process is killed; not every file system supports them.
  descriptor_ = open(folder_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    temporary_ = fmt::format("{}.{}.partial", target_, getpid());
    descriptor_ = open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      const int error = errno;
      temporary_.clear();
      fail(error);
    }
  }
  if (exists) (void)!fchmod(descriptor_, found.st_mode & 07777);  // best effort: the owner may differ
}

AtomicFile::~AtomicFile() {
  if (gzip_) gzclose(static_cast<gzFile>(gzip_));
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::check(const std::string& path, const std::string& option) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return;
  AtomicFile probe(path, option);  // discarded again
}

void AtomicFile::fail(int error) const {
  const bool standard = descriptor_ == STDOUT_FILENO;
  if (error == EPIPE) throw ClosedPipe();
  const std::string message =
      fmt::format("cannot write {}: {}", standard ? "standard output" : "'" + path_ + "'", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG) throw MachineError(message);
  throw UserError(message +
                  (standard ? "" : "; give " + option_ + " a file in a folder that exists and may be written"));
}

void AtomicFile::push(const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t done = ::write(descriptor_, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(errno);
    data += done, size -= std::size_t(done);
  }
}

void AtomicFile::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void AtomicFile::flush() {
  if (gzip_) {
    if (!buffer_.empty() && gzfwrite(buffer_.data(), buffer_.size(), 1, static_cast<gzFile>(gzip_)) != 1) {
      fail(errno ? errno : EIO);
    }
  } else {
    push(buffer_.data(), buffer_.size());
  }
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  if (gzip_) {
    const int status = gzclose(static_cast<gzFile>(gzip_));
    gzip_ = nullptr;
    if (status != Z_OK) fail(errno ? errno : EIO);
  }
  if (direct_) return;
  if (temporary_.empty()) {
    // An unnamed file cannot replace an existing one, so it first gets a temporary name in one step.
    const std::string name = fmt::format("{}.{}.partial", target_, getpid());
    unlink(name.c_str());  // left by a killed process with the same id
    if (linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", descriptor_).c_str(), AT_FDCWD, name.c_str(),
               AT_SYMLINK_FOLLOW) != 0)
      fail(errno);
    temporary_ = name;
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void write_streamed(const std::string& path, const std::function<void(const Pieces&)>& write) {
  AtomicFile file(path);
  write([&](std::string_view piece) { file.write(piece); });
  file.commit();
}

void write_stdout(std::string_view text) { write_file("-", text); }

void emit_report(const CommonOptions& common, std::string_view text) { write_file(common.output, text); }

void emit_report(const CommonOptions& common, const Forms& forms) {
  const auto& form = common.format == Format::json ? forms.json : common.format == Format::csv ? forms.csv : forms.text;
  emit_report(common, form());
}

namespace {

bool use_color(const CommonOptions& common) {
  if (common.color != Color::automatic) return common.color == Color::always;
  const char* refused = std::getenv("NO_COLOR");  // no-color.org: any non-empty value
  const char* terminal = std::getenv("TERM");
  return goes_to_terminal(common) && !(refused && *refused) && !(terminal && std::strcmp(terminal, "dumb") == 0);
}

int report_width(const CommonOptions& common) {
  int columns = 0;
  winsize size{};
  if (goes_to_terminal(common) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (const char* given = std::getenv("COLUMNS"); columns == 0 && given) columns = std::atoi(given);
  return columns >= 20 && columns <= 10000 ? columns : 80;
}

}  // namespace

page::TextStyle text_style(const CommonOptions& common) { return {report_width(common), use_color(common)}; }

}  // namespace rehearsal::cli
