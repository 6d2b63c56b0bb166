#include "base/quantity_text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/error.hpp"

namespace rehearsal {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kTimes{Unit{"ps", 1},   Unit{"ns", 1e3},   Unit{"us", 1e6},  Unit{"ms", 1e9},
                            Unit{"s", 1e12}, Unit{"min", 6e13}, Unit{"h", 3.6e15}};
constexpr double kKi = 1024.;
constexpr std::array kBytes{Unit{"B", 1},
                            Unit{"kB", 1e3},
                            Unit{"KB", 1e3},
                            Unit{"MB", 1e6},
                            Unit{"GB", 1e9},
                            Unit{"TB", 1e12},
                            Unit{"PB", 1e15},
                            Unit{"KiB", kKi},
                            Unit{"MiB", kKi* kKi},
                            Unit{"GiB", kKi* kKi* kKi},
                            Unit{"TiB", kKi* kKi* kKi* kKi}};
constexpr std::array kBandwidths{Unit{"B/s", 1},
                                 Unit{"kB/s", 1e3},
                                 Unit{"MB/s", 1e6},
                                 Unit{"GB/s", 1e9},
                                 Unit{"TB/s", 1e12},
                                 Unit{"MiB/s", kKi* kKi},
                                 Unit{"GiB/s", kKi* kKi* kKi},
                                 Unit{"Mb/s", 1e6 / 8},
                                 Unit{"Gb/s", 1e9 / 8},
                                 Unit{"Tb/s", 1e12 / 8}};
constexpr std::array kFlopRates{Unit{"FLOP/s", 1}, Unit{"MFLOP/s", 1e6}, Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                                Unit{"PFLOP/s", 1e15}};

constexpr std::array kDurations{Unit{"ms", 1e-3}, Unit{"s", 1},     Unit{"min", 60},
                                Unit{"h", 3600},  Unit{"d", 86400}, Unit{"y", 365 * 86400.}};
constexpr std::array kPowers{Unit{"W", 1}, Unit{"kW", 1e3}, Unit{"MW", 1e6}};
constexpr std::array kCarbon{Unit{"g/kWh", 1e-3}, Unit{"kg/kWh", 1}};
constexpr std::array kCounts{Unit{"k", 1e3}, Unit{"M", 1e6}, Unit{"B", 1e9}, Unit{"T", 1e12}};

std::string names(std::span<const Unit> units) {
  std::string text;
  for (const auto& u : units) text += (text.empty() ? "" : " ") + std::string(u.name);
  return text;
}

// Reads "<number><unit>"; spaces around and between are fine. `limit` is the largest value the type holds.
double parse(std::string_view text, std::string_view kind, std::span<const Unit> units, std::string_view example,
             double limit) {
  const auto complain = [&](std::string_view what) {
    throw UserError(fmt::format("{} '{}' {}; write a number with a unit ({}), for example {}", kind, text.substr(0, 80),
                                what, names(units), example));
  };
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) complain("is empty");
  const std::string_view body = text.substr(first, text.find_last_not_of(' ') - first + 1);
  double number = 0;
  const auto [end, problem] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (problem == std::errc::result_out_of_range) complain("is out of range");
  if (problem != std::errc{} || !std::isfinite(number)) complain("is not a number with a unit");
  std::string_view unit(end, static_cast<std::size_t>(body.data() + body.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (number < 0) complain("is negative");
  if (unit.empty()) {
    if (number == 0) return 0;
    complain("has no unit");
  }
  for (const auto& u : units) {
    if (u.name != unit) continue;
    if (number * u.factor > limit) complain("is too large");
    return number * u.factor;
  }
  complain(fmt::format("has the unknown unit '{}'", unit));
  return 0;
}

constexpr double kLargestInteger = 4e18;  // leaves room below 2^63 for sums

}  // namespace

Time parse_time(std::string_view text) {
  return Time(std::llround(parse(text, "time", kTimes, "18.5ms", kLargestInteger)));
}
Bytes parse_bytes(std::string_view text) {
  return Bytes(std::llround(parse(text, "size", kBytes, "80GiB", kLargestInteger)));
}
Bandwidth parse_bandwidth(std::string_view text) {
  return Bandwidth(parse(text, "bandwidth", kBandwidths, "400Gb/s", 1e18));
}
FlopRate parse_flop_rate(std::string_view text) {
  return FlopRate(parse(text, "rate", kFlopRates, "312TFLOP/s", 1e21));
}

Duration parse_duration(std::string_view text) { return Duration(parse(text, "duration", kDurations, "30d", 1e12)); }
Power parse_power(std::string_view text) { return Power(parse(text, "power", kPowers, "700W", 1e12)); }
CarbonIntensity parse_carbon(std::string_view text) {
  return CarbonIntensity(parse(text, "carbon intensity", kCarbon, "0.4kg/kWh", 1e6));
}
Count parse_count(std::string_view text) {
  const auto last = text.find_last_not_of(' ');
  const bool bare = last != std::string_view::npos && text[last] >= '0' && text[last] <= '9';
  const double count = bare ? parse_number(text) : parse(text, "count", kCounts, "2T", 1e21);
  if (count < 0) throw UserError(fmt::format("count '{}' is negative", text.substr(0, 80)));
  return Count(count);
}

double parse_number(std::string_view text) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size() || !std::isfinite(number))
    throw UserError(fmt::format("'{}' is not a finite number", text.substr(0, 80)));
  return number;
}

std::string show(Time time) {
  const double s = to_seconds(time), a = std::abs(s);
  if (a >= 1 || a == 0) return fmt::format("{:.3f} s", s);
  if (a >= 1e-3) return fmt::format("{:.3f} ms", s * 1e3);
  if (a >= 1e-6) return fmt::format("{:.3f} us", s * 1e6);
  return fmt::format("{:.3f} ns", s * 1e9);
}

std::string show(Bytes size) {
  const double b = double(size.count()), a = std::abs(b);
  if (a >= kKi * kKi * kKi * kKi) return fmt::format("{:.2f} TiB", b / (kKi * kKi * kKi * kKi));
  if (a >= kKi * kKi * kKi) return fmt::format("{:.2f} GiB", b / (kKi * kKi * kKi));
  if (a >= kKi * kKi) return fmt::format("{:.2f} MiB", b / (kKi * kKi));
  if (a >= kKi) return fmt::format("{:.2f} KiB", b / kKi);
  return fmt::format("{} B", size.count());
}

std::string show(Duration duration) {
  const double s = duration.value();
  if (s >= 86400) return fmt::format("{:.1f} days", s / 86400);
  if (s >= 3600) return fmt::format("{:.1f} h", s / 3600);
  if (s >= 60) return fmt::format("{:.1f} min", s / 60);
  if (s >= 1 || s == 0) return fmt::format("{:.1f} s", s);
  if (s >= 1e-3) return fmt::format("{:.1f} ms", s * 1e3);
  return s >= 1e-6 ? fmt::format("{:.1f} us", s * 1e6) : "less than 1 us";
}

std::string show(Count count) {
  const double n = count.value();
  for (auto unit = kCounts.rbegin(); unit != kCounts.rend(); ++unit)
    if (n >= unit->factor) return fmt::format("{:.4g} {}", n / unit->factor, unit->name);
  return n > 0 && n < 1e-4 ? "less than 0.0001" : fmt::format("{:.4g}", n);
}

}  // namespace rehearsal
