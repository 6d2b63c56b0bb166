#include "store/claims.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLog = ".log";

// Closed at once: a network file system then sends it to its server, where others find it.
bool written(const fs::path& file, int flags, const std::string& text) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (opened < 0) return false;
  const bool whole = ::write(opened, text.data(), text.size()) == ssize_t(text.size());
  const int why = errno;
  const bool sent = ::close(opened) == 0;
  if (!whole) errno = why;
  return whole && sent;
}

}  // namespace

bool is_folder(const std::string& store) {
  std::error_code unknown;
  return store.ends_with('/') || fs::is_directory(store, unknown);
}

void check_name(const std::string& store) {
  std::error_code unknown;
  const auto kind = fs::status(store, unknown).type();
  const char* is = store.find_first_not_of('/') == std::string::npos ? "the folder of all others"
                   : kind == fs::file_type::none || kind == fs::file_type::not_found ||
                           kind == fs::file_type::regular || kind == fs::file_type::directory
                       ? nullptr
                       : "a device or a pipe";
  if (is)
    throw UserError(
        fmt::format("--store '{}' is {}; give --store the name of a file, or of a folder of its own", store, is));
}

Claims::Claims(const std::string& store, std::string sweep, std::chrono::milliseconds lease)
    : store_(store),
      sweep_(std::move(sweep)),
      folder_(is_folder(store) ? fs::path(store) / "claims" : fs::path(store + "-claims")),
      lease_(lease) {
  enlist();
  look();
  done_.clear(),
      news_.clear();  // finished before this process began: it reads such rows, and looks whether they are right
}

void Claims::enlist() {
  const auto self = this_worker();
  const auto host = self.host.substr(0, self.host.find(' '));
  const auto line = fmt::format("worker {} {} {}\n", self.process, self.born, self.host);
  name_ = fmt::format("{}-{}-{}", host, self.process, self.born);
  const auto fail = [&](const fs::path& what) {
    const int why = errno;
    std::error_code unknown;
    const bool special = why == ENOENT && fs::is_directory(what.parent_path(), unknown);  // as /proc is
    throw UserError(
        fmt::format("cannot write the store '{}': {}; give --store a name in a folder that exists and may be written",
                    store_, special ? "its folder takes no files" : std::strerror(why)));
  };
  const auto make = [&](const fs::path& folder) {
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail(folder);
  };
  // Two containers, or two threads, may have one name; and the last process may remove the folder in between.
  for (int twin = 2;;) {
    if (is_folder(store_)) make(store_);
    make(folder_);
    if (written(folder_ / (name_ + kLog), O_CREAT | O_EXCL, line)) return;
    if (errno == EEXIST)
      name_ = fmt::format("{}-{}-{}-{}", host, self.process, self.born, twin++);
    else if (errno != ENOENT)
      fail(folder_);
  }
}

void Claims::append(const std::string& line) {
  if (!written(folder_ / (name_ + kLog), O_APPEND, line + "\n"))
    throw MachineError(
        fmt::format("cannot write '{}': {}; what was there is still there: make room and run the same command again",
                    (folder_ / (name_ + kLog)).string(), std::strerror(errno)));
}

void Claims::look() {
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder_, gone))
    if (entry.path().extension() == kLog && entry.path().stem() != name_) read(entry.path().stem().string());
}

// Opens the log anew: a network file system then asks its server what is in it.
void Claims::read(const std::string& name) {
  auto& other = others_[name];
  std::ifstream in(folder_ / (name + kLog), std::ios::binary);
  in.seekg(other.read);
  std::string line;
  while (std::getline(in, line) && !in.eof()) {  // at the end of the file a line is still being written
    other.read += std::streamoff(line.size()) + 1;
    other.grown = Clock::now();
    std::istringstream words(line);
    std::string kind, sweep;
    words >> kind;
    if (kind == "worker") {
      auto& worker = other.worker.emplace();
      words >> worker.process >> worker.born >> std::ws;
      std::getline(words, worker.host);
    } else if (kind == "done") {
      std::size_t batch = 0;
      if (words >> sweep >> batch && sweep == sweep_ && done_.insert(batch).second) news_.push_back(batch);
    } else if (kind == "end") {
      other.ended = true;
    }
  }
}

// One that has no log, or none with its first line, is somebody who was just about to write it.
bool Claims::works(const std::string& name) {
  const auto& other = others_[name];
  if (other.ended || (other.worker && is_gone(*other.worker))) return false;
  return Clock::now() - other.grown <= lease_;
}

std::optional<std::string> Claims::hold(const std::string& claim) {
  for (;;) {
    if (written(folder_ / claim, O_CREAT | O_EXCL, name_ + "\n")) {
      held_.insert(claim);
      return std::nullopt;
    }
    if (errno != EEXIST)
      throw MachineError(fmt::format("cannot write '{}': {}", (folder_ / claim).string(), std::strerror(errno)));
    std::ifstream in(folder_ / claim);
    std::string owner;
    std::getline(in, owner);
    if (in.is_open()) return owner.empty() ? "owner of " + claim : owner;
  }
}

Claims::State Claims::take(std::size_t batch) {
  const std::scoped_lock lock(mutex_);
  const auto claim = fmt::format("{}-{}", sweep_, batch);
  for (State ours = State::ours; !done_.contains(batch); ours = State::inherited) {
    const auto owner = hold(claim);
    look();  // after the claim: its last owner has said so before giving it up
    if (done_.contains(batch)) {
      if (!owner) ::unlink((folder_ / claim).c_str()), held_.erase(claim);
      break;
    }
    if (!owner) return ours;
    if (works(*owner)) return State::taken;
    ::unlink((folder_ / claim).c_str());
  }
  return State::done;
}

void Claims::take_all(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  while (const auto owner = hold("store")) {
    look();
    if (works(*owner))
      throw UserError(fmt::format("{}; {} writes it now (if that is gone: rm -r '{}')", why, *owner, folder_.string()));
    ::unlink((folder_ / "store").c_str());
  }
}

void Claims::finish(std::size_t batch) {
  const std::scoped_lock lock(mutex_);
  append(fmt::format("done {} {}", sweep_, batch));
  const auto claim = fmt::format("{}-{}", sweep_, batch);
  ::unlink((folder_ / claim).c_str());
  held_.erase(claim);
}

void Claims::beat() {
  const std::scoped_lock lock(mutex_);
  append("beat");
}

std::vector<std::size_t> Claims::news() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(news_, {});
}

Claims::~Claims() {
  try {
    for (const auto& claim : held_) ::unlink((folder_ / claim).c_str());
    append("end");
    remove_remains();
  } catch (const std::exception&) {  // then others see that this process has ended
  }
}

// Logs tell who has done what as long as anybody works; the last one finds that nobody does.
void Claims::remove_remains() {
  look();
  std::set<std::string> ended{name_};
  for (const auto& [name, other] : others_) {
    if (!other.worker) continue;  // has not said who it is: just beginning, or seen in a claim alone
    if (works(name)) return;
    ended.insert(name);
  }
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder_, gone)) {
    std::string owner = entry.path().stem().string();
    if (entry.path().extension() != kLog) {
      std::ifstream in(entry.path());
      std::getline(in, owner);
    }
    if (ended.contains(owner)) ::unlink(entry.path().c_str());
  }
  ::rmdir(folder_.c_str());
}

}  // namespace rehearsal::store
