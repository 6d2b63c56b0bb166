#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "page/layout.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::size_t kBuffer = 1 << 18;
constexpr std::string_view kMemory = "memory:";

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// Returns 0, or the system's error.
int write_whole(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    text.remove_prefix(std::size_t(done));
  }
  return 0;
}

// The error of writing `what`, a name as the user gave it; `remedy` may be empty.
[[noreturn]] void cannot_write(int error, const std::string& what, const std::string& remedy) {
  if (error == EPIPE) throw ClosedPipe();
  const std::string message = fmt::format("cannot write {}: {}", what, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG) throw MachineError(message);
  throw UserError(message + remedy);
}

}  // namespace

AtomicFile::AtomicFile(Session& session, std::string path, std::string option)
    : session_(session), path_(std::move(path)), target_(path_), option_(std::move(option)) {
  struct stat found {};
  if (path_.empty() || path_ == "-") {
    standard_ = true;
    return;
  }
  if (path_.starts_with(kMemory)) memory_ = session_.memory_file(path_.substr(kMemory.size()));
  if (memory_) {
    if (path_.ends_with(".gz"))
      throw UserError(fmt::format("{} '{}': a file in memory is not compressed; leave out .gz", option_, path_));
    memory_->clear();
    return;
  }
  if (stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
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
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::check(Session& session, const std::string& path, const std::string& option) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return;
  AtomicFile probe(session, path, option);  // discarded again
}

void AtomicFile::fail(int error) const {
  cannot_write(error, "'" + path_ + "'", "; give " + option_ + " a file in a folder that exists and may be written");
}

void AtomicFile::push(std::string_view text) {
  if (const int error = write_whole(descriptor_, text)) fail(error);
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
  } else if (standard_) {
    session_.write(Stream::out, buffer_);
  } else if (memory_) {
    *memory_ += buffer_;
  } else {
    push(buffer_);
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
  if (direct_ || standard_ || memory_) return;
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

void write_file(const CommonOptions& common, const std::string& path, std::string_view text) {
  AtomicFile file(common.session, path);
  file.write(text);
  file.commit();
}

void write_streamed(const CommonOptions& common, const std::string& path,
                    const std::function<void(const Pieces&)>& write) {
  AtomicFile file(common.session, path);
  write([&](std::string_view piece) { file.write(piece); });
  file.commit();
}

void write_stdout(const CommonOptions& common, std::string_view text) { common.session.write(Stream::out, text); }

void write_descriptor(int descriptor, std::string_view text, const std::string& what) {
  if (const int error = write_whole(descriptor, text)) cannot_write(error, what, "");
}

void warn(const CommonOptions& common, const std::vector<std::string>& warnings) {
  if (common.quiet) return;
  const int terminal = common.session.columns(Stream::err);
  for (const auto& warning : warnings) {
    const auto line = "rehearse: warning: " + warning + "\n";
    common.session.write(Stream::err, terminal ? page::fit(line, terminal) : line);
  }
}

void emit_report(const CommonOptions& common, std::string_view text) { write_file(common, common.output, text); }

void emit_report(const CommonOptions& common, const Forms& forms) {
  const auto& form = common.format == Format::json ? forms.json : common.format == Format::csv ? forms.csv : forms.text;
  emit_report(common, form());
}

namespace {

bool use_color(const CommonOptions& common) {
  if (common.color != Color::automatic) return common.color == Color::always;
  const char* refused = std::getenv("NO_COLOR");  // no-color.org: any non-empty value
  const char* terminal = std::getenv("TERM");
  return common.session.columns(Stream::out) > 0 && common.output.empty() && !(refused && *refused) &&
         !(terminal && std::strcmp(terminal, "dumb") == 0);
}

int report_width(const CommonOptions& common) {
  int columns = common.output.empty() ? common.session.columns(Stream::out) : 0;
  if (const char* given = std::getenv("COLUMNS"); columns == 0 && given) columns = std::atoi(given);
  return columns >= 20 && columns <= 10000 ? columns : 80;
}

}  // namespace

page::TextStyle text_style(const CommonOptions& common) { return {report_width(common), use_color(common)}; }

}  // namespace rehearsal::cli
