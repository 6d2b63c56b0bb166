// One box from one sender: times of the strategies, by hand and by the model of the paper.
#include "reshard/strategy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "reshard/transfers.hpp"

using namespace rehearsal::reshard;
using doctest::Approx;

namespace {

// 100 bytes/s by NIC, 1000 by NVLink, 0.25 s latency.
const Link kSlow{100, 1000, 0.25};
const Link kPlain{100};  // no latency, NVLink without time

Resharding one_to(Mesh to, std::int64_t elements) {
  return {{{1, 1}, parse_spec("R")}, {to, parse_spec("R")}, {elements}};
}

}  // namespace

TEST_CASE("send/recv: full copies one after the other") {
  // 6 devices x 200 bytes / 100 bytes/s + 0.25 s
  CHECK(send_recv_seconds(200, {2, 6}, kSlow) == Approx(12.25));
}

TEST_CASE("local all-gather: a copy per host, then parts inside") {
  // 2 x 2 s + 0.25 s, then 2 steps of (200 / 3 / 1000 + 0.25) s
  CHECK(local_allgather_seconds(200, {2, 6}, kSlow) == Approx(4.25 + 2 * (200.0 / 3 / 1000 + 0.25)));
}

TEST_CASE("global all-gather: one copy, then a ring over all devices") {
  // 2 s + 0.25 s, half of it once more by NIC, 5 more messages
  CHECK(global_allgather_seconds(200, {2, 6}, kSlow) == Approx(2.25 + 1 + 5 * 0.25));
  CHECK(global_allgather_seconds(200, {1, 4}, kPlain) == Approx(2));
}

TEST_CASE("broadcast: a chain of chunks") {
  // 4 chunks of 50 bytes: 0.75 s per NIC hop, 0.3 s per NVLink hop. 2 NIC hops and 4 NVLink hops, 3 more chunks behind.
  const Chain c = chain(200, {2, 6}, 4, kSlow);
  CHECK(c.seconds({2, 6}) == Approx(2 * 0.75 + 4 * 0.3 + 3 * 0.75));
  // One receiver: a message, however many chunks are asked for.
  CHECK(chain(200, {1, 1}, 100, kSlow).seconds({1, 1}) == Approx(2.25));
}

TEST_CASE("the best number of chunks is not beaten by any other") {
  for (const Receivers to : {Receivers{2, 2}, Receivers{3, 6}, Receivers{5, 40}})
    for (const double bytes : {10., 1000., 1e6}) {
      const auto best = best_chunks(bytes, to, 100'000, kSlow);
      for (std::int64_t k = 1; k < 3000; k++)
        CHECK(chain(bytes, to, best, kSlow).seconds(to) <= chain(bytes, to, k, kSlow).seconds(to) + 1e-12);
    }
  // Without latency as many as there are; one receiver: one. 2 NIC hops: K = sqrt(t / a) = sqrt(400 / 0.25) = 40.
  CHECK(best_chunks(1000, {2, 2}, 500, kPlain) == 500);
  CHECK(best_chunks(1000, {1, 1}, 500, kPlain) == 1);
  CHECK(best_chunks(40'000, {2, 2}, 100'000, kSlow) == 40);
}

TEST_CASE("one sender and 1 GiB at 10 Gb/s, as the model of the paper has it") {
  std::ifstream file(std::string(TEST_DATA) + "/golden/resharding/model_1_to_m.csv");
  std::string line;
  REQUIRE(std::getline(file, line));
  std::size_t rows = 0;
  for (; std::getline(file, line); rows++) {
    CAPTURE(line);
    std::vector<double> cell;
    std::istringstream cells(line);
    for (std::string text; std::getline(cells, text, ',') && cell.size() < 13;) cell.push_back(std::stod(text));
    const auto hosts = std::uint32_t(cell[0]), per_host = std::uint32_t(cell[1]);
    const Receivers to{hosts, hosts * per_host};
    const double bytes = cell[2];
    const Link link{cell[3] * 1e9 / 8};
    const auto same = [&](double seconds, double expected) { CHECK(std::abs(seconds - expected) < 1e-6); };
    same(send_recv_seconds(bytes, to, link), cell[6]);
    same(local_allgather_seconds(bytes, to, link), cell[7]);
    same(global_allgather_seconds(bytes, to, link), cell[9]);  // host after host; cell 8 is a ring over single GPUs
    same(chain(bytes, to, std::int64_t(cell[4]), link).seconds(to), cell[10]);
    // The original's rule: which of them it would gather, and what its send/recv takes then.
    const auto resharding = one_to({hosts, per_host}, std::int64_t(bytes) / 4);
    CHECK(alpa_allgather_applies(side_of(resharding.destination, resharding.shape)) == (cell[11] == 1));
    Method method;
    method.strategy = Strategy::alpa_allgather;
    double elements = 0;
    for (const auto& t : transfers(resharding, method)) elements += double(t.work);
    same(elements * 4 / link.nic, cell[12]);
  }
  CHECK(rows == 7);
}

TEST_CASE("blind spots of the original's all-gather") {
  Method method;
  method.strategy = Strategy::alpa_allgather;
  // 2^28 elements for 3 GPUs of one host: gcd(3, 2^28) = 1, three full copies.
  CHECK(transfers(one_to({1, 3}, 1 << 28), method).front().work == 1 << 28);
  // Two hosts, replicated: no all-gather at all.
  CHECK(transfers(one_to({2, 4}, 1024), method).size() == 8);
  // 6 elements for 4 GPUs: gcd 2, halves, each of them sent to two GPUs.
  const auto halves = transfers(one_to({1, 4}, 6), method);
  REQUIRE(halves.size() == 4);
  for (const auto& t : halves) CHECK(t.work == 3);
}

TEST_CASE("local all-gather sends each host every element once, split over its devices") {
  Method method;
  method.strategy = Strategy::local_allgather;
  // Each of these is a blind spot of the original: 3 GPUs of a host, two hosts with all of it, 6 elements for 4 GPUs.
  for (const auto& [mesh, elements] :
       std::vector<std::pair<Mesh, std::int64_t>>{{{1, 3}, 1 << 28}, {{2, 4}, 1024}, {{1, 4}, 6}}) {
    CAPTURE(mesh.rows);
    CAPTURE(elements);
    std::vector<std::int64_t> into(mesh.rows);  // each host
    for (const auto& t : transfers(one_to(mesh, elements), method)) {
      REQUIRE(t.receiver_devices.size() == 1);
      into[t.receiver_devices.front() / mesh.columns] += t.size;
      CHECK(t.size <= (elements + mesh.columns - 1) / mesh.columns);
      CHECK(t.gathered == elements);
      CHECK(t.gatherers == mesh.columns);
    }
    CHECK(into == std::vector<std::int64_t>(mesh.rows, elements));
  }
}

TEST_CASE("a receiver set of one device never broadcasts") {
  for (const auto strategy : {Strategy::broadcast, Strategy::automatic, Strategy::global_allgather}) {
    Method method;
    method.strategy = strategy;
    for (const auto& t : transfers({{{2, 2}, parse_spec("S0R")}, {{2, 2}, parse_spec("S01R")}, {8, 8}}, method))
      CHECK(t.strategy == Strategy::send_recv);
  }
}

TEST_CASE("what a task alone takes least time with") {
  const auto chosen = [](Mesh to, std::int64_t elements, const Link& link, NicSharing nic = NicSharing::host) {
    Method method;
    method.strategy = Strategy::automatic, method.link = link, method.element_bytes = 1, method.nic = nic;
    return transfers(one_to(to, elements), method).front().strategy;
  };
  // Pure bandwidth: nothing beats a chain of many chunks.
  CHECK(chosen({4, 1}, 1000, kPlain) == Strategy::broadcast);
  // 2 elements to 4 hosts: messages of 0.02 s against 0.25 s of latency: 4 x 0.02 + 0.25, a chain pays 4 x 0.27.
  CHECK(chosen({4, 1}, 2, kSlow) == Strategy::send_recv);
  // 1000 elements to the 2 GPUs of a host: 100 chunks pay 25 s of latency; halves pay it twice.
  CHECK(chosen({1, 2}, 1000, kSlow) == Strategy::local_allgather);
}

TEST_CASE("stripes: with a NIC for every GPU each rail carries a part") {
  Method method;
  method.strategy = Strategy::striped, method.nic = NicSharing::gpu;
  // 10 elements from two replicas to 2 hosts x 3 GPUs: parts of 3, 3 and 4 elements, to the j-th GPU of both hosts.
  const auto parts = transfers({{{1, 2}, parse_spec("R")}, {{2, 3}, parse_spec("R")}, {10}}, method);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].box == Box{{0, 3}});
  CHECK(parts[2].box == Box{{6, 10}});
  CHECK(parts[1].receivers == std::vector<std::uint32_t>{3, 6});  // after the 2 senders: 2 + 1 and 2 + 3 + 1
  CHECK(parts[1].senders == std::vector<std::uint32_t>{0, 1});
  CHECK(parts[1].gathered == 10);
  CHECK(parts[1].gatherers == 3);
}
