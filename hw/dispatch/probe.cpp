#include "dispatch/probe.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "graph/builder.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointId;
using graph::EndpointKind;

// Factors of four, and of two around 4 KiB, where shared-memory transports change from eager to rendezvous.
constexpr std::array<std::size_t, 11> kSizes = {64,       256,      1 << 10,   2 << 10, 4 << 10, 8 << 10,
                                                16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr std::array kKinds = {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather};
constexpr int kWarmup = 4, kRounds = 24, kFewestRounds = kWarmup + 4;
const Time kLongest = seconds(1);        // of all rounds, unless the fewest take longer
constexpr std::size_t kCold = 32 << 20;  // larger than the caches of one core
constexpr std::size_t kMostBuffers = 64;

// Time between the starts of two rounds, unless a network is slower: several times a round on a slow machine (0.5
// GB/s).
Time gap(std::size_t bytes) { return seconds(200e-6 + double(bytes) * 2e-9); }

Time median(std::vector<Time> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

class Rotating {
 public:
  explicit Rotating(std::size_t bytes) : buffers_(std::clamp<std::size_t>(kCold / bytes, 2, kMostBuffers)) {
    for (auto& buffer : buffers_) buffer.assign(bytes, std::byte{1});
  }
  std::span<std::byte> next() { return buffers_[at_++ % buffers_.size()]; }

 private:
  std::vector<std::vector<std::byte>> buffers_;
  std::size_t at_ = 0;
};

// Drives the transport until `when`, and at least once: on a busy machine a rank may be late for every round.
void poke_until(Transport& transport, Time when) {
  do transport.wait(when);
  while (now() < when);
}

// The rounds of one size, the same on all ranks.
struct Pace {
  Time pause;  // between the starts of two
  int rounds = kRounds;
};

// One is tried first: all ranks know how long it lasts, because all know when it begins and when the next may.
template <class Round>
Pace pace(Transport& transport, std::size_t bytes, const Round& round) {
  const Time before = transport.agree_on_start(), start = transport.agree_on_start();
  round(start);
  const Time lasts = (transport.agree_on_start() - start) - (start - before);
  const Time pause = std::max(gap(bytes), 3 * lasts);
  return {pause, std::clamp(static_cast<int>(kLongest / pause), kFewestRounds, kRounds)};
}

// In the first half of the rounds the receiver waits; in the second half it comes half a pause later, as one does that
// was busy: the transport was not driven for it meanwhile. The sender's time is since the common start, which both know
// by their own clock.
LinkSample probe_link(Transport& transport, RankId rank, EndpointId endpoint, std::size_t bytes, Progress& progress) {
  Rotating buffers(bytes);
  std::vector<Time> post, take, latency;
  const auto round = [&](Time start, Time at, int number, Time late, bool counts) {
    const auto buffer = buffers.next();
    ++progress.moves;
    if (rank.value == 0) {
      poke_until(transport, at);
      const Time begin = now(), since = begin - start;
      std::memcpy(buffer.data(), &since, sizeof since);
      transport.post(endpoint, buffer, Time{});
      if (counts) post.push_back(now() - begin);
    } else if (rank.value == 1) {
      late > Time{} ? sleep_until(at + late) : poke_until(transport, at);
      const Time begin = now();
      while (!transport.arrived(endpoint, static_cast<std::uint32_t>(number))) sched_yield();
      transport.take(endpoint, buffer);
      const Time end = now();
      Time since;
      std::memcpy(&since, buffer.data(), sizeof since);
      if (counts) late > Time{} ? take.push_back(end - begin) : latency.push_back(end - start - since);
    }
  };
  const Pace pace = dispatch::pace(transport, bytes, [&](Time start) { round(start, start, 0, {}, false); });
  const Time start = transport.agree_on_start(), quarter(pace.pause.count() / 4);
  for (int i = 0; i < 2 * pace.rounds; ++i) {
    const bool early = i < pace.rounds;
    round(start, start + i * pace.pause, i, early ? Time{} : 2 * quarter, i % pace.rounds >= kWarmup);
  }
  poke_until(transport, start + 2 * pace.rounds * pace.pause);
  return {.size = Bytes(bytes), .post = median(post), .take = median(take), .latency = median(latency)};
}

Time probe_collective(Transport& transport, EndpointId group, CollectiveKind kind, std::size_t ranks, std::size_t bytes,
                      const Algorithms& algorithms, Progress& progress) {
  const std::size_t part = std::max<std::size_t>(1, bytes / sizeof(float) / ranks), whole = part * ranks;
  const std::size_t in = kind == CollectiveKind::all_gather ? part : whole;
  const std::size_t out = kind == CollectiveKind::reduce_scatter ? part : whole;
  Rotating ins(in * sizeof(float)), outs(out * sizeof(float));
  const auto execution = algorithms ? algorithms(kind, ranks, Bytes(whole * sizeof(float))) : collective::Execution();
  std::vector<Time> lasts;
  const auto round = [&](Time at, bool counts) {
    ++progress.moves;
    poke_until(transport, at);
    const Time begin = now();
    transport.join(group, kind, Precision::fp32, {ins.next(), outs.next()}, execution.algorithm ? &execution : nullptr);
    while (!transport.joined(group)) sched_yield();
    if (counts) lasts.push_back(now() - begin);
  };
  // A ring passes the array twice and adds; with many ranks on one memory each pass shares its bandwidth.
  const Pace pace = dispatch::pace(transport, bytes * 2 * ranks, [&](Time start) { round(start, false); });
  const Time start = transport.agree_on_start();
  for (int i = 0; i < pace.rounds; ++i) round(start + i * pace.pause, i >= kWarmup);
  return median(lasts);
}

}  // namespace

graph::TaskGraph probe_graph(std::size_t ranks) {
  graph::GraphBuilder builder;
  const graph::GroupShape all{.ranks = static_cast<std::uint32_t>(ranks)};
  const WorkId collective = builder.intern(graph::Collective{.size = Bytes(kSizes.back()), .group = all});
  const WorkId receive = builder.intern(graph::Receive{});
  std::vector<graph::GroupMember> members;
  for (std::size_t r = 0; r < ranks; ++r) {
    graph::ProgramBuilder program(r == 0 ? "sender" : r == 1 ? "receiver" : "bystander");
    const auto group = program.endpoint(EndpointKind::group);
    program.add({collective, graph::Lane::data_comm, {}, group.value, {}});
    for (std::size_t size : kSizes) {
      if (ranks < 2 || r > 1) continue;
      const auto end = program.endpoint(r == 0 ? EndpointKind::send : EndpointKind::receive);
      const WorkId message = builder.intern(graph::Message{.size = Bytes(size), .gathered = {}});
      program.add({r == 0 ? message : receive, r == 0 ? graph::Lane::send : graph::Lane::receive, {}, end.value, {}});
    }
    members.push_back(
        {builder.add_rank(builder.add(std::move(program).finish()), 1, std::uint32_t(r), std::uint32_t(r)), group});
  }
  for (std::size_t i = 0; ranks > 1 && i < kSizes.size(); ++i)
    builder.connect(RankId(0), EndpointId(1 + i), RankId(1), EndpointId(1 + i));
  builder.add_group(Axis::data, std::move(members));
  return std::move(builder).finish();
}

LinkProbe probe(Transport& transport, RankId rank, std::size_t ranks, const Algorithms& algorithms,
                Progress& progress) {
  wake_precisely();
  LinkProbe result;
  result.ranks = ranks;
  for (std::size_t i = 0; ranks > 1 && i < kSizes.size(); ++i)
    result.links.push_back(probe_link(transport, rank, EndpointId(1 + i), kSizes[i], progress));
  for (CollectiveKind kind : kKinds)
    for (std::size_t size : kSizes)
      result.collectives.push_back(
          {kind, Bytes(size), probe_collective(transport, EndpointId(0), kind, ranks, size, algorithms, progress)});
  return result;
}

LinkProbe merge(const std::vector<LinkProbe>& ranks) {
  INVARIANT(!ranks.empty(), "a probe has a rank");
  LinkProbe all = ranks.front();
  for (const LinkProbe& one : ranks) {
    INVARIANT(one.links.size() == all.links.size() && one.collectives.size() == all.collectives.size(),
              "all ranks probe the same");
    for (std::size_t i = 0; i < all.links.size(); ++i) {
      all.links[i].post = std::max(all.links[i].post, one.links[i].post);
      all.links[i].take = std::max(all.links[i].take, one.links[i].take);
      all.links[i].latency = std::max(all.links[i].latency, one.links[i].latency);
    }
    for (std::size_t i = 0; i < all.collectives.size(); ++i)
      all.collectives[i].lasts = std::max(all.collectives[i].lasts, one.collectives[i].lasts);
  }
  return all;
}

std::string write(const LinkProbe& probe) {
  std::string text =
      fmt::format("{} {:d} {} {}\n", probe.ranks, probe.single_copy, probe.links.size(), probe.collectives.size());
  for (const LinkSample& s : probe.links)
    text += fmt::format("{} {} {} {}\n", s.size.count(), s.post.count(), s.take.count(), s.latency.count());
  for (const CollectiveSample& s : probe.collectives)
    text += fmt::format("{} {} {}\n", static_cast<int>(s.kind), s.size.count(), s.lasts.count());
  return text;
}

LinkProbe read_probe(std::string_view text) {
  std::istringstream in{std::string(text)};
  LinkProbe probe;
  std::size_t links = 0, collectives = 0;
  in >> probe.ranks >> probe.single_copy >> links >> collectives;
  std::array<std::int64_t, 4> n{};
  for (; in && links > 0; --links) {
    in >> n[0] >> n[1] >> n[2] >> n[3];
    probe.links.push_back({Bytes(n[0]), Time(n[1]), Time(n[2]), Time(n[3])});
  }
  for (; in && collectives > 0; --collectives) {
    in >> n[0] >> n[1] >> n[2];
    probe.collectives.push_back({static_cast<CollectiveKind>(n[0]), Bytes(n[1]), Time(n[2])});
  }
  if (!in) throw MachineError("the measurements of a rank are cut short");
  return probe;
}

}  // namespace rehearsal::dispatch
