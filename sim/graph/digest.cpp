// The digest of a graph: every field as little-endian integers behind a length, so that it depends neither on padding
// nor on the machine, and no two graphs share a stream of bytes.
#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "base/sha256.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::graph {
namespace {

class Stream {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) buffer_.push_back(static_cast<char>(bits & 0xff));
    if (buffer_.size() >= kFlush) flush();
  }
  void number(double value) { number(std::bit_cast<std::uint64_t>(value)); }
  template <class Tag>
  void number(Quantity<Tag> value) {
    number(value.count());
  }
  template <class Tag, class Rep>
  void number(Id<Tag, Rep> id) {
    number(id.value);
  }
  void text(const std::string& value) {
    number(std::uint64_t{value.size()});
    for (char c : value) number(c);
  }
  template <class Range, class Function>
  void list(const Range& range, Function each) {
    number(std::uint64_t{range.size()});
    for (const auto& value : range) each(value);
  }
  template <class Range>
  void numbers(const Range& range) {
    list(range, [this](const auto& value) { number(value); });
  }
  std::string hex() {
    flush();
    return sha_.hex();
  }

 private:
  static constexpr std::size_t kFlush = 1 << 16;
  void flush() {
    sha_.update(buffer_);
    buffer_.clear();
  }
  Sha256 sha_;
  std::string buffer_;
};

// Drops trailing zeros beyond the first `least`, so that graphs keep the digests from before the array grew.
template <std::size_t kMost>
std::span<const std::int64_t> used(const std::array<std::int64_t, kMost>& numbers, std::size_t least) {
  std::size_t count = kMost;
  while (count > least && numbers[count - 1] == 0) --count;
  return std::span(numbers).first(count);
}

struct AddWork {
  Stream& out;
  void operator()(const Gemm& w) const {
    out.number(w.m), out.number(w.n), out.number(w.k), out.number(w.batch);
    out.number(w.precision), out.number(w.weight_gradient);
  }
  void operator()(const FusedAttention& w) const {
    out.number(w.batch), out.number(w.heads), out.number(w.queries), out.number(w.keys), out.number(w.head_dim);
    if (w.share < 1) out.number(w.share);
    out.number(w.causal), out.number(w.backward);
    if (w.value_dim > 0) out.number(w.value_dim);
    if (bytes_per_element(w.precision) > 2) out.number(w.precision);
    if (w.seen > 0) out.number(w.seen), out.number(w.chunked);
  }
  void operator()(const MemoryBound& w) const {
    out.number(w.traffic), out.number(w.kernels), out.number(w.kind);
    if (w.beyond > Bytes{}) out.number(w.beyond);
  }
  void operator()(const Collective& w) const {
    out.number(w.kind), out.number(w.size);
    out.number(w.group.ranks), out.number(w.group.stride), out.number(w.tensors), out.number(w.pieces);
    if (w.precision != Precision::fp32) out.number(w.precision);
    if (w.inside != Axis::tensor) out.number(w.inside);
    if (w.room_kept) out.number(w.room_kept);
  }
  void operator()(const Dispatch& w) const {
    out.number(w.tokens), out.number(w.each), out.number(w.experts), out.number(w.per_token);
    out.number(w.most_domains), out.number(w.two_hop), out.number(w.group.ranks), out.number(w.group.stride);
    out.number(w.load);
    for (const double load : w.loads) out.number(load);
    if (w.back) out.number(w.back);
  }
  void operator()(const Overlapped& w) const { out.number(w.kernel), out.number(w.collective); }
  void operator()(const Message& w) const {
    out.number(w.size), out.number(w.from), out.number(w.to);
    out.number(w.gathered), out.number(w.gather.ranks), out.number(w.gather.stride);
    if (w.copied) out.number(w.copied);
    if (w.chunks > 1) out.number(w.chunks);
  }
  void operator()(const Receive&) const {}
  void operator()(const OptimizerStep& w) const { out.number(w.parameters), out.number(w.traffic); }
  void operator()(const FixedDelay& w) const { out.number(w.duration); }
  void operator()(const HostBound& w) const {
    out.number(w.host), out.number(w.busy);
    if (w.uneven) out.number(w.uneven);
  }
  void operator()(const Kernel& w) const {
    out.number(w.kind), out.numbers(used(w.dims, 5)), out.numbers(used(w.offsets, 6));
    if (w.precision != Precision::fp32) out.number(w.precision);
  }
  void operator()(const StagingCopy& w) const {
    if (w.region) {
      const auto& r = *w.region;
      for (const auto n : {r.offset, r.run, r.count[0], r.count[1], r.stride[0], r.stride[1], r.first, r.size})
        out.number(n);
    }
    out.number(w.size), out.number(w.incoming);
    if (w.offset > Bytes{}) out.number(w.offset);
  }
  void operator()(const Copy& w) const {
    out.number(w.size), out.number(w.from), out.number(w.to), out.number(w.turns);
    if (w.shard) out.number(*w.shard);
  }
  void operator()(const HostStep& w) const {
    out.number(w.parameters), out.number(w.traffic);
    if (w.late || w.stored != Precision::fp32) out.number(w.late), out.number(w.stored);
  }
  void operator()(const Sequence& w) const {
    out.list(w.items, [this](const Sequence::Item& item) {
      out.number(item.work), out.number(item.count), out.number(item.recompute);
    });
  }
};

bool holds_experts(const Program& program) {
  return std::any_of(program.segments.begin(), program.segments.end(),
                     [](const Segment& s) { return s.replicas() == Axis::expert_data; });
}

void add_program(Stream& out, const Program& program) {
  // On the device, a buffer has the same digest as before there were tiers.
  auto buffer = [&out](const Buffer& b) {
    out.number(b.size), out.number(static_cast<std::uint8_t>(static_cast<std::size_t>(b.category) + 16 * index(b.tier) +
                                                             (b.contiguous ? 128 : 0)));
  };
  out.text(program.name);
  out.numbers(program.work);
  out.numbers(program.lane);
  out.list(program.coordinates, [&out](const Coordinates& at) {
    out.number(at.pass), out.number(at.stage), out.number(at.layer), out.number(at.microbatch);
  });
  out.numbers(program.endpoint);
  out.numbers(program.sequence);
  for (std::size_t i = 0; i < program.size(); ++i) {
    out.numbers(program.dependencies[i]);
    out.list(program.uses[i], [&out](const BufferUse& use) { out.number(use.id()), out.number(use.how()); });
  }
  out.numbers(program.fold);
  out.list(program.folds, [&out](const FusedTask& fold) { out.numbers(fold.highest); });
  out.numbers(program.endpoints);
  out.list(program.buffers, buffer);
  out.number(program.residents);
  out.list(program.segments, [&out](const Segment& segment) {
    out.number(segment.parameters), out.number(segment.elements), out.number(segment.shards);
    out.number(segment.sharded_parameters), out.number(segment.copy);
    out.number(segment.previous.has_value()), out.number(segment.previous.value_or(BufferId{}));
    out.list(segment.tensors, [&out](const Tensor& t) {
      out.number(t.kind), out.number(t.layer), out.number(t.offset), out.number(t.split);
      out.number(t.outer), out.number(t.slice), out.number(t.inner), out.number(t.extent);
      if (t.outer_extent > 0) out.number(t.outer_extent);
    });
    if (segment.copied) out.number(segment.copied);
    if (segment.host_step) out.number(*segment.host_step);
    if (segment.precision == Precision::fp32 && !segment.host_step) return;
    out.number(segment.precision), out.number(segment.master.has_value());
    out.number(segment.master.value_or(BufferId{}));
  });
}

}  // namespace

std::string TaskGraph::digest() const {
  Stream out;
  out.list(works_, [&out](const Work& work) {
    out.number(std::uint8_t(work.index()));
    std::visit(AddWork{out}, work);
  });
  for (std::size_t w = 0; w < works_.size(); ++w)  // graphs without a fault keep their digests
    if (const auto& c = conditions_[w]; !c.sound())
      out.number(w), out.number(c.gpu), out.number(c.slowdown), out.number(c.port), out.number(c.wire);
  out.list(programs_, [&out](const Program& program) { add_program(out, program); });
  out.list(ranks_, [this, &out](const Rank& rank) {
    out.number(rank.program), out.number(rank.multiplicity), out.number(rank.job_rank), out.number(rank.node);
    const std::span<const std::uint32_t> place = rank.place.along;
    out.numbers(place.first(kFactors));
    constexpr auto kSecondFolding = index(Axis::shard) - kFactors;
    if (holds_experts(program_of(rank))) out.numbers(place.subspan(kFactors, kSecondFolding));
    const Program& program = program_of(rank);
    for (std::size_t e = 0; e < program.endpoints.size(); ++e) {
      const Attachment& to = rank.attachments[e];
      if (program.endpoints[e] == EndpointKind::group)
        out.number(to.group);
      else
        out.number(to.peer), out.number(to.peer_endpoint);
    }
  });
  out.list(groups_, [&out](const Group& group) {
    out.number(static_cast<std::uint8_t>(group.axes.bits()));
    if (group.axes.bits() > 0xff) out.number(static_cast<std::uint8_t>(group.axes.bits() >> 8));
    out.list(group.members, [&out](const GroupMember& m) { out.number(m.rank), out.number(m.endpoint); });
  });
  return out.hex();
}

}  // namespace rehearsal::graph
