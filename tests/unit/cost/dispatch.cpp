// Dispatch of tokens to experts, by hand: which bytes go where, and what they take from concurrent kernels.
#include <doctest/doctest.h>

#include "machines.hpp"
#include "models/closed_forms.hpp"

using namespace rehearsal;
using graph::Dispatch;

namespace {

constexpr double kFixed = 60e-6;

cost::CostModel model(models::Dispatcher dispatcher, std::int64_t nodes) {
  models::Framework framework;
  framework.dispatcher = dispatcher;
  return {test::dgx_a100(nodes), {}, framework};
}
// 1,000 tokens of 1,000 bytes, 16 experts of which each sees 2.
Dispatch tokens(std::uint32_t ranks, bool two_hop) { return {1000, Bytes(1000), 16, 2, 0, two_hop, {ranks, 1}, 1}; }

}  // namespace

TEST_CASE("inside a node: a copy for each expert, or one for each GPU that has some") {
  // 2 copies, 7 of 8 to others, at .35 of 300 GB/s.
  CHECK(model(models::Dispatcher::nccl, 1).dispatch(tokens(8, false)) ==
        doctest::Approx(1e6 * 2 * 7 / 8 / (.35 * 300e9) + kFixed));
  const double met = models::expected_groups(16, 2, 8);
  CHECK(met == doctest::Approx(8 * (1 - (14. / 16) * (13. / 15))));
  CHECK(model(models::Dispatcher::deepep, 1).dispatch(tokens(8, true)) ==
        doctest::Approx(1e6 * met * 7 / 8 / (.79 * 300e9) + kFixed));
  CHECK(model(models::Dispatcher::deepep, 1).dispatch(tokens(1, true)) == 0);
}

TEST_CASE("NVLink with links cut off: channels copy what they did, as far as .75 of the rest carries it") {
  // .35 of 300 GB/s are 105, of 200 GB/s uncut to 300 as well, and of 100 GB/s .75.
  const auto at = [](double rate, std::optional<double> uncut) {
    auto machine = test::dgx_a100(1);
    machine.nvlink = Bandwidth(rate);
    if (uncut) machine.nvlink_uncut = Bandwidth(*uncut);
    return 1e6 * 2 * 7 / 8 / (cost::CostModel(machine, {}, models::Framework()).dispatch(tokens(8, false)) - kFixed);
  };
  CHECK(at(300e9, std::nullopt) == doctest::Approx(105e9));
  CHECK(at(200e9, std::nullopt) == doctest::Approx(70e9));
  CHECK(at(200e9, 300e9) == doctest::Approx(105e9));
  CHECK(at(100e9, 300e9) == doctest::Approx(75e9));
}

TEST_CASE("between nodes the slower way decides; two hops send a token to a node once") {
  const double out = .8 * 25e9, met = models::expected_groups(16, 2, 2);
  const double copies = 1e6 * 2 / 2. / out, once = 1e6 * met / 2 / (.9 * 25e9);
  const double nccl = model(models::Dispatcher::nccl, 2).dispatch(tokens(16, false));
  CHECK(nccl >= copies + kFixed);
  CHECK(nccl <= copies * 1.15 + kFixed);
  const double two_hops = model(models::Dispatcher::deepep, 2).dispatch(tokens(16, true));
  CHECK(two_hops >= once + kFixed);
  CHECK(two_hops < nccl);
  auto limited = tokens(16, true);
  limited.most_domains = 1;
  CHECK(model(models::Dispatcher::deepep, 2).dispatch(limited) < two_hops);
  auto uneven = tokens(16, true);
  uneven.load = 2;
  CHECK(model(models::Dispatcher::deepep, 2).dispatch(uneven) - kFixed == doctest::Approx(2 * (two_hops - kFixed)));
}

TEST_CASE("by steps of our own an exchange is an all-to-all in which all have as much as the busiest") {
  auto machine = test::dgx_a100(2);
  machine.library.nccl_protocols = false;
  const cost::CostModel cost(machine, {}, models::Framework());
  auto uneven = tokens(16, false);
  uneven.load = 1.5, uneven.loads.assign(16, 14.5 / 15), uneven.loads.front() = 1.5;
  CHECK(cost.dispatch(uneven) ==
        cost.collective({.kind = CollectiveKind::all_to_all, .size = Bytes(3'000'000), .group = {16, 1}}));
  CHECK(cost.dispatch(uneven) > cost.dispatch(tokens(16, false)));
}

TEST_CASE("time is that of the busiest rank, bytes are the mean of all") {
  const auto cost = model(models::Dispatcher::nccl, 2);
  auto uneven = tokens(16, false);
  uneven.load = 4, uneven.loads.assign(16, .8), uneven.loads.front() = 4;
  CHECK(cost.hops(uneven, cost::CostModel::Of::busiest).out == doctest::Approx(4 * 1e6));
  CHECK(cost.hops(uneven, cost::CostModel::Of::mean).out == doctest::Approx(1e6));
}

TEST_CASE("kernels beside an exchange lose the multiprocessors that it holds") {
  const auto cost = model(models::Dispatcher::deepep, 1);
  const Gemm gemm{4096, 4096, 4096, 1, Precision::bf16, false};
  const std::vector<graph::Work> works{gemm, tokens(8, true), graph::Sequence{{{WorkId(0), 4, false}}},
                                       graph::Overlapped{WorkId(2), WorkId(1)}};
  const auto price = cost.price(works);
  const double kernels = to_seconds(price[2]), exchange = to_seconds(price[1]), both = to_seconds(price[3]);
  REQUIRE(kernels > exchange);
  // 24 of 108 as long as it lasts.
  CHECK(both == doctest::Approx(kernels + exchange * 24 / 108).epsilon(1e-6));
}

TEST_CASE("a kernel beside the exchange loses those SMs, and idle time loses nothing") {
  const auto cost = model(models::Dispatcher::nccl, 1);
  const Gemm gemm{4096, 4096, 4096, 1, Precision::bf16, false};
  const Time idle = Time(1'000'000'000);  // nothing of the GPU for 1 ms
  const auto row = [](std::uint32_t first, std::uint32_t second) {
    return graph::Sequence{{{WorkId(first), 1, false}, {WorkId(second), 1, false}}};
  };
  const std::vector<graph::Work> works{gemm,
                                       tokens(8, false),
                                       graph::FixedDelay{idle},
                                       row(2, 0),
                                       row(0, 2),
                                       graph::Overlapped{WorkId(3), WorkId(1)},
                                       graph::Overlapped{WorkId(4), WorkId(1)},
                                       graph::Overlapped{WorkId(2), WorkId(1)}};
  const auto price = cost.price(works);
  const Time kernel = price[0], exchange = price[1];
  REQUIRE(exchange < idle);
  REQUIRE(exchange < kernel);
  CHECK(price[5] == idle + kernel);
  // 24 of 108 as long as it lasts.
  CHECK(to_seconds(price[6]) ==
        doctest::Approx(to_seconds(idle) + to_seconds(kernel) + to_seconds(exchange) * 24 / 108).epsilon(1e-6));
  CHECK(price[7] == idle);
  // A row that is shorter than its exchange lasts as long as that.
  auto many = tokens(8, false);
  many.tokens *= 1000;
  auto longer = works;
  longer[1] = many;
  const auto shows = cost.price(longer);
  REQUIRE(shows[1] > idle + kernel + kernel);
  CHECK(shows[5] == shows[1]);
  CHECK(shows[6] == shows[1]);
}
