#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "plan/parallelism.hpp"

namespace rehearsal::plan {

double Batch::mean_length() const {
  return std::accumulate(lengths.begin(), lengths.end(), 0.) / double(lengths.size());
}

// A row of s tokens holds one document or, packed, as many of each length as their share of all tokens; each has l^2
// scores. So the share of s^2 is the mean of l^2 over s^2, or over s times the mean of l.
double Batch::needed() const {
  if (lengths.empty() || (packed && !document_mask)) return 1;
  double squares = 0;
  for (const auto length : lengths) squares += double(length) * double(length);
  squares /= double(lengths.size());
  return squares / (double(sequence) * (packed ? mean_length() : double(sequence)));
}

// Documents come in an order that knows nothing of their lengths and fill row after row; what does not fit begins the
// next one, and a row counts as full. Rows go to the replicas in turn.
double Batch::attended(std::int64_t replicas) const {
  if (!packed || !document_mask) return 1;
  if (std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t length) { return length == lengths.front(); }))
    return needed();
  constexpr std::int64_t kMostRows = 100'000;
  Random dice(1);
  auto order = lengths;
  std::size_t next = order.size();
  const auto document = [&] {
    if (next == order.size()) {
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice.below(i)]);
      next = 0;
    }
    return order[next++];
  };
  std::vector<double> scores(static_cast<std::size_t>(replicas));
  const auto rows = std::max(replicas, std::min(global, kMostRows) / replicas * replicas);
  auto waiting = document();
  for (std::int64_t row = 0; row < rows; ++row) {
    double tokens = 0, squares = 0;
    for (; tokens + double(waiting) <= double(sequence); waiting = document())
      tokens += double(waiting), squares += double(waiting) * double(waiting);
    scores[static_cast<std::size_t>(row % replicas)] += squares / (tokens * double(sequence));
  }
  // A few rows may have drawn short documents: a step has no fewer scores than steps have on average.
  return std::max(needed(), *std::max_element(scores.begin(), scores.end()) / double(rows / replicas));
}

}  // namespace rehearsal::plan
