// What one call of the program reads and writes, and who may stop it: the command line's own process (process.hpp), or
// memory, for a library and a page in a browser (sim/library).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/stopping.hpp"
#include "scenario/files.hpp"

namespace rehearsal::answer {
struct Result;
}

namespace rehearsal::cli {

enum class Stream : std::uint8_t { out, err };

class Session {
 public:
  virtual ~Session() = default;

  // Where scenarios are read from.
  virtual const scenario::Files& files() const = 0;

  // Throws ClosedPipe, MachineError or UserError, as AtomicFile does.
  virtual void write(Stream to, std::string_view text) = 0;
  // Where a file named memory:NAME goes; null: such a name is that of a file on the disk.
  virtual std::string* memory_file(const std::string& name) = 0;

  // Columns of the terminal that shows the stream; 0: none shows it.
  virtual int columns(Stream) const { return 0; }
  // The line that says how far the work is, in place of the one before; empty: none. Nobody looks if it is not watched.
  virtual bool watched() const { return false; }
  virtual void progress(std::string_view) {}

  // Between these, stop() may become true; before and after, Ctrl-C ends a process as usual.
  virtual void may_stop(bool) {}
  virtual bool stop() const { return false; }
  // Throws Stopped if stop(): the program ends with status 130, as after Ctrl-C.
  void go_on() const {
    if (stop()) throw Stopped();
  }

  // What was predicted, for those who ask for more than the report: columns of its timeline.
  virtual void keep(std::span<const answer::Result>) {}
};

// During its lifetime, the session may be stopped.
class MayStop {
 public:
  explicit MayStop(Session& session) : session_(session) { session.may_stop(true); }
  ~MayStop() { session_.may_stop(false); }
  MayStop(const MayStop&) = delete;
  MayStop& operator=(const MayStop&) = delete;

 private:
  Session& session_;
};

}  // namespace rehearsal::cli
