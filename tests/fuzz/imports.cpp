// Any bytes as a file of another tool give a scenario or a UserError, whatever format they are said to be. The first
// line is the name of a format, or any other text for one that is known by its content; behind "FORMAT --" lines are
// arguments of a command line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "interchange/format.hpp"
#include "interchange/import.hpp"
#include "scenario/scenario.hpp"

namespace {

using namespace rehearsal;

constexpr const char* kName = "input";

// The bytes as one file, and those of the house.
class WithInput : public scenario::Files {
 public:
  explicit WithInput(std::string_view text) : text_(text) {}
  std::string read(const std::string& path, std::size_t limit) const override {
    return path == kName ? std::string(text_) : scenario::disk().read(path, limit);
  }
  bool exists(const std::string& path) const override { return path == kName || scenario::disk().exists(path); }
  std::vector<std::string> names_in(const std::string& folder) const override {
    return scenario::disk().names_in(folder);
  }
  std::string home() const override { return scenario::disk().home(); }
  std::string profiles() const override { return ""; }

 private:
  std::string_view text_;
};

interchange::Asked asked_for(std::string_view first, std::string_view rest) {
  constexpr std::string_view kArguments = " --";
  interchange::Asked asked;
  const bool words = first.ends_with(kArguments);
  if (words) first.remove_suffix(kArguments.size());
  for (const auto& [name, format] : interchange::registry())
    if (name == first && format.read) asked.as = name;
  if (!words) {
    asked.files = {kName};
    return asked;
  }
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    asked.arguments.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return asked;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto line = std::min(all.find('\n'), all.size());
  const auto rest = all.substr(std::min(line + 1, all.size()));
  try {
    const auto imported = interchange::import(asked_for(all.substr(0, line), rest), WithInput(rest));
    if (imported.yaml.empty() || imported.formats.size() != 1) std::abort();
  } catch (const UserError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  return 0;
}
