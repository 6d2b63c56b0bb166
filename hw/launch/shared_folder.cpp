#include "launch/shared_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
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

std::string ranks_text(const std::vector<std::size_t>& ranks) {
  return fmt::format("{} {} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? "has" : "have");
}

class SharedFolder : public Bootstrap {
 public:
  SharedFolder(const fs::path& folder, const RankEnvironment& mine, Time patience)
      : Bootstrap(mine.rank, mine.size), folder_(folder / ("rehearse-" + mine.job)), patience_(patience) {
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
  ~SharedFolder() override {
    try {
      write_whole(gone(rank()), "");
      if (rank() != 0) return;
      const Time until = dispatch::now() + kLeave;
      for (std::size_t r = 1; r < size();) {
        if (exists(gone(r)))
          ++r;
        else if (exists(folder_ / kFailed) || dispatch::now() > until)
          return;
        else
          dispatch::sleep_until(dispatch::now() + kSlowestLook);
      }
      if (!exists(folder_ / kFailed)) fs::remove_all(folder_);
    } catch (...) {  // remaining files do no harm
    }
  }

  // Each text is removed by its only reader.
  std::vector<std::string> gather(const std::string& name, std::string_view bytes) override {
    ++calls_;
    if (rank() != 0) return write_whole(text(name, rank()), bytes), std::vector<std::string>{};
    std::vector<std::string> all = {std::string(bytes)};
    for (std::size_t r = 1; r < size(); ++r) {
      all.push_back(read(name, r));
      std::error_code stays;
      fs::remove(text(name, r), stays);
    }
    return all;
  }

  std::string broadcast(const std::string& name, std::string_view bytes) override {
    ++calls_;
    if (rank() != 0) return read(name, 0);
    write_whole(text(name, 0), bytes);
    return std::string(bytes);
  }

  void fail(const std::string& message) noexcept override {
    try {
      const fs::path mine = folder_ / fmt::format("{}.failure", rank());
      write_whole(mine, fmt::format("rank {} failed: {}", rank(), message));
      std::error_code taken;  // set by an earlier failure, which is the one reported
      fs::create_hard_link(mine, folder_ / kFailed, taken);
    } catch (...) {  // the folder is gone, so no rank is left to be told
    }
  }

  void throw_if_failed() override {
    const Time now = dispatch::now();
    if (now - looked_ < kBetweenLooksForFailure) return;
    looked_ = now;
    const auto what = read_whole(folder_ / kFailed);
    if (what && !what->starts_with(fmt::format("rank {} ", rank()))) throw MachineError(*what);
  }

 private:
  fs::path text(const std::string& name, std::size_t rank) const {
    return folder_ / fmt::format("{}.{}.of-{}", calls_, name, rank);
  }

  // Waits for the text of a rank.
  std::string read(const std::string& name, std::size_t from) {
    const Time start = dispatch::now();
    for (Time look = kFirstLook;;
         look = std::min(look * 2, dispatch::now() - start < kEager ? kEagerLook : kSlowestLook)) {
      if (auto bytes = read_whole(text(name, from))) return std::move(*bytes);
      throw_if_failed();
      if (dispatch::now() >= start + patience_) give_up(name, from);
      dispatch::sleep_until(std::min(start + patience_, dispatch::now() + look));
    }
  }

  [[noreturn]] void give_up(const std::string& name, std::size_t from) {
    std::vector<std::size_t> never, owing;
    const std::size_t to = rank() == 0 ? size() : from + 1;  // others read of rank 0 alone
    for (std::size_t r = 0; r < size(); ++r) {
      if (!exists(here(r)))
        never.push_back(r);
      else if (r >= from && r < to && !exists(text(name, r)))
        owing.push_back(r);
    }
    std::string why = fmt::format("waited {} for '{}' of other ranks", show(patience_), name);
    if (!never.empty()) why += fmt::format("; {} never come", ranks_text(never));
    if (!owing.empty()) why += fmt::format("; {} not written it", ranks_text(owing));
    throw MachineError(why);
  }

  static bool exists(const fs::path& file) {
    std::error_code unknown;
    return fs::exists(file, unknown);
  }
  fs::path here(std::size_t rank) const { return folder_ / fmt::format("{}.here", rank); }
  fs::path gone(std::size_t rank) const { return folder_ / fmt::format("{}.gone", rank); }

  const fs::path folder_;
  const Time patience_;
  std::size_t calls_ = 0;  // the same on all ranks
  Time looked_;
};

}  // namespace

std::unique_ptr<Bootstrap> open_shared_folder(const fs::path& folder, const RankEnvironment& mine, Time patience) {
  return std::make_unique<SharedFolder>(folder, mine, patience);
}

}  // namespace rehearsal::launch
