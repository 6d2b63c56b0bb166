// The transport over MPI with real bytes: this program starts itself as two and four ranks, which send, receive and
// reduce data that they can check. A rank that finds a mistake throws; the parent's test shows its message.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "../collective_cases.hpp"
#include "base/bf16.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/probe.hpp"
#include "graph/builder.hpp"
#include "launch/launch.hpp"
#include "launch/launcher.hpp"
#include "launch/rank_process.hpp"
#include "mpi/blas.hpp"
#include "mpi/environment.hpp"
#include "mpi/mpi_transport.hpp"

namespace rehearsal {
namespace {

using graph::EndpointId;
using graph::EndpointKind;
using mpi::MpiTransport;

void expect(bool condition, const std::string& what) {
  if (!condition) throw MachineError(what);
}

// --- the ranks -----------------------------------------------------------------------------------------------------

// Below and above the eager limit of shared memory (4 KiB), with several in flight.
constexpr std::array<std::size_t, 4> kSizes = {1, 100, 5000, 3'000'000};
constexpr std::uint32_t kMessages = 6, kIterations = 2;

// A ring: endpoint i sends kSizes[i] to the next rank, endpoint n+i receives it from the one before; endpoint 2n joins
// all, endpoint 2n+1 the ranks of the same parity.
graph::TaskGraph ring(std::size_t ranks) {
  graph::GraphBuilder builder;
  const std::size_t n = kSizes.size();
  graph::ProgramBuilder p("ring");
  const WorkId receive = builder.intern(graph::Receive{});
  const WorkId reduce = builder.intern(graph::Collective{.size = Bytes(64), .group = {}});
  for (EndpointKind kind : {EndpointKind::send, EndpointKind::receive})
    for (std::size_t size : kSizes) {
      const auto end = p.endpoint(kind);
      const bool sends = kind == EndpointKind::send;
      const WorkId send = builder.intern(graph::Message{.size = Bytes(size), .gathered = {}});
      for (std::uint32_t k = 0; k < kMessages; ++k)
        p.add({sends ? send : receive, sends ? graph::Lane::send : graph::Lane::receive, {}, end.value, {}});
    }
  for (int g = 0; g < 2; ++g) p.add({reduce, graph::Lane::data_comm, {}, p.endpoint(EndpointKind::group).value, {}});
  const ProgramId program = builder.add(std::move(p).finish());
  std::vector<graph::GroupMember> all, parity[2];
  for (std::size_t r = 0; r < ranks; ++r) {
    const RankId rank = builder.add_rank(program, 1, std::uint32_t(r));
    all.push_back({rank, EndpointId(2 * n)});
    parity[r % 2].push_back({rank, EndpointId(2 * n + 1)});
  }
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i)
      builder.connect(RankId(r), EndpointId(i), RankId((r + 1) % ranks), EndpointId(n + i));
  builder.add_group(Axis::data | Axis::tensor, all);
  for (const auto& members : parity) builder.add_group(Axis::data, members);
  return std::move(builder).finish();
}

std::byte content(std::size_t rank, std::size_t size, std::uint32_t k, std::size_t at) {
  return std::byte(rank * 31 + size * 7 + k * 13 + at);
}

void check_messages(launch::Bootstrap& all, MpiTransport& transport, std::size_t rank, std::size_t ranks) {
  const std::size_t before = (rank + ranks - 1) % ranks, n = kSizes.size();
  for (std::uint32_t iteration = 0; iteration < kIterations; ++iteration) {
    const Time asked = dispatch::now();
    const Time start = transport.agree_on_start();
    expect(start > asked, "the start lies ahead");
    const auto starts = all.gather_everywhere("start", std::to_string(start.count()));
    expect(std::ranges::count(starts, starts[0]) == std::int64_t(ranks), "all ranks start at the same instant");
    std::vector<std::byte> bytes;
    for (std::uint32_t k = 0; k < kMessages; ++k)
      for (std::size_t i = 0; i < n; ++i) {
        bytes.resize(kSizes[i]);
        for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = content(rank, kSizes[i], k + iteration, at);
        const auto posted = transport.post(EndpointId(i), bytes, Time{});
        expect(!posted.arrives && posted.at <= dispatch::now(), "a sender does not know of the arrival");
        std::ranges::fill(bytes, std::byte{0});  // the transport has its own copy
      }
    for (std::size_t i = n; i-- > 0;)
      for (std::uint32_t k = 0; k < kMessages; ++k) {
        std::optional<Time> at;
        while (!(at = transport.arrived(EndpointId(n + i), k))) transport.wait(dispatch::now() + seconds(1e-3));
        expect(*at <= dispatch::now(), "arrivals are stamped when they are seen");
        expect(transport.arrived(EndpointId(n + i), k) == at, "an arrival stays what it was");
        bytes.resize(kSizes[i]);
        transport.take(EndpointId(n + i), bytes);
        for (std::size_t b = 0; b < bytes.size(); ++b)
          if (bytes[b] != content(before, kSizes[i], k + iteration, b))
            throw MachineError(
                fmt::format("byte {} of message {} of {} bytes in iteration {}", b, k, kSizes[i], iteration));
      }
  }
}

dispatch::Transport::Meeting met(MpiTransport& transport, EndpointId group) {
  for (;;) {
    if (const auto meeting = transport.joined(group)) return *meeting;
    transport.wait(dispatch::now() + seconds(1e-3));
  }
}

template <class T>
dispatch::Transport::Meeting meet(MpiTransport& transport, EndpointId group, CollectiveKind kind, std::span<const T> in,
                                  std::span<T> out) {
  transport.join(group, kind, sizeof(T) == 4 ? Precision::fp32 : Precision::bf16,
                 {std::as_bytes(in), std::as_writable_bytes(out)}, nullptr);
  return met(transport, group);
}

float number(float stored) { return stored; }
float number(std::uint16_t stored) { return from_bf16(stored); }
void store(float value, float& to) { to = value; }
void store(float value, std::uint16_t& to) { to = to_bf16(value); }

// Whole numbers, so that sums are exact: member i of n contributes (i + 1) e at element e, counted to a limit that
// keeps n (n + 1) / 2 times as much within the digits of the type.
template <class T>
void check_collectives(MpiTransport& transport, EndpointId group, std::size_t index, std::size_t members,
                       std::size_t part) {
  const std::size_t whole = part * members, limit = sizeof(T) == 4 ? 1000 : 7;
  const float sum = float(members * (members + 1)) / 2;
  auto mine = [&](std::size_t e) { return float(index + 1) * float(e % limit); };
  auto expect_equal = [&](float found, float expected, const char* what, bool in_place, std::size_t e) {
    if (found != expected)
      throw MachineError(fmt::format("{}{} of {} members, element {} of {}: {} instead of {}", what,
                                     in_place ? " in place" : "", members, e, whole, found, expected));
  };
  for (const bool in_place : {false, true}) {
    std::vector<T> all(whole), out(whole);
    for (std::size_t e = 0; e < whole; ++e) store(mine(e), all[e]);
    std::span<T> into = in_place ? all : out;
    const auto meeting = meet<T>(transport, group, CollectiveKind::all_reduce, all, into);
    expect(meeting.together <= meeting.done, "joined before done");
    for (std::size_t e = 0; e < whole; ++e)
      expect_equal(number(into[e]), sum * float(e % limit), "all-reduce", in_place, e);

    for (std::size_t e = 0; e < whole; ++e) store(mine(e), all[e]);
    into = std::span(in_place ? all : out).subspan(in_place ? index * part : 0, part);
    meet<T>(transport, group, CollectiveKind::reduce_scatter, all, into);
    for (std::size_t e = 0; e < part; ++e)
      expect_equal(number(into[e]), sum * float((index * part + e) % limit), "reduce-scatter", in_place, e);

    for (std::size_t e = 0; e < part; ++e) store(float(index * 10 + e % 7), all[index * part + e]);
    meet<T>(transport, group, CollectiveKind::all_gather, std::span(all).subspan(index * part, part),
            in_place ? all : out);
    for (std::size_t i = 0; i < members; ++i)
      for (std::size_t e = 0; e < part; ++e)
        expect_equal(number((in_place ? all : out)[i * part + e]), float(i * 10 + e % 7), "all-gather", in_place,
                     i * part + e);

    // Two buffers of bytes that are not reduced: block `to` of member i holds 5 i + to.
    for (std::size_t e = 0; e < whole; ++e) store(float(5 * index + e / part), all[e]);
    std::vector<T> blocks(whole);
    meet<T>(transport, group, CollectiveKind::all_to_all, all, blocks);
    for (std::size_t e = 0; e < whole; ++e)
      expect_equal(number(blocks[e]), float(5 * (e / part) + index), "all-to-all", in_place, e);
    const std::size_t before = (index + members - 1) % members;
    meet<T>(transport, group, CollectiveKind::shift, all, in_place ? all : out);
    for (std::size_t e = 0; e < whole; ++e)
      expect_equal(number((in_place ? all : out)[e]), float(5 * before + e / part), "shift", in_place, e);
  }
}

// Every algorithm by its own steps, against sums in double precision and against MPI's own; an all-reduce gives all
// members the same bits. Several lengths in a row, so that steps of one meet those of the next.
void check_steps(launch::Bootstrap& all, MpiTransport& transport, EndpointId group, std::uint32_t members) {
  std::string bits;
  for (const auto& execution : cases::executions(members)) {
    for (const std::size_t length : {0, 1, 7, 1000, 100'000}) {
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        for (const auto form : cases::forms(execution.algorithm->kind)) {
          const cases::Case wanted{execution.algorithm->kind, precision, members, length, form};
          cases::Operands ours(wanted, all.rank()), theirs(wanted, all.rank());
          transport.join(group, wanted.kind, precision, ours.all(), &execution);
          const auto meeting = met(transport, group);
          expect(meeting.together <= meeting.done, "joined before done");
          const std::string wrong = ours.wrong();
          if (!wrong.empty()) throw MachineError(execution.algorithm->name + ", " + wrong);
          if (wanted.kind == CollectiveKind::all_reduce) {
            const auto result = ours.bits();
            bits += sha256({reinterpret_cast<const char*>(result.data()), result.size()});
          }
          if (wanted.kind == CollectiveKind::broadcast || length == 0) continue;
          transport.join(group, wanted.kind, precision, theirs.all(), nullptr);
          met(transport, group);
          expect(theirs.wrong().empty(), "MPI's own result is within the same rounding");
          if (!wanted.adds()) expect(ours.bits() == theirs.bits(), "what is not added up has the bits of MPI's own");
        }
      }
    }
  }
  const auto everywhere = all.gather_everywhere("bits", sha256(bits));
  expect(std::ranges::count(everywhere, everywhere[0]) == std::int64_t(everywhere.size()), "all have the same bits");
}

void check_gather(launch::Bootstrap& all) {
  const auto bytes = all.gather("bytes", std::string(all.rank() * 1000, char('a' + all.rank())));
  expect(bytes.size() == (all.rank() == 0 ? all.size() : 0), "rank 0 has the bytes of all");
  for (std::size_t r = 0; r < bytes.size(); ++r)
    expect(bytes[r] == std::string(r * 1000, char('a' + r)), "bytes are in rank order");
  for (const std::string id : {std::string("\0id", 3), std::string(5'000'000, 'x'), std::string()})
    expect(all.broadcast("id", all.rank() == 0 ? id : "ignored") == id, "rank 0's bytes");
}

void transport_rank(launch::Bootstrap& all, bool spin) {
  const std::size_t rank = all.rank(), ranks = all.size(), n = kSizes.size();
  const graph::TaskGraph graph = ring(ranks);
  MpiTransport transport(graph, RankId(rank), {.spin = spin, .clock = {}, .stop = nullptr});
  check_messages(all, transport, rank, ranks);
  for (std::size_t part : {1, 3, 1000, 100'000}) {
    check_collectives<float>(transport, EndpointId(2 * n), rank, ranks, part);
    check_collectives<float>(transport, EndpointId(2 * n + 1), rank / 2, (ranks + 1 - rank % 2) / 2, part);
    check_collectives<std::uint16_t>(transport, EndpointId(2 * n), rank, ranks, part);
  }
  check_steps(all, transport, EndpointId(2 * n), std::uint32_t(ranks));
  check_gather(all);
  expect(mpi::ranks_here() == ranks, "all on one host");

  // All ranks share this machine's clock: the true offset is 0, and must be within the bound.
  const mpi::ClockOffset clock = mpi::measure_clock(MPI_COMM_WORLD);
  expect(clock.error >= Time{} && clock.error < seconds(0.1) && clock.offset <= clock.error &&
             -clock.offset <= clock.error,
         fmt::format("offset {} ps, error {} ps", clock.offset.count(), clock.error.count()));
}

int rank_program(const std::string& what) {
  launch::RankProcess job(launch::Launchers::mpi, [](const auto&) { return mpi::open_bootstrap(); });
  job.guarded([&] {
    launch::Bootstrap& all = job.bootstrap();
    if (what == "probe") {
      const graph::TaskGraph graph = dispatch::probe_graph(all.size());
      MpiTransport transport(graph, RankId(all.rank()), {.spin = true, .clock = {}, .stop = nullptr});
      dispatch::Progress unwatched;
      job.publish(dispatch::write(dispatch::probe(transport, RankId(all.rank()), all.size(), {}, unwatched)));
    } else {
      transport_rank(all, what == "spin");
      job.publish("right");
    }
  });
  return 0;
}

}  // namespace

TEST_CASE("messages and collectives carry the right bytes, in order, among 2 to 5 ranks") {
  for (const std::size_t ranks : {2, 3, 4, 5})
    CHECK(launch::run_ranks({.ranks = ranks, .arguments = {"sleep"}, .timeout = seconds(60), .hang_report = {}}) ==
          std::vector<std::string>(ranks, "right"));
  CHECK(launch::run_ranks({.ranks = 2, .arguments = {"spin"}, .timeout = seconds(60), .hang_report = {}}) ==
        std::vector<std::string>(2, "right"));
}

TEST_CASE("the probe measures every size") {
  std::vector<dispatch::LinkProbe> probes;
  for (const std::string& text :
       launch::run_ranks({.ranks = 2, .arguments = {"probe"}, .timeout = seconds(60), .hang_report = {}}))
    probes.push_back(dispatch::read_probe(text));
  const dispatch::LinkProbe probe = dispatch::merge(probes);
  CHECK(probe.ranks == 2);
  REQUIRE(probe.links.size() >= 2);
  for (const auto& link : probe.links) {
    CAPTURE(link.size.count());
    CHECK(link.post > Time{});
    CHECK(link.take > Time{});
    CHECK(link.latency >= link.post - seconds(1e-3));  // it ends after the copy that the post makes
    MESSAGE(fmt::format("{:>8} bytes: post {:8.2f} us, late take {:8.2f} us, latency {:8.2f} us", link.size.count(),
                        to_seconds(link.post) * 1e6, to_seconds(link.take) * 1e6, to_seconds(link.latency) * 1e6));
  }
  // Four megabytes take longer than 64 bytes, whatever else the machine does.
  CHECK(probe.links.back().latency > probe.links.front().latency);
  CHECK(probe.collectives.size() == 3 * probe.links.size());
  for (const auto& collective : probe.collectives) CHECK(collective.lasts > Time{});
  CHECK_THROWS_AS(dispatch::read_probe("2 1 3 0\n64 1"), MachineError);
}

TEST_CASE("OpenBLAS computes what the own kernel computes") {
  const auto [fast, name] = mpi::fastest_gemm();
  MESSAGE(std::string(name));
  const std::int64_t m = 5, n = 7, k = 3;
  std::vector<float> a(m * k), b(k * n);
  std::iota(a.begin(), a.end(), 1.f);
  std::iota(b.begin(), b.end(), -4.f);
  for (int flags = 0; flags < 8; ++flags) {
    std::vector<float> ours(m * n, 2.f), theirs(m * n, 2.f);
    cpu::GemmCall call{m, n, k, a.data(), b.data(), ours.data(), (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
    cpu::gemm(call);
    call.c = theirs.data();
    fast(call);
    CHECK(ours == theirs);  // small whole numbers: exact in any order
  }
}

}  // namespace rehearsal

int main(int argc, char** argv) {
  using namespace rehearsal;
  if (argc == 2 && launch::is_rank()) {
    try {
      return rank_program(argv[1]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 3;
    }
  }
  try {
    launch::find_mpirun();
  } catch (const MachineError& why) {
    std::printf("skipped: %s\n", why.what());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
