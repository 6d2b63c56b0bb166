#include "balance/assignment.hpp"

#include <algorithm>

namespace rehearsal::balance {

// Rows are added one at a time. Duals u of rows and v of columns keep cost(i, j) >= u_i + v_j, with equality along
// the matching, which makes it optimal for the rows so far; a shortest augmenting path adds the next row. Row and
// column 0 mean "none".
std::vector<std::uint32_t> assign(const std::vector<std::int64_t>& gain, std::uint32_t n) {
  constexpr std::int64_t kFar = std::int64_t(1) << 60;
  std::vector<std::int64_t> u(n + 1), v(n + 1), distance(n + 1);
  std::vector<std::uint32_t> row_of(n + 1), from(n + 1);
  std::vector<char> done(n + 1);
  for (std::uint32_t row = 1; row <= n; ++row) {
    row_of[0] = row;
    std::uint32_t column = 0;
    std::fill(distance.begin(), distance.end(), kFar);
    std::fill(done.begin(), done.end(), char(0));
    do {
      done[column] = 1;
      const auto i = row_of[column];
      std::int64_t least = kFar;
      std::uint32_t next = 0;
      for (std::uint32_t j = 1; j <= n; ++j) {
        if (done[j]) continue;
        const auto reduced = -gain[std::size_t(i - 1) * n + j - 1] - u[i] - v[j];
        if (reduced < distance[j]) distance[j] = reduced, from[j] = column;
        if (distance[j] < least) least = distance[j], next = j;
      }
      for (std::uint32_t j = 0; j <= n; ++j) {
        if (done[j])
          u[row_of[j]] += least, v[j] -= least;
        else
          distance[j] -= least;
      }
      column = next;
    } while (row_of[column] != 0);
    while (column != 0) {
      row_of[column] = row_of[from[column]];
      column = from[column];
    }
  }
  std::vector<std::uint32_t> place(n);
  for (std::uint32_t j = 1; j <= n; ++j) place[row_of[j] - 1] = j - 1;
  return place;
}

}  // namespace rehearsal::balance
