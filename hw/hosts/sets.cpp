#include "hosts/sets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "hosts/commands.hpp"
#include "hosts/namespaces.hpp"
#include "launch/whole_file.hpp"

namespace rehearsal::hosts {
namespace {

namespace fs = std::filesystem;

const fs::path kSetsFolder = "/run/rehearsal-hosts";
constexpr const char* kState = "state.json";
constexpr std::size_t kLongestName = 24;

int open_folder(const fs::path& folder) { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

// Whether an open folder is still the one of that name.
bool is_there(int descriptor) {
  struct stat seen {};
  return fstat(descriptor, &seen) == 0 && seen.st_nlink > 0;
}

bool is_name(const std::string& set) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !set.empty() && set.size() <= kLongestName && set.front() != '-' &&
         std::all_of(set.begin(), set.end(), allowed);
}

// The sets that there is a folder or a namespace of.
std::set<std::string> remains() {
  std::set<std::string> all;
  std::error_code none;
  for (fs::directory_iterator at(kSetsFolder, none), end; !none && at != end; at.increment(none))
    if (is_name(at->path().filename())) all.insert(at->path().filename());
  for (const auto& name : namespaces_with(kNamespaces)) {
    const auto begin = std::strlen(kNamespaces);
    const auto set = name.substr(begin, name.find('.') - begin);
    if (is_name(set)) all.insert(set);
  }
  return all;
}

}  // namespace

FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// What becomes part of a path that is removed as root.
fs::path folder_of(const std::string& set) {
  check_name(set);
  return kSetsFolder / set;
}

void check_name(const std::string& set) {
  if (!is_name(set))
    throw UserError(fmt::format("--name is '{}'; a set of hosts is called by up to {} small letters, digits and '-'",
                                printable(set.substr(0, 2 * kLongestName)), kLongestName));
}

std::optional<Json> state_of(const std::string& set) {
  const auto text = launch::read_whole(folder_of(set) / kState);
  return text ? Json::read(*text) : std::nullopt;
}

std::vector<std::string> sets_up() {
  std::vector<std::string> all;
  for (const auto& name : remains())
    if (state_of(name)) all.push_back(name);
  return all;
}

FolderLock use(const std::string& set) {
  const int folder = open_folder(folder_of(set));
  if (folder >= 0 && flock(folder, LOCK_SH | LOCK_NB) == 0 && is_there(folder)) return FolderLock(folder);
  if (folder >= 0) ::close(folder);
  throw MachineError(fmt::format("the hosts '{}' are being removed", set));
}

Sets::Sets() {
  require_rights();
  for (;;) {
    if (mkdir(kSetsFolder.c_str(), 0755) != 0 && errno != EEXIST)
      throw MachineError(fmt::format("cannot make {}: {}", kSetsFolder.string(), std::strerror(errno)));
    const int folder = open_folder(kSetsFolder);
    if (folder < 0) continue;  // removed again by another process, which had the right before
    while (flock(folder, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (is_there(folder)) {
      all_.emplace(FolderLock(folder));
      break;
    }
    ::close(folder);
  }
  sweep();
}

Sets::~Sets() {
  rmdir(kSetsFolder.c_str());  // fails while there are sets
}

// Those of an `up` that was killed: it held the lock that this process has now.
void Sets::sweep() {
  for (const auto& set : remains())
    if (!state_of(set)) remove_all_of(set);
}

void Sets::remove_all_of(const std::string& set) {
  std::error_code left;
  fs::remove(folder_of(set) / kState,
             left);  // first: what is left of a call that is killed here goes with the next one
  hosts::remove(namespaces_with(namespace_of(set, "")));
  fs::remove_all(folder_of(set), left);
  if (left) throw MachineError(fmt::format("cannot remove {}: {}", folder_of(set).string(), left.message()));
}

bool Sets::remove(const std::string& set) {
  const int folder = open_folder(folder_of(set));
  if (folder < 0) return false;
  const FolderLock lock(folder);
  if (flock(folder, LOCK_EX | LOCK_NB) != 0)
    throw MachineError(fmt::format("the hosts '{}' are in use: a 'rehearse hosts run' has not ended", set));
  remove_all_of(set);
  return true;
}

void Sets::begin(const std::string& set) {
  remove(set);
  if (mkdir(folder_of(set).c_str(), 0755) != 0)
    throw MachineError(fmt::format("cannot make {}: {}", folder_of(set).string(), std::strerror(errno)));
}

void Sets::put(const std::string& set, const std::string& file, const std::string& text) {
  launch::write_whole(folder_of(set) / file, text);
}

}  // namespace rehearsal::hosts
