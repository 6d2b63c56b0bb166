// The picture of an expert placement: a panel per layer, a column per GPU, stacked from the expert copies on it with
// heights by load. If there are too many layers or GPUs, each layer is a strip with one cell per GPU, coloured by its
// load.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "page/canvas.hpp"
#include "report/balance_report.hpp"

namespace rehearsal::report {
using namespace page;
namespace {

class BalancePicture {
 public:
  BalancePicture(const balance::Question& question, const balance::Answer& answer, Length room)
      : question_(question),
        answer_(answer),
        shape_(answer.shape),
        margin_(room <= kNarrow ? px(4) : kMargin),
        left_(margin_ + kNames),
        width_(room <= kNarrow ? room - left_ - kValues - margin_ : px(860)),
        panels_(answer.layers.size() <= kMostPanels && shape_.gpus <= kMostColumns),
        apart_(panels_ ? px(12) : 0),
        column_((width_ - apart_ * (nodes() - 1)) / shape_.gpus) {
    for (const auto& layer : answer.layers) most_ = std::max(most_, layer.before_max_over_mean);
  }

  std::string draw() {
    Length y = px(36);
    const Length inside = left_ + width_ + kValues - margin_;
    paragraph(out_, margin_, y, inside, question_.name, px(18), "font-weight=\"600\"");
    y += px(22);
    paragraph(out_, margin_, y, inside,
              fmt::format("{} copies of {} experts on {} GPU{} in {} node{} \xc2\xb7 {}, method {}", shape_.replicas,
                          shape_.experts, shape_.gpus, shape_.gpus == 1 ? "" : "s", nodes(), nodes() == 1 ? "" : "s",
                          shape_.hierarchical ? "hierarchical" : "global", question_.method),
              px(13), kMuted);
    y += px(16);
    for (std::uint32_t l = 0; l < answer_.layers.size(); ++l)
      if (panels_)
        panel(l, y);
      else
        strips(l, y);
    y += px(24);
    paragraph(out_, margin_, y, inside,
              panels_ ? "A box: a copy of the expert of that number, as high as the load it brings. Line: the mean of "
                        "the GPUs. Dashed frame: the GPU before. Right: the heaviest over the mean."
                      : fmt::format("Load of each GPU, white none, red {:.2f} times the mean; upper row before, lower "
                                    "row after. Right: the heaviest over the mean.",
                                    most_),
              px(11), kMuted);
    return svg_document(left_ + width_ + kValues + margin_, y + px(16), question_.name, out_);
  }

 private:
  static constexpr std::size_t kMostPanels = 8;      // layers
  static constexpr std::uint32_t kMostColumns = 32;  // GPUs
  static constexpr Length kNames = px(64), kValues = px(64), kPanel = px(120), kStrip = px(12);
  static constexpr Rgb kHeavy{204, 51, 51};

  static std::string small(std::string_view more = "") { return fmt::format("font-size=\"11\" {} {}", kMuted, more); }
  std::uint32_t nodes() const { return question_.problem.nodes; }
  Length x(std::uint32_t gpu) const {
    return left_ + column_ * gpu + apart_ * Length(std::uint64_t(gpu) * nodes() / shape_.gpus);
  }
  // The weights behind the layer's final loads.
  const balance::Loads& weights(std::uint32_t layer) const {
    return question_.trace.empty() ? question_.problem.weights[layer] : question_.trace.back()[layer];
  }

  void panel(std::uint32_t l, Length& y) {
    const auto& layer = answer_.layers[l];
    const double mean = std::accumulate(layer.after.begin(), layer.after.end(), 0.) / double(shape_.gpus);
    const double top = std::max({1e-300, *std::max_element(layer.before.begin(), layer.before.end()),
                                 *std::max_element(layer.after.begin(), layer.after.end())});
    y += px(14);
    const Length bottom = y + kPanel;
    const auto height = [&](double load) { return Length(std::llround(load / top * double(kPanel))); };
    out_.label(left_ - px(12), bottom - kPanel / 2, fmt::format("layer {}", l), "font-size=\"12\" text-anchor=\"end\"");
    const Length inset = std::min(px(4), column_ / 8);
    for (std::uint32_t g = 0; g < shape_.gpus; ++g) {
      const Length from = x(g) + inset, width = column_ - 2 * inset;
      double below = 0;
      for (auto s = shape_.first_slot(g); s < shape_.first_slot(g + 1); ++s) {
        const auto expert = static_cast<std::uint32_t>(answer_.placement.slots(l)[s]);
        const double load = weights(l)[expert] / answer_.placement.counts(l)[expert];
        copy(expert, load, {from, bottom - height(below + load), width, height(below + load) - height(below)});
        below += load;
      }
      const Length before = height(layer.before[g]);
      out_.rectangle(from - inset / 2, bottom - before, width + inset, before,
                     "fill=\"none\" stroke=\"#8a94a3\" stroke-dasharray=\"3 2\"");
    }
    const Length end = x(shape_.gpus - 1) + column_, at = bottom - height(mean);
    out_.line(left_, bottom, end, bottom, "stroke=\"#8a94a3\"");
    out_.line(left_, at, end, at, fmt::format("stroke=\"{}\" stroke-width=\"1.2\"", kLimitInk));
    values(layer, at + px(4), end);
    y = bottom + px(16);
    const bool named = text_width("GPU 00", px(11)) < column_;
    const auto every = std::uint32_t(text_width("000", px(11)) / column_ + 1);
    for (std::uint32_t g = 0; g < shape_.gpus; g += every)
      out_.label(x(g) + column_ / 2, y, (named ? "GPU " : "") + std::to_string(g), small("text-anchor=\"middle\""));
  }

  struct Box {
    Length x, y, width, height;
  };
  void copy(std::uint32_t expert, double load, const Box& box) {
    const Rgb fill = color_of_number(expert);
    out_.rectangle(box.x, box.y, box.width, box.height,
                   fmt::format("fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.8\"", fill.text()),
                   fmt::format("expert {}: {:.4g}", expert, load));
    if (box.height >= px(12) && box.width >= px(18))
      out_.label(
          box.x + box.width / 2, box.y + box.height / 2 + px(4), std::to_string(expert),
          fmt::format("font-size=\"11\" text-anchor=\"middle\" pointer-events=\"none\" fill=\"{}\"", ink_on(fill)));
  }

  void values(const balance::LayerBalance& layer, Length y, Length end) {
    out_.label(end + px(10), y - px(8), fmt::format("{:.3f}", layer.max_over_mean),
               "font-size=\"13\" font-weight=\"600\"");
    out_.label(end + px(10), y + px(8), fmt::format("was {:.3f}", layer.before_max_over_mean), small());
  }

  void strips(std::uint32_t l, Length& y) {
    const auto& layer = answer_.layers[l];
    y += px(8);
    out_.label(left_ - px(12), y + kStrip + px(4), fmt::format("layer {}", l), "font-size=\"11\" text-anchor=\"end\"");
    for (const auto* loads : {&layer.before, &layer.after}) {
      const double mean = std::accumulate(loads->begin(), loads->end(), 0.) / double(loads->size());
      for (std::uint32_t g = 0; g < shape_.gpus; ++g) {
        const double share = mean > 0 ? std::min(1., (*loads)[g] / mean / most_) : 0;
        const Length from = left_ + width_ * g / shape_.gpus, to = left_ + width_ * (g + 1) / shape_.gpus;
        out_.rectangle(from, y, to - from, kStrip,
                       fmt::format("class=\"load\" fill=\"{}\"", mix(kWhite, kHeavy, int(1000 * share)).text()));
      }
      out_.label(left_ + width_ + px(8), y + kStrip - px(2),
                 fmt::format("{:.3f}", loads == &layer.before ? layer.before_max_over_mean : layer.max_over_mean),
                 small());
      y += kStrip;
    }
  }

  const balance::Question& question_;
  const balance::Answer& answer_;
  const balance::Shape& shape_;
  const Length margin_, left_, width_;  // of the picture; of the columns
  const bool panels_;
  const Length apart_, column_;  // gap between nodes; width of a GPU
  double most_ = 1;              // maximum over all layers, before: heaviest GPU over mean
  Canvas out_;
};

}  // namespace

std::string to_svg(const balance::Question& question, const balance::Answer& answer, Length room) {
  return BalancePicture(question, answer, room).draw();
}

}  // namespace rehearsal::report
