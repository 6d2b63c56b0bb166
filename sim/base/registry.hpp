// A named shelf of plug-ins, kept in alphabetical order. An unknown name is a user error that names the nearest one.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/spelling.hpp"

namespace rehearsal {

template <class Plugin>  // Plugin has `std::string name` and `std::string summary` (one honest sentence)
class PluginRegistry {
 public:
  explicit PluginRegistry(std::string kind) : kind_(std::move(kind)) {}

  void add(Plugin plugin) {
    std::string name(plugin.name);
    INVARIANT(plugins_.emplace(name, std::move(plugin)).second, "two " + kind_ + " named " + name);
  }

  const Plugin* find(std::string_view name) const {
    auto it = plugins_.find(name);
    return it == plugins_.end() ? nullptr : &it->second;
  }

  const Plugin& at(std::string_view name) const {
    if (const auto* plugin = find(name)) return *plugin;
    throw UserError("unknown " + kind_ + " '" + std::string(name) + "'" + suggestion(name, names()));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, plugin] : plugins_) all.push_back(name);
    return all;
  }

  auto begin() const { return plugins_.begin(); }
  auto end() const { return plugins_.end(); }

 private:
  std::string kind_;
  std::map<std::string, Plugin, std::less<>> plugins_;
};

}  // namespace rehearsal
