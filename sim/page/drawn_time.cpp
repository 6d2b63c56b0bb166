#include "page/drawn_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/wide.hpp"

namespace rehearsal::page {
namespace {

constexpr Rgb kOtherFilling{140, 146, 156};

struct TimeUnit {
  std::string_view name;
  std::int64_t picoseconds;
};
TimeUnit unit_of(std::int64_t step) {
  constexpr std::array kUnits{TimeUnit{"s", 1'000'000'000'000}, TimeUnit{"ms", 1'000'000'000},
                              TimeUnit{"us", 1'000'000}, TimeUnit{"ns", 1'000}};
  for (const auto& unit : kUnits)
    if (step * 10 >= unit.picoseconds) return unit;
  return {"ps", 1};
}

std::string number_text(std::int64_t amount, std::int64_t unit) {
  std::string text = std::to_string(amount / unit);
  if (const auto rest = amount % unit) {
    std::string digits = std::to_string(rest);
    digits.insert(0, std::to_string(unit).size() - 1 - digits.size(), '0');
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text;
}

}  // namespace

Rgb color_of(char kind) {
  const auto* found =
      std::find_if(kFillings.begin(), kFillings.end(), [&](const Filling& k) { return k.letter == kind; });
  return found == kFillings.end() ? kOtherFilling : found->color;
}

Rgb tint_of(char kind, std::uint32_t chunk, std::uint32_t chunks) {
  const Rgb full = color_of(kind);
  return chunks < 2 ? full : mix(full, kWhite, int(580 * std::min(chunk, chunks - 1) / (chunks - 1)));
}

Length place_in(std::int64_t span, std::int64_t at, Length length) {
  return Length((Wide(at) * length + span / 2) / span);
}

std::int64_t round_step(std::int64_t at_least) {
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t digit : {1, 2, 5})
      if (digit * power >= at_least || power > 1'000'000'000'000'000'000 / 10) return digit * power;
}

void time_axis(Canvas& out, Length left, Length width, Length bottom, std::int64_t span) {
  const std::int64_t ticks = std::clamp<std::int64_t>(width / px(70), 2, 10);
  const std::int64_t step = round_step(std::max<std::int64_t>(1, span / ticks));
  const TimeUnit unit = unit_of(step);
  for (std::int64_t t = 0; t <= span; t += step) {
    const Length at = left + place_in(span, t, width);
    out.line(at, bottom, at, bottom + px(5), "stroke=\"#8a94a3\"");
    const bool last = t + step > span;
    std::string text = t == 0 ? "0" : number_text(t, unit.picoseconds);
    if (last) text += " " + std::string(unit.name);
    out.label(at, bottom + px(18), text, fmt::format("font-size=\"11\" text-anchor=\"middle\" {}", kMuted));
    if (t > span - step) break;
  }
}

}  // namespace rehearsal::page
