#include "cli/progress.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <system_error>

#include "base/error.hpp"
#include "page/layout.hpp"

namespace rehearsal::cli {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFirst = 1s;  // what is quicker shows nothing
constexpr double kNotes = .2;                     // seconds from one note to the next

std::chrono::milliseconds between(Watching how) {
  if (how == Watching::plain) return 10s;
  return how == Watching::json ? 1s : 250ms;
}

// Who is shown what: automatic is never where nobody looks.
Watching shown_how(const CommonOptions& common, bool shown) {
  const bool watched = common.progress != Watching::automatic || common.session.watched();
  return shown && watched && !common.quiet ? common.progress : Watching::never;
}

// Who begins in its lifetime takes no signals: Ctrl-C is for those who wait for it.
class NoSignals {
#ifndef __EMSCRIPTEN__  // a page in a browser has neither threads nor signals
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
#endif
};

// The text in at most `columns`, its end replaced by dots where it is longer: a terminal would break it, and each
// update would leave a line behind. Characters of three bytes and more may be two columns wide; punctuation is not.
std::string cut(const std::string& text, std::size_t columns) {
  constexpr std::string_view kDots = "...";
  std::size_t used = 0, fits = 0;  // columns; bytes that leave room for the dots
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t bytes = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    used += first == 0xe1 || first > 0xe2 ? 2 : 1;
    i += bytes;
    if (used + kDots.size() <= columns) fits = i;
    if (used > columns) return text.substr(0, fits) + std::string(kDots.substr(0, columns));
  }
  return text;
}

}  // namespace

std::optional<double> Standing::share() const {
  return total > 0 ? std::optional(double(done) / double(total)) : std::nullopt;
}

void RecentRate::look(double now, std::uint64_t done) {
  if (done <= seen_.back().done) return;
  seen_.push_back({now, done});
  while (seen_.size() > 2 && seen_[1].at <= now - kWindow) seen_.pop_front();
}

std::optional<double> RecentRate::left(double now, std::uint64_t total) const {
  const auto& [since, before] = seen_.front();
  const auto done = seen_.back().done;
  if (done == before || done >= total) return done >= total ? std::optional(0.) : std::nullopt;
  return double(total - done) * (now - since) / double(done - before);
}

std::string progress_text(const Standing& s, int columns) {
  std::string text = s.parts > 1 ? fmt::format("part {} of {}: ", s.part, s.parts) : "";
  if (s.total > 0)
    text +=
        fmt::format("{} of {} {}, {:.0f} %", page::grouped(s.done), page::grouped(s.total), s.what, 100 * *s.share());
  else
    text += s.what;
  text += s.left ? fmt::format(", {} left", roughly(*s.left)) : fmt::format(", {} so far", roughly(s.elapsed));
  if (!s.note.empty()) text += "; " + s.note;
  text = printable(text);
  return columns > 0 ? cut(text, std::size_t(columns)) : text;
}

std::string progress_json(const Standing& s, const std::string& command) {
  const auto milliseconds = [](double seconds) { return std::round(seconds * 1e3) / 1e3; };
  const auto known = [&](const auto& value) { return s.total > 0 ? Json(value) : Json(); };
  return Json{{"command", command},
              {"part", s.part},
              {"parts", s.parts > 0 ? Json(s.parts) : Json()},
              {"what", s.what},
              {"done", known(s.done)},
              {"total", known(s.total)},
              {"share", s.share()},
              {"elapsed_s", milliseconds(s.elapsed)},
              {"left_s", s.left ? Json(milliseconds(*s.left)) : Json()},
              {"note", s.note},
              {"figures", s.figures},
              {"ended", s.ended}}
      .dump();
}

Progress::Progress(const CommonOptions& common, std::size_t parts, bool shown)
    : common_(common), how_(shown_how(common, shown)) {
  at_.parts = parts;
  if (how_ == Watching::never) return;
  [[maybe_unused]] const NoSignals none;
  try {
    follower_ = std::thread([this] { follow(); });
  } catch (const std::system_error&) {  // the work is done all the same
  }
}

Progress::~Progress() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  if (follower_.joinable()) follower_.join();
  if (!said_) return;
  if (how_ == Watching::automatic)
    common_.session.progress("");
  else if (!concluded_ && std::uncaught_exceptions() == 0)
    at_.ended = true, show_or_not();
}

void Progress::begin(std::string what, std::uint64_t total, std::optional<double> expected) {
  std::unique_lock lock(mutex_);
  part_began_ = now(), pace_ = RecentRate(part_began_), expected_ = expected;
  at_.part = ++begun_;
  at_.what = std::move(what), at_.done = 0, at_.total = total;
  const bool first = how_ == Watching::json && begun_ == 1;  // a program hears of work of any length
  lock.unlock();
  if (first) show_or_not();
}

void Progress::done(std::uint64_t done, std::uint64_t total) {
  const std::scoped_lock lock(mutex_);
  at_.done = done;
  if (total > 0) at_.total = total;
}

void Progress::note(std::string text, Json figures) {
  const std::scoped_lock lock(mutex_);
  at_.note = std::move(text), at_.figures = std::move(figures);
}

void Progress::conclude(const std::string& line) {
  if (how_ != Watching::automatic && how_ != Watching::plain) return;
  common_.session.write(Stream::err, line + "\n");
  const std::scoped_lock lock(mutex_);
  concluded_ = true;
}

bool Progress::due() {
  if (how_ == Watching::never) return false;
  const std::scoped_lock lock(mutex_);
  const bool due = now() >= next_note_;
  if (due) next_note_ = now() + kNotes;
  return due;
}

void Progress::follow() {
  std::unique_lock lock(mutex_);
  for (auto wait = kFirst; !wake_.wait_for(lock, wait, [&] { return ended_; });) {
    lock.unlock();
    if (!show_or_not()) return;
    lock.lock();
    wait = between(how_);
  }
}

// False: standard error is closed, and nobody looks any more.
bool Progress::show_or_not() {
  try {
    show();
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void Progress::show() {
  std::unique_lock lock(mutex_);
  at_.elapsed = now();
  pace_.look(at_.elapsed, at_.done);
  at_.left.reset();
  if (at_.total > 0) at_.left = pace_.left(at_.elapsed, at_.total);
  if (const double in = at_.elapsed - part_began_; !at_.left && expected_ && in < *expected_)
    at_.left = *expected_ - in;
  const auto standing = at_;
  said_ = true;
  lock.unlock();
  const auto& command = common_.command;
  if (how_ == Watching::json)
    common_.session.write(Stream::err, progress_json(standing, command) + "\n");
  else if (how_ == Watching::plain)
    common_.session.write(Stream::err, fmt::format("rehearse {}: {}\n", command, progress_text(standing)));
  else  // the last column stays free: some terminals break behind it
    common_.session.progress(progress_text(standing, std::max(0, common_.session.columns(Stream::err) - 1)));
}

std::string roughly(double seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace rehearsal::cli
