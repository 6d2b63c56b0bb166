#include "answer/memory_pattern.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace rehearsal::answer {
namespace {

using graph::Access;

// Fewer periods are replayed: it takes some until a state comes again.
constexpr std::size_t kFewPeriods = 4;
constexpr std::size_t kCandidates = 8;

}  // namespace

Stretch longest_stretch(std::span<const std::uint32_t> symbols) {
  std::map<std::size_t, std::size_t> distances;  // to the last equal symbol, and how often
  const auto most = symbols.empty() ? 0 : *std::max_element(symbols.begin(), symbols.end());
  std::vector<std::size_t> last(most + 1, MemoryPattern::kNever);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const auto before = std::exchange(last[symbols[i]], i);
    if (before != MemoryPattern::kNever) ++distances[i - before];
  }
  std::vector<std::pair<std::size_t, std::size_t>> often;
  for (const auto& [distance, count] : distances) often.emplace_back(count, distance);
  std::sort(often.rbegin(), often.rend());
  Stretch longest;
  for (std::size_t c = 0; c < std::min(often.size(), kCandidates); ++c) {
    const auto period = often[c].second;
    for (std::size_t i = period, run = 0; i < symbols.size(); ++i) {
      run = symbols[i] == symbols[i - period] ? run + 1 : 0;
      if (run > longest.end - longest.begin - longest.period && run + period >= kFewPeriods * period)
        longest = {i + 1 - run - period, i + 1, period};
    }
  }
  return longest;
}

MemoryPattern::MemoryPattern(const graph::Program& program, std::span<const timeline::MemoryChange> changes)
    : program_(program), changes_(changes), origins_(program.buffers.size()), freed_(program.buffers.size(), kNever) {
  stretch_ = longest_stretch(symbols());
}

// One number for each change: equal where it does the same to buffers that are as old.
std::vector<std::uint32_t> MemoryPattern::symbols() {
  std::vector<std::uint32_t> all;
  std::map<std::vector<std::int64_t>, std::uint32_t> known;
  std::vector<std::int64_t> what;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    const auto& change = changes_[i];
    const auto fold = program_.fold.empty() ? 0 : program_.fold[change.task];
    const bool at_once = !program_.folds[fold].steps.empty();  // a fused task also frees when it begins
    what.assign({change.begins, change.ends, fold, static_cast<std::int64_t>(program_.lane[change.task])});
    const auto uses = program_.uses[change.task];
    for (std::uint32_t u = 0; u < uses.size() && change.begins; ++u) {
      if (uses[u].how() != Access::allocate) continue;
      const auto& buffer = program_.buffers[uses[u].buffer];
      origins_[uses[u].buffer] = {i, u};
      what.insert(what.end(), {u, buffer.size.count(), static_cast<std::int64_t>(buffer.category), buffer.tensors,
                               static_cast<std::int64_t>(buffer.tier), buffer.contiguous});
    }
    what.push_back(-1);
    for (std::uint32_t u = 0; u < uses.size() && (at_once ? change.begins : change.ends); ++u) {
      if (uses[u].how() != Access::free) continue;
      const auto& [from, use] = origins_[uses[u].buffer];
      freed_[uses[u].buffer] = i;
      if (from == kNever)
        what.insert(what.end(), {u, -1, uses[u].buffer});
      else
        what.insert(what.end(), {u, static_cast<std::int64_t>(i - from), use});
    }
    all.push_back(known.try_emplace(what, static_cast<std::uint32_t>(known.size())).first->second);
  }
  return all;
}

}  // namespace rehearsal::answer
