// What libc++ lacks of C++20 before version 15, as far as the project uses it; see README.md beside this file.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <compare>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace std {

#ifndef __cpp_lib_bit_cast
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
#endif

#if _LIBCPP_VERSION < 20000
// By strtod, which takes more than from_chars may (blanks, '+', hexadecimal digits): it gets a copy of what is right
// only.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const char* at = first;
  const auto digits = [&] {
    const char* begin = at;
    while (at < last && *at >= '0' && *at <= '9') ++at;
    return at > begin;
  };
  if (at < last && *at == '-') ++at;
  const auto starts = [&](const char* word) {
    const char* letter = at;
    for (; *word; ++word, ++letter)
      if (letter >= last || (*letter | 0x20) != *word) return false;
    return at = letter, true;
  };
  if (!starts("infinity") && !starts("inf") && !starts("nan")) {
    bool any = digits();
    if (at < last && *at == '.') {
      const char* point = at++;
      any = digits() || any;
      if (!any) at = point;
    }
    if (!any) return {first, errc::invalid_argument};
    if (at < last && (*at | 0x20) == 'e') {
      const char* mantissa = at++;
      if (at < last && (*at == '+' || *at == '-')) ++at;
      if (!digits()) at = mantissa;
    }
  }
  const int before = std::exchange(errno, 0);
  const double parsed = std::strtod(string(first, at).c_str(), nullptr);
  if (std::exchange(errno, before) == ERANGE) return {at, errc::result_out_of_range};
  value = parsed;
  return {at, errc{}};
}
#endif

#ifndef __cpp_lib_jthread
// Never started here: a page has one thread.
class jthread {
 public:
  template <class Function>
  explicit jthread(Function&& function) : thread_(std::forward<Function>(function)) {}
  jthread(jthread&&) noexcept = default;
  ~jthread() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  thread thread_;
};
#endif

#if _LIBCPP_VERSION < 15000
// What defaulted comparisons ask of members that are pairs, lists, or may be missing.
template <class A, class B>
constexpr auto operator<=>(const pair<A, B>& a, const pair<A, B>& b)
    -> common_comparison_category_t<decltype(a.first <=> b.first), decltype(a.second <=> b.second)> {
  if (const auto order = a.first <=> b.first; order != 0) return order;
  return a.second <=> b.second;
}
template <class T>
constexpr auto operator<=>(const optional<T>& a, const optional<T>& b) -> decltype(*a <=> *b) {
  if (a && b) return *a <=> *b;
  return a.has_value() <=> b.has_value();
}
namespace detail {
template <class List>
constexpr auto compared(const List& a, const List& b) -> decltype(*a.begin() <=> *b.begin()) {
  auto left = a.begin(), right = b.begin();
  for (; left != a.end() && right != b.end(); ++left, ++right)
    if (const auto order = *left <=> *right; order != 0) return order;
  if (left != a.end()) return strong_ordering::greater;
  return right != b.end() ? strong_ordering::less : strong_ordering::equal;
}
}  // namespace detail
template <class T, size_t N>
constexpr auto operator<=>(const array<T, N>& a, const array<T, N>& b) -> decltype(detail::compared(a, b)) {
  return detail::compared(a, b);
}
template <class T>
constexpr auto operator<=>(const vector<T>& a, const vector<T>& b) -> decltype(detail::compared(a, b)) {
  return detail::compared(a, b);
}
template <class K, class V>
constexpr auto operator<=>(const map<K, V>& a, const map<K, V>& b) -> decltype(detail::compared(a, b)) {
  return detail::compared(a, b);
}

namespace ranges {
template <class Range>
void sort(Range&& range) {
  std::sort(std::begin(range), std::end(range));
}
template <class Range, class Value>
auto count(Range&& range, const Value& value) {
  return std::count(std::begin(range), std::end(range), value);
}
}  // namespace ranges
#endif

}  // namespace std
