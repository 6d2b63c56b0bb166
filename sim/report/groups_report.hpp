// Reports the members of all groups: text, JSON, CSV, and a picture with a panel per axis.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/mesh.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

struct GroupMap {
  std::string title;
  plan::Mesh mesh;  // ranks are GPUs
  std::uint32_t per_node = 1;

  std::uint32_t nodes() const { return (mesh.ranks() + per_node - 1) / per_node; }
};

std::string to_text(const GroupMap& map, const page::TextStyle& style);
Shown<GroupMap> groups_answer();
std::string to_csv(const GroupMap& map);  // one row per GPU
// Throws UserError if it is too large.
std::string to_svg(const GroupMap& map, page::Length room = page::kWide);

// In the order of display.
inline constexpr Axis kShownAxes[] = {Axis::tensor, Axis::context,       Axis::data,       Axis::pipeline,
                                      Axis::expert, Axis::expert_tensor, Axis::expert_data};
// Hides axes on which every GPU is a group of its own, and expert axes without expert parallelism.
bool is_shown(const plan::Mesh& mesh, Axis axis);
// The group number of every GPU.
std::vector<std::uint32_t> group_numbers(const plan::Mesh& mesh, Axis axis);
// "groups of 8 GPUs, 2 apart, each on 2 nodes"
std::string group_words(const GroupMap& map, Axis axis);

}  // namespace rehearsal::report
