// The rules: which work may run when, and which accesses to memory are legal.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "kernels/host.hpp"
#include "recorder/recorder.hpp"

namespace rehearsal::test {
namespace {

constexpr std::size_t kComplaints = 20;

}  // namespace

void merge(Knowledge& into, const Knowledge& more) {
  if (into.size() < more.size()) into.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) into[i] = std::max(into[i], more[i]);
}

bool covers(const Knowledge& known, const Knowledge& of) {
  for (std::size_t i = 0; i < of.size(); ++i)
    if (of[i] > (i < known.size() ? known[i] : 0)) return false;
  return true;
}

World::World(Manner manner) : manner_(std::move(manner)), random_(manner_.seed) {
  // Shared memory of blocks is allocated and freed thousands of times, so keep it in the process.
  mallopt(M_MMAP_THRESHOLD, 64 << 20), mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

void World::complain(const std::string& what) {
  if (broken_.size() < kComplaints) broken_.push_back(what);
}

bool World::knows(const Knowledge& known, std::size_t stream, std::uint64_t when) const {
  return stream < known.size() && known[stream] >= when;
}

World::Block* World::block_of(const std::byte* address) {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  Block& block = *std::prev(after)->second;
  return address < block.bytes.data() + block.bytes.size() ? &block : nullptr;
}

std::size_t World::blocks() const {
  return static_cast<std::size_t>(std::ranges::count_if(blocks_, [](const auto& b) { return b.second->allocated; }));
}

std::size_t World::waiting() const {
  std::size_t left = 0;
  for (const Stream& stream : streams_) left += stream.queue.size();
  return left;
}

std::string World::heads() const {
  std::string lines;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].queue.empty()) continue;
    const Operation& head = streams_[i].queue.front();
    lines += fmt::format("  device {} stream {}: {}", streams_[i].device->index_, i, head.name);
    for (const Meeting& m : head.meetings)
      lines += fmt::format(" (communicator {}, number {}, {} in the device's order{})", m.line, m.number, head.launch,
                           head.started ? ", started" : "");
    lines += "\n";
  }
  return lines;
}

bool World::progress() {
  std::vector<std::size_t> order(streams_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, random_);
  bool any = false;
  for (const std::size_t stream : order) {
    // Some streams run far ahead, others are starved.
    const std::size_t burst = std::size_t{1} << random_() % 8;
    for (std::size_t i = 0; i < burst && advance(stream); ++i) any = true;
  }
  return any;
}

bool World::advance(std::size_t index) {
  Stream& stream = streams_[index];
  if (stream.queue.empty()) return false;
  Operation& head = stream.queue.front();
  if (head.host) merge(stream.known, *head.host);
  head.host.reset();
  auto& events = stream.device->events_;
  if (head.waits) {
    const auto& event = events[head.waits->event];
    if (event.reached < head.waits->number) return false;
    merge(stream.known, event.known);
    stream.at = std::max(stream.at, event.time);
  }
  if (!head.meetings.empty() && !meet(index)) return false;
  if (head.meetings.empty() || head.started) {
    bool inside = true;
    for (const Access& access : head.accesses) inside = check(index, access, head.name) && inside;
    if (head.run && inside) head.run();
  }
  end(index);
  return true;
}

// True when all meetings of the stream's head are over.
bool World::meet(std::size_t index) {
  Operation& head = streams_[index].queue.front();
  const std::size_t device = streams_[index].device->index_;
  if (!head.started) {
    if (manner_.launch_order && head.launch != started_[device] + 1) return false;
    head.started = true;
    ++started_[device];
    head.together = streams_[index].at;
  }
  for (Meeting& mine : head.meetings) {
    if (mine.done) continue;
    if (mine.kind == Meeting::Kind::collective)
      combine(index, mine);
    else
      exchange(index, mine);
  }
  return std::ranges::all_of(head.meetings, [](const Meeting& m) { return m.done; });
}

bool World::exchange(std::size_t index, Meeting& mine) {
  using Kind = Meeting::Kind;
  for (Stream& other : streams_) {
    if (other.queue.empty() || !other.queue.front().started) continue;
    for (Meeting& theirs : other.queue.front().meetings) {
      if (theirs.done || theirs.line != mine.line || theirs.number != mine.number || theirs.index != mine.peer ||
          theirs.peer != mine.index || (mine.kind == Kind::send) != (theirs.kind == Kind::receive))
        continue;
      const Meeting& send = mine.kind == Kind::send ? mine : theirs;
      const Meeting& receive = mine.kind == Kind::send ? theirs : mine;
      if (send.in_size != receive.out_size)
        complain(fmt::format("a send of {} bytes meets a receive of {}", send.in_size, receive.out_size));
      const std::size_t size = std::min(send.in_size, receive.out_size);
      Operation& a = streams_[index].queue.front();
      Operation& b = other.queue.front();
      if (size > 0) std::memmove(receive.out, send.in, size);
      merge(a.learned, other.known), merge(b.learned, streams_[index].known);
      a.together = b.together = std::max(a.together, b.together);
      mine.done = theirs.done = true;
      return true;
    }
  }
  return false;
}

bool World::combine(std::size_t, Meeting& mine) {
  const auto members = static_cast<std::size_t>(lines_[mine.line].members);
  std::vector<std::pair<Stream*, Meeting*>> all(members);
  for (Stream& stream : streams_) {
    if (stream.queue.empty() || !stream.queue.front().started) continue;
    for (Meeting& m : stream.queue.front().meetings)
      if (!m.done && m.kind == Meeting::Kind::collective && m.line == mine.line && m.number == mine.number)
        all[static_cast<std::size_t>(m.index)] = {&stream, &m};
  }
  if (std::ranges::any_of(all, [](const auto& m) { return m.first == nullptr; })) return false;
  Knowledge known;
  Time together;
  for (const auto& [stream, m] : all) {
    if (m->collective != mine.collective || m->precision != mine.precision || m->in_size != mine.in_size)
      complain("members of a communicator call different collectives");
    merge(known, stream->known);
    together = std::max(together, stream->queue.front().together);
  }
  // All inputs are read before any output is written: in place is allowed.
  std::vector<std::vector<std::byte>> in;
  for (const auto& [stream, m] : all) in.emplace_back(m->in, m->in + m->in_size);
  std::vector<std::byte> sum;
  if (mine.collective == CollectiveKind::all_reduce || mine.collective == CollectiveKind::reduce_scatter) {
    sum = in.front();
    const auto elements = static_cast<std::int64_t>(sum.size()) / bytes_per_element(mine.precision);
    for (std::size_t i = 1; i < members; ++i)
      if (in[i].size() == sum.size()) kernels::accumulate_on_host(mine.precision, sum.data(), in[i].data(), elements);
  }
  for (std::size_t i = 0; i < members; ++i) {
    Meeting& m = *all[i].second;
    switch (m.collective) {
      case CollectiveKind::all_reduce:
        std::copy(sum.begin(), sum.end(), m.out);
        break;
      case CollectiveKind::reduce_scatter:
        std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(i * m.out_size), m.out_size, m.out);
        break;
      case CollectiveKind::all_gather:
        for (std::size_t from = 0; from < members; ++from)
          std::copy(in[from].begin(), in[from].end(), m.out + from * m.in_size);
        break;
      case CollectiveKind::all_to_all: {
        const auto block = static_cast<std::ptrdiff_t>(m.in_size / members);
        for (std::size_t from = 0; from < members; ++from)
          std::copy_n(in[from].begin() + static_cast<std::ptrdiff_t>(i) * block, block,
                      m.out + static_cast<std::ptrdiff_t>(from) * block);
        break;
      }
      case CollectiveKind::shift:
        std::copy(in[(i + members - 1) % members].begin(), in[(i + members - 1) % members].end(), m.out);
        break;
      case CollectiveKind::broadcast:
        INVARIANT(false, "no task of a training step performs this collective yet");
    }
    Operation& theirs = all[i].first->queue.front();
    merge(theirs.learned, known);
    theirs.together = together;
    m.done = true;
  }
  return true;
}

void World::end(std::size_t index) {
  Stream& stream = streams_[index];
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  merge(stream.known, operation.learned);
  stream.at = std::max(stream.at, operation.together) + operation.lasts;
  if (stream.known.size() <= index) stream.known.resize(index + 1);
  ++stream.known[index];
  ++executed_;
  if (!operation.records) return;
  auto& event = stream.device->events_[operation.records->event];
  event.reached = std::max(event.reached, operation.records->number);
  event.known = stream.known;
  event.time = stream.at;
}

bool World::check(std::size_t index, const Access& access, const std::string& who) {
  if (access.size == 0) return true;
  const Knowledge known = [&] {
    Knowledge all = streams_[index].known;
    merge(all, streams_[index].queue.front().learned);
    return all;
  }();
  Block* block = block_of(access.from);
  if (!block) return complain(who + " touches memory that is no block of a device"), false;
  const auto from = static_cast<std::size_t>(access.from - block->bytes.data()), to = from + access.size;
  if (to > block->bytes.size()) {
    complain(fmt::format("{} reaches {} bytes beyond a block", who, to - block->bytes.size()));
    return false;
  }
  if (!block->allocated) return complain(who + " touches a block before its allocation or after its release"), true;
  const std::uint64_t mine = (index < known.size() ? known[index] : 0) + 1;
  for (const Past& past : block->past)
    if (past.from < to && from < past.to && (past.writes || access.writes) && past.stream != index &&
        !knows(known, past.stream, past.when))
      complain(fmt::format("nothing orders '{}' ({}) and '{}' ({})", past.who, past.writes ? "writes" : "reads", who,
                           access.writes ? "writes" : "reads"));
  std::erase_if(block->past, [&](const Past& past) {
    return from <= past.from && past.to <= to && (access.writes || (!past.writes && past.stream == index));
  });
  block->past.push_back({from, to, index, mine, access.writes, who});
  return true;
}

}  // namespace rehearsal::test
