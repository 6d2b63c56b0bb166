#include "interchange/runs.hpp"

#include <algorithm>
#include <string>

namespace rehearsal::interchange {
namespace {

constexpr std::size_t kMostFolded = 512;                      // the search below takes their third power
constexpr std::size_t kRepeatLength = 11, kBlockLength = 12;  // of "repeat: 3, ", and of "layers: [...]" around a block

Json repeated(std::size_t count, const Json& of) {
  if (count == 1) return of;
  Json run{{"repeat", std::int64_t(count)}};
  run.update(of);
  return run;
}

// The shortest text for each stretch of layers, from those of its parts: two beside each other, or a block that is
// repeated.
class Folding {
 public:
  explicit Folding(const std::vector<Json>& layers) : layers_(layers), n_(layers.size()) {
    for (const auto& layer : layers) texts_.push_back(layer.dump());
    alike_.assign((n_ + 1) * (n_ + 1), 0);
    for (std::size_t i = n_; i-- > 0;)
      for (std::size_t j = n_; j-- > 0;)
        alike_[i * (n_ + 1) + j] =
            texts_[i] == texts_[j] ? std::uint16_t(alike_[(i + 1) * (n_ + 1) + j + 1] + 1) : std::uint16_t(0);
    best_.resize(n_ * n_);
    for (std::size_t length = 1; length <= n_; ++length)
      for (std::size_t begin = 0; begin + length <= n_; ++begin) find(begin, length);
  }

  Json all() const {
    auto list = Json::array();
    append(list, 0, n_);
    return list;
  }

 private:
  struct Best {
    std::size_t text = 0;
    std::size_t first = 0;  // layers of the first part, or of the block
    bool repeats = false;
  };
  const Best& at(std::size_t begin, std::size_t length) const { return best_[begin * n_ + length - 1]; }

  void find(std::size_t begin, std::size_t length) {
    auto& best = best_[begin * n_ + length - 1];
    best = {texts_[begin].size(), 1, false};
    if (length == 1) return;
    best.text = std::size_t(-1);
    for (std::size_t block = 1; block <= length / 2; ++block) {
      if (length % block != 0 || alike_[begin * (n_ + 1) + begin + block] < length - block) continue;
      const auto text = at(begin, block).text + kRepeatLength + (block > 1 ? kBlockLength : 0);
      if (text < best.text) best = {text, block, true};
    }
    for (std::size_t first = 1; first < length; ++first) {
      const auto text = at(begin, first).text + 2 + at(begin + first, length - first).text;
      if (text < best.text) best = {text, first, false};
    }
  }

  void append(Json& list, std::size_t begin, std::size_t length) const {
    const auto& best = at(begin, length);
    if (length == 1) {
      list.push_back(layers_[begin]);
    } else if (!best.repeats) {
      append(list, begin, best.first), append(list, begin + best.first, length - best.first);
    } else if (best.first == 1) {
      list.push_back(repeated(length, layers_[begin]));
    } else {
      auto block = Json::array();
      append(block, begin, best.first);
      list.push_back(repeated(length / best.first, Json{{"layers", block}}));
    }
  }

  const std::vector<Json>& layers_;
  std::size_t n_;
  std::vector<std::string> texts_;
  std::vector<std::uint16_t> alike_;  // layers from i and from j that are equal, one by one
  std::vector<Best> best_;
};

}  // namespace

Json folded(const std::vector<Json>& layers) {
  if (layers.size() <= kMostFolded && !layers.empty()) return Folding(layers).all();
  auto list = Json::array();
  for (std::size_t i = 0, end; i < layers.size(); i = end) {
    const auto text = layers[i].dump();
    for (end = i + 1; end < layers.size() && layers[end].dump() == text;) ++end;
    list.push_back(repeated(end - i, layers[i]));
  }
  return list;
}

}  // namespace rehearsal::interchange
