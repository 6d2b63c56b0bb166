// The class of a kernel by its name: rules of configs/kernel_classes.yaml, of which the first that fits decides.
#pragma once
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/files.hpp"
#include "traces/kind.hpp"

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

 private:
  struct Class {
    std::string name;
    Kind kind;
  };
  struct Rule {
    std::uint32_t number = 0;  // of its class
    std::vector<std::string> has;
    std::optional<std::regex> like;
  };
  std::vector<Class> classes_{{"unknown", Kind::other}};
  std::vector<Rule> rules_;
};

}  // namespace rehearsal::traces
