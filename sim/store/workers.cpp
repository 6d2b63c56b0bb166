#include "store/workers.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>

namespace rehearsal::store {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 128> text{};
  const auto size = readlink(path, text.data(), text.size());
  return size > 0 ? std::string(text.data(), std::size_t(size)) : "";
}

std::string this_host() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  return std::string(name.data()) + " " + first_line("/proc/sys/kernel/random/boot_id") + " " +
         link_target("/proc/self/ns/pid");
}

// State and start time of a process on this host; nothing if it does not exist. proc(5): the name, field 2, is in
// parentheses and may contain anything; the state is field 3, the start time field 22.
struct Found {
  char state = '?';
  std::int64_t born = 0;
};
std::optional<Found> find(std::int64_t process) {
  const auto line = first_line("/proc/" + std::to_string(process) + "/stat");
  const auto end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end + 1));
  Found found;
  rest >> found.state;
  std::string skipped;
  for (int field = 4; field < 22; field++) rest >> skipped;
  rest >> found.born;
  return rest ? std::optional(found) : std::nullopt;
}

}  // namespace

Worker this_worker() {
  const auto self = find(getpid());
  return {this_host(), getpid(), self ? self->born : 0};
}

bool is_gone(const Worker& worker) {
  if (worker.host != this_host()) return false;
  const auto found = find(worker.process);
  // a killed process stays visible until its parent waits for it, but no longer works
  return !found || found->born != worker.born || found->state == 'Z' || found->state == 'X';
}

}  // namespace rehearsal::store
