// The lengths of documents (`batch.lengths`): numbers, a file of numbers, or a distribution, of which equally likely
// lengths are taken.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kKinds = "{fixed: N}, {list: [N, ...]}, {file: NAME} or {lognormal: [MU, SIGMA]}";
constexpr IntegerRange kTokens = kCount;
constexpr std::size_t kLargestFile = 64 << 20;
constexpr int kDrawn = 1000;

// Where the standard normal distribution has this share below it, by halving: 1e-12 is far below one token.
double quantile(double share) {
  double low = -9, high = 9;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.)) / 2 < share ? low : high) = middle;
  }
  return low;
}

void read_file(Context& context, const Node& node, std::vector<std::int64_t>& lengths) {
  auto& problems = context.problems;
  const auto name = read_text(problems, node, "'file'");
  if (!name) return;
  const auto path = std::filesystem::path(beside(node, *name)).string();
  const auto refuse = [&](const std::string& why) {
    problems.error(node.where(),
                   fmt::format("{}: {}; the file must hold one number of tokens per line", in_quotes(path), why));
  };
  try {
    const auto text = read_text_file(path, kLargestFile, context.files);
    std::size_t line = 1;
    for (const char *at = text.data(), *end = at + text.size(); at != end;) {
      if (*at == '\n') line++;
      if (*at == '\n' || *at == '\r' || *at == ' ' || *at == ',') {
        at++;
        continue;
      }
      std::int64_t tokens = 0;
      const auto [rest, wrong] = std::from_chars(at, end, tokens);
      if (wrong != std::errc() || tokens < 1 || tokens > kTokens.high)
        return refuse(fmt::format("line {} is not a number from 1 to 1e9", line));
      lengths.push_back(tokens), at = rest;
    }
    if (lengths.empty()) refuse("there is no number");
  } catch (const UserError& e) {
    problems.error(node.where(), fmt::format("{} {}", in_quotes(path), e.diagnostics()[0].message));
  }
}

std::vector<std::int64_t> read_lengths(Context& context, const Node& node) {
  auto& problems = context.problems;
  std::vector<std::int64_t> lengths;
  if (node.kind != Node::Kind::map || node.entries.size() != 1) {
    problems.error(node.where(), fmt::format("'lengths' must be {}; found {}", kKinds, describe(node)));
    return lengths;
  }
  MapReader map(problems, node, "batch.lengths");
  if (map.given("fixed")) lengths.push_back(map.integer("fixed", kTokens));
  if (const Node* list = map.find("list")) {
    if (list->kind != Node::Kind::sequence || list->items.empty())
      problems.error(list->where(), fmt::format("'list' must be a list of lengths; found {}", describe(*list)));
    else
      for (const Node* item : list->items)
        lengths.push_back(read_integer(problems, *item, "an entry of 'list'", kTokens).value_or(1));
  }
  if (const Node* file = map.find("file")) read_file(context, *file, lengths);
  if (const Node* curve = map.find("lognormal")) {
    if (curve->kind != Node::Kind::sequence || curve->items.size() != 2) {
      problems.error(curve->where(), "'lognormal' must be [MU, SIGMA], of the natural logarithm of tokens");
    } else {
      const auto mu = read_number(problems, *curve->items[0], "MU of 'lognormal'", {0, 20});
      const auto sigma = read_number(problems, *curve->items[1], "SIGMA of 'lognormal'", {0, 10});
      for (int i = 0; mu && sigma && i < kDrawn; i++)
        lengths.push_back(std::int64_t(
            std::clamp(std::round(std::exp(*mu + *sigma * quantile((i + .5) / kDrawn))), 1., double(kTokens.high))));
    }
  }
  map.finish();
  return lengths;
}

}  // namespace

void load_lengths(Context& context, MapReader& map, plan::Batch& batch) {
  auto& problems = context.problems;
  const Node* node = map.find("lengths");
  if (node) batch.lengths = read_lengths(context, *node);
  for (const char* key : {"packing", "document_mask"})
    if (!node && map.given(key))
      problems.error(map.at(key), fmt::format("'{}' needs the lengths of documents; give 'lengths'", key));
  if (node && batch.document_mask && !batch.packed)
    problems.error(map.at("document_mask"),
                   "'document_mask' separates the documents of a sequence, but with 'packing: none' each has only one; "
                   "set 'packing' to pack");
  bool cut = false;
  for (auto& length : batch.lengths) cut |= length > batch.sequence, length = std::min(length, batch.sequence);
  if (cut)
    problems.warn(map.at("lengths"),
                  fmt::format("documents longer than the sequence are truncated to {} tokens", batch.sequence));
  // Then nothing is left to say.
  const bool whole = std::all_of(batch.lengths.begin(), batch.lengths.end(),
                                 [&](std::int64_t length) { return length == batch.sequence; });
  if (whole) batch.lengths.clear(), batch.packed = batch.document_mask = false;
}

}  // namespace rehearsal::scenario
