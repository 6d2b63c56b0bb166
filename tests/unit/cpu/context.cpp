// A sequence split over several ranks, all simulated here: their joint result against one rank with the whole sequence.
#include <numeric>
#include <set>

#include "cpu/synthetic.hpp"
#include "kernels/cut.hpp"
#include "oracle.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

using kernels::Cut;

constexpr double kClose = 2e-6;

// The rows of one rank of x[b, s, columns].
Floats rows_of(const Floats& x, std::int64_t b, std::int64_t s, std::int64_t columns, const Cut& cut) {
  const std::int64_t local = s / cut.ranks;
  Floats own;
  for (std::int64_t sequence = 0; sequence < b; ++sequence)
    for (std::int64_t i = 0; i < local; ++i) {
      const auto from = x.begin() + (sequence * s + cut.position(i, local)) * columns;
      own.insert(own.end(), from, from + columns);
    }
  return own;
}

KernelContext at(std::int64_t index) {
  KernelContext around;
  around.context = index;
  return around;
}

struct Case {
  std::int64_t b, heads, kv, s, d, c;
};
// One rank; odd numbers of rows; more keys than one query sees; grouped heads.
constexpr Case kCases[] = {{1, 1, 1, 4, 3, 1}, {2, 2, 1, 12, 5, 2}, {1, 4, 2, 18, 3, 3}, {1, 2, 2, 16, 17, 4}};
constexpr Sight kSights[] = {{Mask::none},      {Mask::causal},          {Mask::causal_balanced},
                             {Mask::causal, 1}, {Mask::causal, 4},       {Mask::causal_balanced, 5},
                             {Mask::causal, 9}, {Mask::causal, 4, true}, {Mask::causal_balanced, 5, true}};

}  // namespace

// Six ranks, by hand: of 24 positions rank 2 of 3 has, in turn, 16 .. 23; balanced, runs 2 and 3 of 6, which are 8
// .. 15.
TEST_CASE("every position of a sequence is one rank's, in ascending order") {
  CHECK(Cut{3, 2, false}.position(0, 8) == 16);
  CHECK(Cut{3, 2, true}.position(0, 8) == 8);
  CHECK(Cut{3, 2, true}.position(7, 8) == 15);
  CHECK(Cut{3, 0, true}.position(3, 8) == 3);
  CHECK(Cut{3, 0, true}.position(4, 8) == 20);
  for (const bool balanced : {false, true})
    for (const std::int64_t c : {1, 2, 3, 5}) {
      const std::int64_t rows = 6;
      std::set<std::int64_t> all;
      for (std::int64_t rank = 0; rank < c; ++rank) {
        const Cut cut{c, rank, balanced};
        for (std::int64_t i = 0; i < rows; ++i) {
          all.insert(cut.position(i, rows));
          if (i > 0) CHECK(cut.position(i, rows) > cut.position(i - 1, rows));
        }
        for (std::int64_t p = 0; p < c * rows; ++p) {
          std::int64_t count = 0;
          for (std::int64_t i = 0; i < rows; ++i) count += cut.position(i, rows) <= p;
          CHECK(cut.up_to(p, rows) == count);
        }
      }
      CHECK(all.size() == std::size_t(c * rows));
      CHECK(*all.rbegin() == c * rows - 1);
    }
}

TEST_CASE("balanced, every rank looks at as many pairs as the others, in every step") {
  constexpr std::int64_t c = 4, rows = 6;
  for (std::int64_t step = 1; step < c; ++step) {
    std::set<std::int64_t> pairs;
    for (std::int64_t own = 0; own < c; ++own) {
      std::int64_t seen = 0;
      for (std::int64_t i = 0; i < rows; ++i)
        seen += Cut{c, (own + c - step) % c, true}.up_to(Cut{c, own, true}.position(i, rows), rows);
      pairs.insert(seen);
    }
    CHECK(pairs == std::set<std::int64_t>{rows * rows / 2});
  }
}

TEST_CASE(
    "attention over the blocks of all ranks is attention, block by block or all at once, and so is its gradient") {
  for (const auto& [b, heads, kv, s, d, c] : kCases)
    for (const Sight& sight : kSights) {
      const Mask mask = sight.mask;
      CAPTURE(s);
      CAPTURE(c);
      CAPTURE(sight.dim());
      const std::int64_t local = s / c, T = b * local, row = heads * d, kv_row = 2 * kv * d, columns = row + kv_row;
      if (mask == Mask::causal_balanced && local % 2 != 0) continue;
      const Floats qkv = random(b * s * columns, 1, 1.5), dout = random(b * s * row, 2);
      Doubles levels;
      const Doubles whole = oracle::attention(b, heads, kv, s, d, sight, wide(qkv), &levels);
      const Doubles direction = wide(dout);
      const Doubles dwhole =
          slopes([&, bb = b, hh = heads, kk = kv, ss = s, dd = d](
                     const Doubles& v) { return inner(direction, oracle::attention(bb, hh, kk, ss, dd, sight, v)); },
                 wide(qkv));
      Floats expected, dexpected;
      for (const double v : whole) expected.push_back(float(v));
      for (const double v : dwhole) dexpected.push_back(float(v));

      const auto cut = [&](std::int64_t rank) { return Cut{c, rank, mask == Mask::causal_balanced}; };
      std::vector<Floats> queries(c), blocks(c);
      Floats gathered;
      for (std::int64_t rank = 0; rank < c; ++rank) {
        queries[rank] = rows_of(qkv, b, s, columns, cut(rank));
        blocks[rank].assign(T * kv_row, NAN);
        run(KernelKind::take_columns, {T, columns, row, kv_row}, {&queries[rank], &blocks[rank]});
        gathered.insert(gathered.end(), blocks[rank].begin(), blocks[rank].end());
      }
      const KernelDims dims{b, heads, local, d, sight.dim(), kv, c};
      const auto step = [&](std::int64_t number) {
        KernelDims with = dims;
        with[7] = number;
        return with;
      };
      std::vector<Floats> dkv(c, Floats(T * kv_row)), dq(c, Floats(T * row));
      Floats dkv_gathered(c * T * kv_row);
      for (std::int64_t rank = 0; rank < c; ++rank) {
        const Floats right = rows_of(expected, b, s, row, cut(rank));
        Floats out(T * row, NAN), lse(b * heads * local, NAN), at_once = out, lse_at_once = lse;
        for (std::int64_t k = 0; k < c; ++k)
          run(KernelKind::attention_part, step(k), {&queries[rank], &blocks[(rank + c - k) % c], &out, &lse}, at(rank));
        CHECK(distance(out, wide(right)) < kClose);
        run(KernelKind::attention_part, step(kAllBlocks), {&queries[rank], &gathered, &at_once, &lse_at_once},
            at(rank));
        CHECK(at_once == out);
        CHECK(lse_at_once == lse);
        for (std::int64_t h = 0; h < b * heads; ++h)
          for (std::int64_t i = 0; i < local; ++i)
            CHECK(double(lse[h * local + i]) ==
                  doctest::Approx(levels[h * s + cut(rank).position(i, local)]).epsilon(1e-5));

        Floats d_own = rows_of(dout, b, s, row, cut(rank)), dq_at_once(T * row);
        for (std::int64_t k = 0; k < c; ++k) {
          const std::int64_t from = (rank + c - k) % c;
          run(KernelKind::attention_part_gradient, step(k),
              {&queries[rank], &blocks[from], &out, &lse, &d_own, &dq[rank], &dkv[from]}, at(rank));
        }
        run(KernelKind::attention_part_gradient, step(kAllBlocks),
            {&queries[rank], &gathered, &out, &lse, &d_own, &dq_at_once, &dkv_gathered}, at(rank));
        CHECK(dq_at_once == dq[rank]);
      }
      Floats joined;
      for (std::int64_t rank = 0; rank < c; ++rank) {
        Floats dqkv(T * columns, NAN);
        run(KernelKind::put_columns, {T, columns, 0, row}, {&dq[rank], &dqkv});
        run(KernelKind::put_columns, {T, columns, row, kv_row}, {&dkv[rank], &dqkv});
        CHECK(distance(dqkv, wide(rows_of(dexpected, b, s, columns, cut(rank)))) < 5e-6);
        joined.insert(joined.end(), dkv[rank].begin(), dkv[rank].end());
      }
      CHECK(distance(dkv_gathered, wide(joined)) < kClose);
    }
}

TEST_CASE("positions and rotations are those of the rank's rows") {
  constexpr std::int64_t b = 2, s = 12, c = 3, n = 5, local = s / c;
  for (const bool balanced : {false, true}) {
    Floats table = random(s * n, 1);
    const Floats x = random(b * s * n, 2), dy = random(b * s * n, 3);
    Floats whole = x, dtable(s * n);
    run(KernelKind::add_positions, {b * s, n, s}, {&table, &whole});
    Floats dwhole(s * n), direction = dy;
    run(KernelKind::positions_gradient, {b * s, n, s}, {&direction, &dwhole});
    for (std::int64_t rank = 0; rank < c; ++rank) {
      const Cut cut{c, rank, balanced};
      Floats own = rows_of(x, b, s, n, cut), d_own = rows_of(dy, b, s, n, cut);
      run(KernelKind::add_positions, {b * local, n, local, c, balanced}, {&table, &own}, at(rank));
      CHECK(own == rows_of(whole, b, s, n, cut));
      run(KernelKind::positions_gradient, {b * local, n, local, c, balanced}, {&d_own, &dtable}, at(rank));

      const Floats before = rows_of(x, b, s, n, cut);
      Floats turned = before;
      run(KernelKind::rotary, {b * local, local, 1, 4, n, c, balanced}, {&turned}, at(rank));
      std::vector<std::int64_t> positions;
      for (std::int64_t i = 0; i < b * local; ++i) positions.push_back(cut.position(i % local, local));
      CHECK(distance(turned, oracle::rotary(positions, 1, 4, n, wide(before))) < kClose);
      run(KernelKind::rotary_gradient, {b * local, local, 1, 4, n, c, balanced}, {&turned}, at(rank));
      CHECK(distance(turned, wide(before)) < kClose);
    }
    CHECK(dtable == dwhole);  // every position is one rank's
  }
}

// Two all-to-alls around attention over whole sequences of a share of the heads (DeepSpeed Ulysses, arXiv 2309.14509).
TEST_CASE("columns are cut for all ranks and rows joined to whole sequences, and back") {
  constexpr std::int64_t b = 2, s = 12, c = 3, q = 6, k = 3, columns = q + 2 * k, local = s / c, T = b * local;
  for (const bool balanced : {false, true}) {
    const Floats x = random(b * s * columns, 1);
    std::vector<Floats> sent(c), rows(c);
    for (std::int64_t rank = 0; rank < c; ++rank) {
      rows[rank] = rows_of(x, b, s, columns, {c, rank, balanced});
      sent[rank].assign(T * columns, NAN);
      run(KernelKind::cut_columns, {T, c, q, k}, {&rows[rank], &sent[rank]});
    }
    const std::int64_t block = T * columns / c;
    const auto all_to_all = [&](const std::vector<Floats>& from, std::int64_t to) {
      Floats got;
      for (std::int64_t rank = 0; rank < c; ++rank)
        got.insert(got.end(), from[rank].begin() + to * block, from[rank].begin() + (to + 1) * block);
      return got;
    };
    std::vector<Floats> returned(c);
    for (std::int64_t rank = 0; rank < c; ++rank) {
      Floats got = all_to_all(sent, rank), whole(b * s * columns / c, NAN), back(got.size(), NAN);
      run(KernelKind::join_rows, {b, local, columns / c, c, balanced}, {&got, &whole});
      // Of every row: queries 2 r and 2 r + 1, then one column of keys and one of values.
      for (std::int64_t row = 0; row < b * s; ++row) {
        const float* from = x.data() + row * columns;
        CHECK(Floats(whole.begin() + row * 4, whole.begin() + row * 4 + 4) ==
              Floats{from[2 * rank], from[2 * rank + 1], from[q + rank], from[q + k + rank]});
      }
      run(KernelKind::cut_rows, {b, local, columns / c, c, balanced}, {&whole, &back});
      CHECK(back == got);
      returned[rank] = back;
    }
    for (std::int64_t rank = 0; rank < c; ++rank) {
      Floats got = all_to_all(returned, rank), joined(T * columns, NAN);
      run(KernelKind::join_columns, {T, c, q, k}, {&got, &joined});
      CHECK(joined == rows[rank]);
    }
  }
}

TEST_CASE("context ranks have the rows of one micro-batch between them") {
  backend::TrainingData learning{.seed = 3, .micro_batch = 2, .sequence = 12, .microbatches = 1, .vocabulary = 50};
  const Sample whole = sample(learning, 1);
  for (const bool balanced : {false, true}) {
    learning.context = 3, learning.balanced = balanced;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const Sample own = sample(learning, 1, rank);
      REQUIRE(own.tokens.size() == 8);
      for (std::int64_t i = 0; i < 8; ++i) {
        const std::int64_t place = i / 4 * 12 + Cut{3, rank, balanced}.position(i % 4, 4);
        CHECK(own.tokens[i] == whole.tokens[place]);
        CHECK(own.targets[i] == whole.targets[place]);
      }
    }
  }
}

}  // namespace rehearsal::cpu
