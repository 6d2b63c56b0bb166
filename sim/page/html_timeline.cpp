// A zoomable timeline. Boxes of one row and colour form one path in a plane whose horizontal unit is time, and zooming
// changes the view of it, so that a browser draws a few dozen elements rather than a hundred thousand. The
// script (page.js) gets the boxes as numbers, for names, labels and dependencies.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "base/json.hpp"
#include "page/drawn_time.hpp"
#include "page/html_parts.hpp"
#include "page/markup.hpp"

namespace rehearsal::page {
namespace {

constexpr std::int64_t kPlane = 10'000'000;  // width of the plane: the resolution of a float with 24 bits
constexpr int kSlim = 12;                    // height of a row of secondary activity, whose name still fits

struct Row {
  std::string name;
  int y = 0, height = 0, strip = 0;  // in pixels; `strip`: for memory, at the bottom
};

class TimelineOf {
 public:
  TimelineOf(const Drawing& drawing, const std::string& title) : drawing_(drawing), title_(title) {
    std::int64_t last = drawing.until.count();
    for (const auto& box : drawing.boxes) {
      begin_ = std::min(begin_, box.start.count());
      last = std::max(last, box.end.count());
    }
    span_ = std::max<std::int64_t>(1, last - begin_);
    unit_ = span_ > 1'000'000'000 ? 1000 : 1;
    int y = 0;
    const bool many = drawing.rows > 40;
    const bool split = std::any_of(drawing.boxes.begin(), drawing.boxes.end(),
                                   [](const auto& box) { return box.half != Half::whole; });
    for (std::uint32_t r = 0; r < drawing.rows; ++r) {
      const bool slim = r < drawing.slim.size() && drawing.slim[r];
      Row row{drawing.row_names.empty() ? fmt::format("rank {}", r) : drawing.row_names[r], y,
              slim    ? kSlim
              : many  ? 15
              : split ? 28  // two boxes above each other, each with its label
                      : 20,
              drawing.memory.empty() ? 0
              : many                 ? 7
                                     : 14};
      y += row.height + row.strip + (slim ? 1 : 3);
      rows_.push_back(std::move(row));
    }
    height_ = y;
    order_.resize(drawing.boxes.size());
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto &l = drawing.boxes[a], &r = drawing.boxes[b];
      return std::tuple(l.row, l.start, l.end) < std::tuple(r.row, r.start, r.end);
    });
  }

  std::string draw() {
    std::string html = "<figure class=\"timeline\">\n" + controls() + "<div class=\"rows\"><div class=\"names\">";
    for (const auto& row : rows_)
      html += fmt::format("<div style=\"height:{}px;margin-bottom:{}px\">{}</div>", row.height,
                          row.strip + (row.height == kSlim ? 1 : 3), escaped(row.name));
    html += fmt::format(
        "</div>\n<div class=\"plot\" style=\"height:{0}px\" tabindex=\"0\" role=\"img\" aria-label=\"{1}: {2} rows "
        "over "
        "{3}. Plus and minus zoom, arrow keys move, n and p choose the next and the one before, w what it waited "
        "for.\">"
        "\n<svg class=\"plane\" viewBox=\"0 0 {4} {5}\" height=\"{5}\" preserveAspectRatio=\"none\">\n",
        height_ + 23, escaped(title_), drawing_.rows, show_span(), kPlane, height_);
    html += lanes() + "<g class=\"boxes\">\n" + boxes() + "</g>\n" + memory() + path() +
            "<rect class=\"chosen\" width=\"0\" height=\"0\"/>\n</svg>\n";
    html += fmt::format(
        "<svg class=\"labels\" height=\"{0}\" aria-hidden=\"true\"></svg>\n<div class=\"axis\" "
        "style=\"margin-top:{0}px\">"
        "{1}</div></div></div>\n",
        height_, axis());
    html += "<p class=\"said\" role=\"status\">point at a box, or choose one with the keys n and p</p>\n" + legend() +
            "<script type=\"application/json\">" + data() + "</script>\n</figure>\n";
    return html;
  }

 private:
  std::int64_t x(Time time) const { return place_in(span_, time.count() - begin_, kPlane); }
  std::string show_span() const { return fmt::format("{:.4g} s", double(span_) * 1e-12); }

  std::string controls() const {
    std::string html =
        "<div class=\"bar\" hidden><button data-do=\"in\">zoom in</button><button data-do=\"out\">zoom out</button>"
        "<button data-do=\"left\" aria-label=\"earlier\">&larr;</button><button data-do=\"right\" "
        "aria-label=\"later\">&rarr;</button><button data-do=\"all\">all</button>";
    if (std::any_of(drawing_.boxes.begin(), drawing_.boxes.end(), [](const auto& b) { return b.critical; }))
      html += "<label><input type=\"checkbox\"> critical path</label>";
    return html + "</div>\n";
  }

  std::string lanes() const {
    std::string svg;
    for (const auto& row : rows_)
      svg +=
          fmt::format("<rect class=\"lane\" x=\"0\" y=\"{}\" width=\"{}\" height=\"{}\"/>", row.y, kPlane, row.height);
    return svg + "\n";
  }

  std::string boxes() const {
    std::string svg;
    for (std::size_t i = 0; i < order_.size();) {
      const std::uint32_t row = drawing_.boxes[order_[i]].row;
      std::map<std::pair<char, std::uint32_t>, std::string> paths;  // by kind and chunk
      for (; i < order_.size() && drawing_.boxes[order_[i]].row == row; ++i) {
        const auto& box = drawing_.boxes[order_[i]];
        const std::int64_t from = x(box.start), width = x(box.end) - from;
        if (width == 0) continue;
        const bool split = box.half != Half::whole;
        const int height = split ? rows_[row].height / 2 : rows_[row].height;
        const int top = rows_[row].y + (box.half == Half::lower ? rows_[row].height - height : 0);
        paths[{box.kind, box.chunk}] += fmt::format("M{} {}h{}v{}h-{}z", from, top, width, height, width);
      }
      for (const auto& [look, d] : paths)
        svg +=
            fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", tint_of(look.first, look.second, drawing_.chunks).text(), d);
    }
    return svg;
  }

  // Below each row its memory, scaled to the maximum over all rows.
  std::string memory() const {
    if (drawing_.memory.empty()) return "";
    double most = drawing_.memory_limit.value_or(0);
    for (const auto& steps : drawing_.memory)
      for (const auto& step : steps) most = std::max(most, step.amount);
    if (!(most > 0)) return "";
    std::string svg;
    for (std::uint32_t r = 0; r < drawing_.memory.size() && r < rows_.size(); ++r) {
      const int bottom = rows_[r].y + rows_[r].height + rows_[r].strip;
      std::string d = fmt::format("M0 {}", bottom);
      for (const auto& step : drawing_.memory[r])
        d += fmt::format("H{}V{:.4g}", x(step.at), bottom - step.amount / most * (rows_[r].strip - 1));
      svg += fmt::format("<path class=\"held\" d=\"{}H{}V{}z\"><title>memory of {}</title></path>\n", d, kPlane, bottom,
                         escaped(rows_[r].name));
    }
    return svg;
  }

  std::string path() const {
    std::vector<std::uint32_t> chain;
    for (const auto i : order_)
      if (drawing_.boxes[i].critical) chain.push_back(i);
    std::stable_sort(chain.begin(), chain.end(),
                     [&](auto a, auto b) { return drawing_.boxes[a].start < drawing_.boxes[b].start; });
    if (chain.empty()) return "";
    std::string d;
    for (const auto i : chain) {
      const auto& box = drawing_.boxes[i];
      const int middle = rows_[box.row].y + rows_[box.row].height / 2;
      d += fmt::format("{}{} {}H{}", d.empty() ? "M" : "L", x(box.start), middle, x(box.end));
    }
    return fmt::format("<path class=\"path\" d=\"{}\"><title>critical path</title></path>\n", d);
  }

  std::string axis() const {
    std::string html;
    const std::int64_t step = round_step(std::max<std::int64_t>(1, span_ / 8));
    for (std::int64_t t = 0; t <= span_; t += step)
      html += fmt::format("<span style=\"left:{:.3f}%\">{:.4g} s</span>", 100. * double(t) / double(span_),
                          double(t) * 1e-12);
    return html;
  }

  std::string legend() const {
    std::string html = "<div class=\"legend\">";
    for (const auto& kind : kFillings)
      if (std::any_of(drawing_.boxes.begin(), drawing_.boxes.end(),
                      [&](const auto& box) { return box.kind == kind.letter; }))
        html += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", kind.color.text(), kind.name);
    if (drawing_.chunks > 1) html += fmt::format("<span>dark to light: {}</span>", escaped(drawing_.tints));
    return html +
           (drawing_.memory.empty() ? ""
                                    : "<span><i class=\"held\" style=\"background:#b39ddb\"></i>memory"
                                      "</span>") +
           "</div>\n";
  }

  // {"span", "unit": picoseconds, "typical": median duration, "rows": [{"name", "y", "h", "b": [...]}], "words",
  // "labels": [[text, ink, half]]}; page.js explains the five numbers per box in "b".
  std::string data() const {
    std::vector<std::uint32_t> place(order_.size());  // of a box, in output order
    for (std::size_t i = 0; i < order_.size(); ++i) place[order_[i]] = std::uint32_t(i);
    // A label with its ink, which goes by the colour under it, and whether it is in the upper or lower half of its row.
    Json labels = Json::array();
    std::map<std::tuple<std::string, std::string_view, Half>, std::size_t> known;
    auto words = drawing_.words;
    const std::size_t plain = words.size();  // boxes without words are described by their kind
    for (const auto& kind : kFillings) words.push_back(std::string(kind.name) + " #");
    words.push_back("#");
    std::vector<std::int64_t> lengths;
    std::string rows;
    std::size_t i = 0;
    for (std::uint32_t r = 0; r < rows_.size(); ++r) {
      std::string numbers;
      std::int64_t now = 0;
      for (; i < order_.size() && drawing_.boxes[order_[i]].row == r; ++i) {
        const auto& box = drawing_.boxes[order_[i]];
        const std::int64_t start = (box.start.count() - begin_) / unit_, end = (box.end.count() - begin_) / unit_;
        const auto ink = ink_on(tint_of(box.kind, box.chunk, drawing_.chunks));
        const auto label = known.try_emplace({box.label, ink, box.half}, known.size());
        if (label.second) labels.push_back(std::vector<Json>{box.label, std::string(ink), int(box.half)});
        std::size_t what = box.what;
        if (box.what == kNoBox) {
          const auto* found =
              std::find_if(kFillings.begin(), kFillings.end(), [&](const auto& k) { return k.letter == box.kind; });
          what = plain + std::size_t(found - kFillings.begin());
        }
        const auto back = box.after == kNoBox ? 0 : std::int64_t(i) - std::int64_t(place[box.after]);
        numbers += fmt::format("{}{},{},{},{},{}", numbers.empty() ? "" : ",", start - now, end - start, what,
                               label.first->second, back);
        lengths.push_back(end - start);
        now = end;
      }
      rows += fmt::format("{}{{\"name\":{},\"y\":{},\"h\":{},\"b\":[{}]}}", r ? ",\n" : "", Json(rows_[r].name).dump(),
                          rows_[r].y, rows_[r].height, numbers);
    }
    std::int64_t typical = 1;
    if (!lengths.empty()) {
      std::nth_element(lengths.begin(), lengths.begin() + std::ptrdiff_t(lengths.size() / 2), lengths.end());
      typical = std::max<std::int64_t>(1, lengths[lengths.size() / 2]);
    }
    return in_script(fmt::format("{{\"span\":{},\"unit\":{},\"typical\":{},\"rows\":[{}],\"words\":{},\"labels\":{}}}",
                                 span_, unit_, typical, rows, Json(words).dump(), labels.dump()));
  }

  const Drawing& drawing_;
  const std::string& title_;
  std::int64_t begin_ = 0, span_ = 1, unit_ = 1;
  int height_ = 0;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> order_;  // of boxes: by row, then by time
};

}  // namespace

std::string html_timeline(const Drawing& drawing, const std::string& title) {
  return TimelineOf(drawing, title).draw();
}

}  // namespace rehearsal::page
