#include "launch/folder_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "launch/whole_file.hpp"

namespace rehearsal::launch {
namespace {

namespace fs = std::filesystem;

// Polling is fast at first, for ranks that agree on a common start, and slow in a long wait.
const Time kFirstLook = seconds(0.2e-3), kEagerLook = seconds(1e-3), kSlowestLook = seconds(20e-3);
const Time kEager = seconds(10);
// Checking for a failure accesses the file system, which may be remote.
const Time kBetweenLooksForFailure = seconds(50e-3);
const Time kLeave = seconds(5);
constexpr const char* kFailed = "first.failure";

// Key to file name: all characters but letters, digits, '-' and '_' become %XX, so different keys have different names.
std::string file_name(const std::string& key) {
  std::string name;
  for (const char c : key) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    name += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return name;
}

class FolderStore : public Store {
 public:
  FolderStore(const StoreAddress& address, const RankEnvironment& mine, Time patience)
      : Store(mine.rank, mine.size, patience), folder_(address.folder / ("rehearse-" + file_name(address.job))) {
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) throw MachineError(fmt::format("cannot make the folder {}: {}", folder_.string(), failed.message()));
    const fs::path mark = here(rank());
    const int file = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) {
      const std::string why = fmt::format(
          "rank {} has been in {} already: another job uses or has left this folder; remove it or name a new one",
          rank(), folder_.string());
      fail(why);
      throw MachineError(why);
    }
    if (file < 0) throw MachineError(fmt::format("cannot write {}: {}", mark.string(), std::strerror(errno)));
    ::close(file);
  }

  // Rank 0 leaves last and removes the folder, unless something failed: then its files help to find the cause.
  ~FolderStore() override {
    try {
      write_whole(gone(rank()), "");
      if (rank() != 0) return;
      const Time until = dispatch::now() + kLeave;
      for (std::size_t r = 1; r < size();) {
        if (exists(gone(r)))
          ++r;
        else if (failed() || gave_up_ || dispatch::now() > until)
          return;
        else
          dispatch::sleep_until(dispatch::now() + kSlowestLook);
      }
      if (failed() || gave_up_) return;
      fs::remove_all(folder_);
    } catch (...) {  // remaining files do no harm
    }
  }

  void fail(const std::string& message) noexcept override {
    gave_up_ = true;
    try {
      const fs::path mine = folder_ / fmt::format("{}.failure", rank());
      write_whole(mine, fmt::format("{} {}", rank(), message));
      std::error_code taken;  // set by an earlier failure, which is the one reported
      fs::create_hard_link(mine, folder_ / kFailed, taken);
    } catch (...) {  // the folder is gone, so no rank is left to be told
    }
  }

  std::optional<Failure> failed() override {
    const Time now = dispatch::now();
    if (failure_ || now - looked_ < kBetweenLooksForFailure) return failure_;
    looked_ = now;
    if (const auto text = read_whole(folder_ / kFailed)) {
      const auto space = text->find(' ');
      const std::size_t who = std::strtoul(text->c_str(), nullptr, 10);
      if (who != rank() && space != text->npos) failure_ = Failure{who, text->substr(space + 1)};
    }
    return failure_;
  }

 protected:
  void put(const std::string& key, std::string piece) override { write_whole(folder_ / file_name(key), piece); }

  std::optional<std::string> fetch(const std::string& key, Time patience, bool forget) override {
    const fs::path file = folder_ / file_name(key);
    const Time from = dispatch::now(), until = from + patience;
    for (Time look = kFirstLook;;
         look = std::min(look * 2, dispatch::now() - from < kEager ? kEagerLook : kSlowestLook)) {
      if (auto bytes = read_whole(file)) {
        std::error_code stays;
        if (forget) fs::remove(file, stays);
        return bytes;
      }
      throw_if_failed();
      if (dispatch::now() >= until) return std::nullopt;
      dispatch::sleep_until(std::min(until, dispatch::now() + look));
    }
  }

  std::vector<std::size_t> absent() override {
    std::vector<std::size_t> list;
    for (std::size_t r = 0; r < size(); ++r)
      if (!exists(here(r))) list.push_back(r);
    return list;
  }

 private:
  static bool exists(const fs::path& file) {
    std::error_code unknown;
    return fs::exists(file, unknown);
  }
  // File names of keys contain no dot, so these cannot collide with them.
  fs::path here(std::size_t rank) const { return folder_ / fmt::format("{}.here", rank); }
  fs::path gone(std::size_t rank) const { return folder_ / fmt::format("{}.gone", rank); }

  const fs::path folder_;
  std::optional<Failure> failure_;
  Time looked_;
  bool gave_up_ = false;
};

}  // namespace

std::unique_ptr<Store> open_folder_store(const StoreAddress& address, const RankEnvironment& mine, Time patience) {
  return std::make_unique<FolderStore>(address, mine, patience);
}

}  // namespace rehearsal::launch
