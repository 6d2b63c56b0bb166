#include "scenario/renamed.hpp"

#include <algorithm>
#include <array>

namespace rehearsal::scenario {
namespace {

struct RenamedKey {
  std::string_view above, first, today;
};
constexpr std::array kKeys{RenamedKey{"", "software", "framework"},
                           RenamedKey{"", "own_kernels", "native_kernels"},
                           RenamedKey{"framework", "own_kernels", "native_kernels"},
                           RenamedKey{"plan", "software", "framework"},
                           RenamedKey{"gpu", "software", "framework"},
                           RenamedKey{"links", "nvlink", "scale_up"},
                           RenamedKey{"links", "nic", "scale_out"},
                           RenamedKey{"scale_up", "message", "p2p_bandwidth"},
                           RenamedKey{"scale_up", "gather", "sharded_p2p_gather_bandwidth"},
                           RenamedKey{"simulate", "network", "contention"}};
struct RenamedValue {
  std::string_view key, first, today;
};
constexpr std::array kValues{
    RenamedValue{"framework", "rehearsal", "native"}, RenamedValue{"contention", "closed-form", "off"},
    RenamedValue{"contention", "fluid", "on"}, RenamedValue{"kind", "software", "framework"}};  // of training.buffers

}  // namespace

std::string_view key_of_today(std::string_view above, std::string_view key) {
  const auto found =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const RenamedKey& k) { return k.first == key && k.above == above; });
  return found == kKeys.end() ? key : found->today;
}

std::string path_of_today(std::string_view path) {
  std::string today, above;
  for (std::size_t from = 0; from <= path.size();) {
    const auto dot = std::min(path.find('.', from), path.size());
    above = key_of_today(above, path.substr(from, dot - from));
    today += (from > 0 ? "." : "") + above;
    from = dot + 1;
  }
  return today;
}

std::string_view value_of_today(std::string_view key, std::string_view value) {
  const auto found = std::find_if(kValues.begin(), kValues.end(),
                                  [&](const RenamedValue& v) { return v.first == value && v.key == key; });
  return found == kValues.end() ? value : found->today;
}

std::string first_key(std::string_view key) {
  std::string first, above;
  for (std::size_t from = 0; from <= key.size();) {
    const auto dot = std::min(key.find('.', from), key.size());
    const auto part = key.substr(from, dot - from);
    const auto found = std::find_if(kKeys.begin(), kKeys.end(),
                                    [&](const RenamedKey& k) { return k.today == part && k.above == above; });
    first += (first.empty() ? "" : ".") + std::string(found == kKeys.end() ? part : found->first);
    above = part, from = dot + 1;
  }
  return first;
}

std::string_view first_value(std::string_view key, std::string_view value) {
  if (key.ends_with(".name")) key.remove_suffix(5);  // of what is called so
  const auto last = key.substr(key.rfind('.') + 1);
  const auto found = std::find_if(kValues.begin(), kValues.end(),
                                  [&](const RenamedValue& v) { return v.today == value && v.key == last; });
  return found == kValues.end() ? value : found->first;
}

}  // namespace rehearsal::scenario
