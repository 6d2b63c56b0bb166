#include "base/decimal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rehearsal {
namespace {

// Without trailing zeros, and without an exponent.
std::string significant(double amount, int digits) {
  const int before = amount == 0 ? 1 : int(std::floor(std::log10(std::abs(amount)))) + 1;
  auto text = fmt::format("{:.{}f}", amount, std::max(0, digits - before));
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

std::string decimal(double amount, std::string_view unit, int digits) {
  static constexpr std::array kMore{"", "k", "M", "G", "T", "P", "E", "Z"};
  static constexpr std::array kLess{"", "m", "u", "n"};
  if (amount == 0) return fmt::format("0 {}", unit);
  // What would be rounded to 1000 becomes 1 of the next unit.
  const double next = 1000 * (1 - .5 * std::pow(10., -digits));
  std::size_t more = 0, less = 0;
  for (; std::abs(amount) >= next && more + 1 < kMore.size(); amount /= 1000) ++more;
  for (; more == 0 && std::abs(amount) < next / 1000 && less + 1 < kLess.size(); amount *= 1000) ++less;
  return fmt::format("{} {}{}", significant(amount, digits), less > 0 ? kLess[less] : kMore[more], unit);
}

std::string show_events(double count) {
  if (count > 0 && count < .001) return "less than 0.001";
  if (count < 1000) return significant(count, 3);
  const auto digits = fmt::format("{:.0f}", count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string show_share(double share, double like) {
  const double lost = std::abs(1 - like);
  return fmt::format("{:.{}f}", 100 * share, lost >= .01 || lost == 0 ? 1 : lost >= .001 ? 2 : 3);
}

}  // namespace rehearsal
