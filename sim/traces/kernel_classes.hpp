// What names in traces mean, by the rules of configs/kernel_classes.yaml, of which the first that fits decides: the
// class of a kernel, and the pass that a range of the host is.
#pragma once
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/files.hpp"
#include "scenario/reader.hpp"
#include "traces/kind.hpp"
#include "traces/passes.hpp"

namespace rehearsal::traces {

class KernelClasses {
 public:
  static constexpr std::uint32_t kUnknown = 0;  // fits no rule

  // Throws UserError for a file with mistakes.
  explicit KernelClasses(const scenario::Files& files = scenario::disk());

  std::uint32_t of(std::string_view kernel) const;  // index of a class
  const std::string& name(std::uint32_t number) const { return classes_[number].name; }
  Kind kind(std::uint32_t number) const { return classes_[number].kind; }
  std::size_t size() const { return classes_.size(); }

  // What a range says (record_function, NVTX); nothing: no rule knows it, or it is of several passes.
  std::optional<Label> range(std::string_view name) const;

 private:
  struct Pattern {
    std::vector<std::string> has;
    std::optional<std::regex> like;
    bool fits(const std::string& lower, std::smatch& parts) const;
  };
  static Pattern read_pattern(scenario::Diagnostics& problems, scenario::MapReader& map);
  struct Class {
    std::string name;
    Kind kind;
  };
  struct Rule {
    std::uint32_t number = 0;  // of its class
    Pattern pattern;
  };
  struct RangeRule {
    Pass pass = Pass::unknown;
    std::size_t microbatch = 0;  // the group of `like` that is its number; 0: none
    Pattern pattern;
  };
  void read_classes(scenario::Diagnostics& problems, const scenario::Node& list);
  void read_ranges(scenario::Diagnostics& problems, const scenario::Node& list);
  std::vector<Class> classes_{{"unknown", Kind::other}};
  std::vector<Rule> rules_;
  std::vector<RangeRule> ranges_;
};

}  // namespace rehearsal::traces
