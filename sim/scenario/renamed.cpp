#include "scenario/renamed.hpp"

#include <algorithm>
#include <array>
#include <utility>

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

// A dotted path with each part given another name.
template <class Name>
std::string each_part(std::string_view path, Name&& name) {
  std::string all;
  for (std::size_t from = 0; from <= path.size();) {
    const auto dot = std::min(path.find('.', from), path.size());
    all += (from > 0 ? "." : "") + std::string(name(path.substr(from, dot - from)));
    from = dot + 1;
  }
  return all;
}

}  // namespace

std::string_view key_of_today(std::string_view above, std::string_view key) {
  for (const RenamedKey& k : kKeys)
    if (k.first == key && k.above == above) return k.today;
  return key;
}

std::string path_of_today(std::string_view path) {
  std::string_view above;
  return each_part(path, [&](std::string_view part) { return above = key_of_today(above, part); });
}

std::string_view value_of_today(std::string_view key, std::string_view value) {
  for (const RenamedValue& v : kValues)
    if (v.first == value && v.key == key) return v.today;
  return value;
}

std::string first_key(std::string_view key) {
  // It was a value before it became a mapping, which may still be written as that value.
  constexpr std::string_view kActivations = "training.offload.activations";
  if (key.starts_with(kActivations) && key.substr(kActivations.size()) == ".to") return std::string(kActivations);
  std::string_view above;
  return each_part(key, [&](std::string_view part) {
    const auto below = std::exchange(above, part);
    for (const RenamedKey& k : kKeys)
      if (k.today == part && k.above == below) return k.first;
    return part;
  });
}

std::string_view first_value(std::string_view key, std::string_view value) {
  if (key.ends_with(".name")) key.remove_suffix(5);  // of what is called so
  const auto last = key.substr(key.rfind('.') + 1);
  for (const RenamedValue& v : kValues)
    if (v.today == value && v.key == last) return v.first;
  return value;
}

}  // namespace rehearsal::scenario
