// The picture of a job's groups: a panel per axis, nodes as boxes with their GPUs, a colour and a number for each
// group.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "page/canvas.hpp"
#include "report/groups_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMostGpus = 1024;
constexpr Length kGpu = px(24), kGap = px(3), kPad = px(7), kName = px(16), kApart = px(10);

class Panels {
 public:
  explicit Panels(const GroupMap& map) : map_(map) {
    gpu_columns_ = 1;
    while (gpu_columns_ * gpu_columns_ < 2 * map.per_node) ++gpu_columns_;
    while (gpu_columns_ < map.per_node && map.per_node % gpu_columns_ != 0) ++gpu_columns_;
    gpu_columns_ = std::min(gpu_columns_, map.per_node);
    node_width_ = 2 * kPad + gpu_columns_ * (kGpu + kGap) - kGap;
    const auto rows = (map.per_node + gpu_columns_ - 1) / gpu_columns_;
    node_height_ = kName + kPad + rows * (kGpu + kGap) - kGap + kPad;
    node_columns_ = std::min<std::uint32_t>(map.nodes(), map.nodes() <= 16 ? 4 : 8);
  }

  std::string draw() {
    Length y = px(36);
    out_.label(kMargin, y, map_.title, "font-size=\"18\" font-weight=\"600\"");
    y += px(22);
    out_.label(kMargin, y,
               fmt::format("{} GPUs on {} node{} \xc2\xb7 the number in a GPU is that of its group", map_.mesh.ranks(),
                           map_.nodes(), map_.nodes() == 1 ? "" : "s"),
               fmt::format("font-size=\"13\" {}", kMuted));
    y += px(14);
    std::vector<Axis> axes;
    for (const Axis axis : kShownAxes)
      if (is_shown(map_.mesh, axis)) axes.push_back(axis);
    const bool two = panel_width() <= px(760) && axes.size() > 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool right = two && i % 2 == 1;
      panel(axes[i], right ? kMargin + panel_width() + px(36) : kMargin, y);
      if (right || !two || i + 1 == axes.size()) y += panel_height();
    }
    const Length width = 2 * kMargin + (two ? 2 * panel_width() + px(36) : panel_width());
    return svg_document(std::max(width, px(560)), y + px(20), "Groups of " + map_.title, out_);
  }

 private:
  Length panel_width() const { return std::max(px(430), node_columns_ * (node_width_ + kApart) - kApart); }
  Length panel_height() const {
    const auto rows = (map_.nodes() + node_columns_ - 1) / node_columns_;
    return px(46) + rows * (node_height_ + kApart);
  }

  void panel(Axis axis, Length left, Length top) {
    const auto numbers = group_numbers(map_.mesh, axis);
    out_.label(left, top + px(24), name(axis), "font-size=\"15\" font-weight=\"600\"");
    out_.label(left, top + px(39), group_words(map_, axis), fmt::format("font-size=\"12\" {}", kMuted));
    for (std::uint32_t node = 0; node < map_.nodes(); ++node) {
      const Length x = left + node % node_columns_ * (node_width_ + kApart),
                   y = top + px(46) + node / node_columns_ * (node_height_ + kApart);
      out_.rectangle(x, y, node_width_, node_height_, "fill=\"#f4f6f9\" stroke=\"#b8c0cc\" rx=\"4\"");
      out_.label(x + kPad, y + px(14), fmt::format("node {}", node), fmt::format("font-size=\"10\" {}", kMuted));
      for (std::uint32_t i = 0; i < map_.per_node; ++i)
        if (const auto gpu = node * map_.per_node + i; gpu < map_.mesh.ranks())
          square(numbers[gpu], gpu, x + kPad + i % gpu_columns_ * (kGpu + kGap),
                 y + kName + kPad + i / gpu_columns_ * (kGpu + kGap));
    }
  }

  void square(std::uint32_t group, std::uint32_t gpu, Length x, Length y) {
    const Rgb fill = color_of_number(group);
    out_.raw(fmt::format("<g><title>GPU {}</title>\n", gpu));
    out_.rectangle(x, y, kGpu, kGpu, fmt::format("fill=\"{}\" rx=\"2\"", fill.text()));
    out_.label(x + kGpu / 2, y + kGpu / 2 + px(4), std::to_string(group),
               fmt::format("font-size=\"{}\" text-anchor=\"middle\" fill=\"{}\"", group < 100 ? 11 : 9, ink_on(fill)));
    out_.raw("</g>\n");
  }

  const GroupMap& map_;
  std::uint32_t gpu_columns_ = 1, node_columns_ = 1;
  Length node_width_ = 0, node_height_ = 0;
  Canvas out_;
};

}  // namespace

std::string to_svg(const GroupMap& map) {
  if (map.mesh.ranks() > kMostGpus)
    throw UserError(fmt::format("--svg draws up to {} GPUs; found {}", kMostGpus, map.mesh.ranks()));
  return Panels(map).draw();
}

}  // namespace rehearsal::report
