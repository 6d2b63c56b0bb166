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
  Panels(const GroupMap& map, Length room)
      : map_(map), room_(room), margin_(room <= kNarrow ? px(4) : kMargin), inside_(room - 2 * margin_) {
    gpu_columns_ = 1;
    while (gpu_columns_ * gpu_columns_ < 2 * map.per_node) ++gpu_columns_;
    while (gpu_columns_ < map.per_node && map.per_node % gpu_columns_ != 0) ++gpu_columns_;
    gpu_columns_ = std::min(gpu_columns_, map.per_node);
    node_width_ = 2 * kPad + gpu_columns_ * (kGpu + kGap) - kGap;
    const auto rows = (map.per_node + gpu_columns_ - 1) / gpu_columns_;
    node_height_ = kName + kPad + rows * (kGpu + kGap) - kGap + kPad;
    const auto fitting = std::max<Length>(1, (inside_ + kApart) / (node_width_ + kApart));
    node_columns_ = std::min({map.nodes(), map.nodes() <= 16 ? 4u : 8u, std::uint32_t(fitting)});
  }

  std::string draw() {
    Length y = px(36);
    paragraph(out_, margin_, y, inside_, map_.title, px(18), "font-weight=\"600\"");
    y += px(22);
    paragraph(out_, margin_, y, inside_,
              fmt::format("{} GPUs on {} node{} \xc2\xb7 the number in a GPU is that of its group", map_.mesh.ranks(),
                          map_.nodes(), map_.nodes() == 1 ? "" : "s"),
              px(13), kMuted);
    y += px(14);
    std::vector<Axis> axes;
    for (const Axis axis : kShownAxes)
      if (is_shown(map_.mesh, axis)) axes.push_back(axis);
    const bool two = 2 * panel_width() + px(36) <= inside_ && axes.size() > 1;
    Length lowest = y;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool right = two && i % 2 == 1;
      lowest = std::max(lowest, panel(axes[i], right ? margin_ + panel_width() + px(36) : margin_, y));
      if (right || !two) y = lowest;
    }
    const Length width = 2 * margin_ + (two ? 2 * panel_width() + px(36) : panel_width());
    return svg_document(std::max(width, std::min(room_, px(560))), lowest + px(20), "Groups of " + map_.title, out_);
  }

 private:
  Length panel_width() const {
    return std::max(std::min(px(430), inside_), node_columns_ * (node_width_ + kApart) - kApart);
  }

  // Returns where it ends.
  Length panel(Axis axis, Length left, Length top) {
    const auto numbers = group_numbers(map_.mesh, axis);
    out_.label(left, top + px(24), name(axis), "font-size=\"15\" font-weight=\"600\"");
    top += px(39);
    paragraph(out_, left, top, panel_width(), group_words(map_, axis), px(12), kMuted);
    top += px(7);
    for (std::uint32_t node = 0; node < map_.nodes(); ++node) {
      const Length x = left + node % node_columns_ * (node_width_ + kApart),
                   y = top + node / node_columns_ * (node_height_ + kApart);
      out_.rectangle(x, y, node_width_, node_height_, "fill=\"#f4f6f9\" stroke=\"#b8c0cc\" rx=\"4\"");
      out_.label(x + kPad, y + px(14), fmt::format("node {}", node), fmt::format("font-size=\"10\" {}", kMuted));
      for (std::uint32_t i = 0; i < map_.per_node; ++i)
        if (const auto gpu = node * map_.per_node + i; gpu < map_.mesh.ranks())
          square(numbers[gpu], gpu, x + kPad + i % gpu_columns_ * (kGpu + kGap),
                 y + kName + kPad + i / gpu_columns_ * (kGpu + kGap));
    }
    return top + (map_.nodes() + node_columns_ - 1) / node_columns_ * (node_height_ + kApart);
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
  const Length room_, margin_, inside_;  // of the picture; around it; between its margins
  std::uint32_t gpu_columns_ = 1, node_columns_ = 1;
  Length node_width_ = 0, node_height_ = 0;
  Canvas out_;
};

}  // namespace

std::string to_svg(const GroupMap& map, Length room) {
  if (map.mesh.ranks() > kMostGpus)
    throw UserError(fmt::format("--svg draws up to {} GPUs; found {}", kMostGpus, map.mesh.ranks()));
  return Panels(map, room).draw();
}

}  // namespace rehearsal::report
