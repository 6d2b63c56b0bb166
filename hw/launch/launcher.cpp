#include "launch/launcher.hpp"

#include <cstdlib>

#include "launch/rank_environment.hpp"

extern char** environ;

namespace rehearsal::launch {
namespace {

constexpr std::size_t kShownOfStderr = 2000;

}  // namespace

ChildEnvironment::ChildEnvironment(const Start& start) {
  for (char** entry = environ; *entry != nullptr; ++entry) entries_.emplace_back(*entry);
  set(kFolderVariable, start.folder.path());
  set(kRanksVariable, std::to_string(start.ranks));
  suggest("OPENBLAS_NUM_THREADS", "1");
}

void ChildEnvironment::set(const std::string& name, const std::string& value) {
  std::erase_if(entries_, [&](const std::string& e) { return e.starts_with(name + "="); });
  entries_.push_back(name + "=" + value);
}

void ChildEnvironment::suggest(const std::string& name, const std::string& value) {
  if (std::getenv(name.c_str()) == nullptr) set(name, value);
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string quoted(const std::string& said) {
  if (said.empty()) return "";
  return "; it said:\n" + (said.size() > kShownOfStderr ? "..." + said.substr(said.size() - kShownOfStderr) : said);
}

}  // namespace rehearsal::launch
