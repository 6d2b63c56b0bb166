// Documents of packed sequences: each computes what it computes alone, and all layouts see the same ones.
#include <algorithm>
#include <numeric>

#include "cpu/functions.hpp"
#include "cpu/synthetic.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

backend::TrainingData packed(std::vector<std::int64_t> lengths) {
  backend::TrainingData data;
  data.seed = 3, data.micro_batch = 4, data.sequence = 20, data.vocabulary = 11;
  data.documents = std::move(lengths);
  return data;
}

}  // namespace

TEST_CASE("a document in a packed sequence attends as it does alone, to the bit") {
  // 3 and 5 positions of two heads of 4 columns.
  const std::vector<std::int32_t> begins{0, 0, 0, 3, 3, 3, 3, 3};
  const std::int64_t row = 3 * 2 * 4;
  Floats qkv = random(std::size_t(8 * row), 1), dout = random(8 * 8, 2);
  for (const Sight sight :
       {Sight{Mask::causal, 0, false, 1}, Sight{Mask::causal, 2, false, 1}, Sight{Mask::causal, 2, true, 1}}) {
    Floats out(64), lse(16), dqkv(qkv.size());
    const KernelContext around{.batch = {.documents = begins}};
    run(KernelKind::attention, {1, 2, 8, 4, sight.dim()}, {&qkv, &out, &lse}, around);
    run(KernelKind::attention_gradient, {1, 2, 8, 4, sight.dim()}, {&qkv, &out, &lse, &dout, &dqkv}, around);
    Sight alone = sight;
    alone.documents = 0;
    for (const auto& [first, s] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 5}}) {
      const auto part = [&, f = first, n = s](const Floats& all, std::int64_t columns) {
        return Floats(all.begin() + f * columns, all.begin() + (f + n) * columns);
      };
      Floats own = part(qkv, row), made(std::size_t(8 * s)), levels(std::size_t(2 * s)), d(own.size());
      Floats given = part(dout, 8);
      run(KernelKind::attention, {1, 2, s, 4, alone.dim()}, {&own, &made, &levels});
      run(KernelKind::attention_gradient, {1, 2, s, 4, alone.dim()}, {&own, &made, &levels, &given, &d});
      CHECK(made == part(out, 8));
      CHECK(d == part(dqkv, row));
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t i = 0; i < s; ++i)
          CHECK(levels[std::size_t(h * s + i)] == lse[std::size_t(h * 8 + first + i)]);
    }
  }
}

TEST_CASE("learned positions begin anew with each document") {
  // Of 4 positions, the documents 0 | 1 2 3: rows 0, 0, 1, 2 of the table.
  const std::vector<std::int32_t> begins{0, 1, 1, 1};
  const KernelContext around{.batch = {.documents = begins}};
  Floats table{10, 20, 30, 40}, y(4, 0), dy{1, 2, 3, 4}, dtable(4, 0);
  run(KernelKind::add_positions, {4, 1, 4, 0, 0, 0, 1}, {&table, &y}, around);
  CHECK(y == Floats{10, 10, 20, 30});
  run(KernelKind::positions_gradient, {4, 1, 4, 0, 0, 0, 1}, {&dy, &dtable}, around);
  CHECK(dtable == Floats{3, 3, 4, 0});
}

TEST_CASE("a sequence has the same documents in every layout, and they fill it") {
  const auto whole = sample(packed({3, 7, 5}), 0).documents;
  REQUIRE(whole.size() == 80);
  for (std::size_t sequence = 0; sequence < 4; ++sequence) {
    const auto begin = whole.begin() + std::ptrdiff_t(20 * sequence);
    CHECK(std::is_sorted(begin, begin + 20));
    CHECK(*begin == 0);
    std::vector<std::int64_t> lengths;
    for (std::int64_t j = 0, first = 0; j < 20; first = j) {
      while (j < 20 && begin[j] == first) ++j;
      lengths.push_back(j - first);
    }
    CHECK(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) == 20);
    for (std::size_t n = 0; n + 1 < lengths.size(); ++n) CHECK((lengths[n] == 3 || lengths[n] == 7 || lengths[n] == 5));
  }
  // Two micro-batches of two are the one of four; parts of sequences know all of their documents.
  auto halves = packed({3, 7, 5});
  halves.micro_batch = 2;
  auto both = sample(halves, 0).documents;
  const auto second = sample(halves, 1).documents;
  both.insert(both.end(), second.begin(), second.end());
  CHECK(both == whole);
  auto cut = packed({3, 7, 5});
  cut.context = 2;
  CHECK(sample(cut, 0, 1).documents == whole);
  CHECK(sample(packed({}), 0).documents.empty());
}

}  // namespace rehearsal::cpu
