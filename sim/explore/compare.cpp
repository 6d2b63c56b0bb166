#include "explore/compare.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.hpp"

namespace rehearsal::explore {
namespace {

// The positions of separating commas: those outside brackets, braces and quotes. Nothing if one of these is left open.
std::optional<std::vector<std::size_t>> dividing_commas(std::string_view text) {
  std::vector<std::size_t> commas;
  std::string open;  // closing characters still expected
  for (std::size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    const char waits = open.empty() ? '\0' : open.back();
    if (waits == '"' || waits == '\'') {
      if (c == '\\' && waits == '"')
        i++;
      else if (c == waits)
        open.pop_back();
    } else if (c == '[' || c == '{') {
      open += c == '[' ? ']' : '}';
    } else if (c == '"' || c == '\'') {
      open += c;
    } else if (c == ']' || c == '}') {
      if (waits != c) return std::nullopt;
      open.pop_back();
    } else if (c == ',' && open.empty()) {
      commas.push_back(i);
    }
  }
  return open.empty() ? std::optional(commas) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string> Variant::sets() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : set) all.push_back(key + "=" + value);
  return all;
}

Vary parse_vary(std::string_view option) {
  const auto complain = [&](std::string_view what) {
    throw UserError(fmt::format("--vary '{}' {}, for example --vary schedule=gpipe,1f1b", option.substr(0, 200), what));
  };
  const auto equals = option.find('=');
  if (equals == std::string_view::npos || equals == 0) complain("is not KEY=V1,V2,...");
  Vary vary{std::string(option.substr(0, equals)), {}};
  const auto list = option.substr(equals + 1);
  auto commas = dividing_commas(list);
  if (!commas) complain("has a bracket, brace or quote without its partner");
  commas->push_back(list.size());
  std::size_t from = 0;
  for (const auto comma : *commas) {
    const auto value = trimmed(list.substr(from, comma - from));
    if (value.empty()) complain("has an empty value");
    if (std::find(vary.values.begin(), vary.values.end(), value) != vary.values.end())
      complain(fmt::format("names '{}' twice", value.substr(0, 80)));
    vary.values.emplace_back(value);
    from = comma + 1;
  }
  return vary;
}

std::vector<Variant> variants(std::span<const std::string> files, std::span<const Vary> varies) {
  std::size_t count = files.size();
  for (std::size_t i = 0; i < varies.size(); i++) {
    for (std::size_t j = 0; j < i; j++)
      if (varies[i].key == varies[j].key)
        throw UserError(fmt::format("--vary {} is given twice; list all its values after one '='", varies[i].key));
    count *= varies[i].values.size();  // both factors are small: no overflow
    if (count > kMostVariants)
      throw UserError(fmt::format("the values of --vary make more than {} variants; give fewer", kMostVariants));
  }
  std::vector<Variant> all;
  all.reserve(count);
  for (std::size_t n = 0; n < count; n++) {
    Variant variant;
    std::size_t rest = n;  // mixed-radix number whose digits are the choices; the last key is least significant
    for (std::size_t i = varies.size(); i-- > 0;) {
      const auto& [key, values] = varies[i];
      variant.set.emplace_back(key, values[rest % values.size()]);
      rest /= values.size();
    }
    std::reverse(variant.set.begin(), variant.set.end());
    variant.file = files[rest];
    all.push_back(std::move(variant));
  }
  return all;
}

std::vector<std::vector<Diagnostic>> compare(std::span<const Variant> variants, std::span<const std::string> common,
                                             unsigned jobs, const Keep& keep, const scenario::Files& files,
                                             const Done& done) {
  std::vector<std::vector<Diagnostic>> errors(variants.size());
  const auto predict = [&](std::size_t i) {
    std::vector<std::string> sets(common.begin(), common.end());
    for (auto& one : variants[i].sets()) sets.push_back(std::move(one));
    try {
      keep(i, answer::predict(scenario::load(variants[i].file, sets, {}, files)));
    } catch (const UserError& error) {
      errors[i] = error.diagnostics();
    }
  };
  in_parallel(variants.size(), jobs, predict, done);
  return errors;
}

}  // namespace rehearsal::explore
