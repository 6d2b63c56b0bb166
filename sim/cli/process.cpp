#include "cli/process.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "cli/output.hpp"

namespace rehearsal::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// A second Ctrl-C ends the program.
void handle_interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

class Process : public Session {
 public:
  Process() {
    // A closed pipe (`| head`) is reported as EPIPE by write, so that open files are cleaned up.
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then reported by write too, like a full disk
  }

  const scenario::Files& files() const override { return scenario::disk(); }
  std::string* memory_file(const std::string&) override { return nullptr; }

  void write(Stream to, std::string_view text) override {
    const std::scoped_lock lock(writing_);
    if (std::exchange(has_line_, false)) replace_line("");
    write_descriptor(to == Stream::out ? STDOUT_FILENO : STDERR_FILENO, text,
                     to == Stream::out ? "standard output" : "standard error");
  }

  int columns(Stream of) const override {
    winsize size{};
    const int descriptor = of == Stream::out ? STDOUT_FILENO : STDERR_FILENO;
    if (isatty(descriptor) != 1) return 0;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    const char* given = std::getenv("COLUMNS");
    const int columns = given ? std::atoi(given) : 0;
    return columns > 0 ? columns : 80;
  }
  bool watched() const override { return isatty(STDERR_FILENO) == 1; }
  void progress(std::string_view line) override {
    const std::scoped_lock lock(writing_);
    has_line_ = !line.empty();
    replace_line(line);
  }

  void may_stop(bool may) override {
    if (may)
      interrupted = 0, before_ = std::signal(SIGINT, handle_interrupt);
    else
      std::signal(SIGINT, before_);
  }
  bool stop() const override { return interrupted != 0; }

 private:
  static void replace_line(std::string_view line) {
    const auto text = fmt::format("\r\033[K{}", line);
    (void)!::write(STDERR_FILENO, text.data(), text.size());  // a decoration: nobody misses it
  }

  std::mutex writing_;
  bool has_line_ = false;  // which a message takes the place of
  void (*before_)(int) = SIG_DFL;
};

}  // namespace

std::unique_ptr<Session> process_session() { return std::make_unique<Process>(); }

}  // namespace rehearsal::cli
