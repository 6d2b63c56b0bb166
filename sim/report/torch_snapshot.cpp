#include "report/torch_snapshot.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <vector>

#include "timeline/memory.hpp"

namespace rehearsal::report {
namespace {

using graph::Access, graph::MemoryCategory;

// The opcodes of a pickle that its readers need: dictionaries, lists, texts and whole numbers.
class Pickle {
 public:
  explicit Pickle(const Sink& sink) : sink_(sink) { bytes_ = "\x80\x02"; }
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  void begin_list() { bytes_ += "]("; }
  void end_list() {
    bytes_ += 'e';
    if (bytes_.size() > kPiece) sink_(bytes_), bytes_.clear();
  }
  void text(std::string_view text) {
    bytes_ += 'X';
    little_endian(text.size(), 4);
    bytes_ += text;
  }
  void number(std::int64_t value) {
    if (value >= 0 && value < 0x80000000) {
      bytes_ += 'J';
      little_endian(std::uint64_t(value), 4);
    } else {
      bytes_ += "\x8a\x08";
      little_endian(std::uint64_t(value), 8);
    }
  }
  void entry(std::string_view key, std::string_view value) { text(key), text(value); }
  void entry(std::string_view key, std::int64_t value) { text(key), number(value); }
  void end() { bytes_ += '.', sink_(bytes_); }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  void little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) bytes_ += char(value >> (8 * i) & 0xff);
  }
  const Sink& sink_;
  std::string bytes_;
};

// Addresses of buffers: the first gap that is large enough.
class Addresses {
 public:
  std::int64_t take(std::int64_t size) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      const auto [at, length] = *gap;
      if (length < size) continue;
      gaps_.erase(gap);
      if (length > size) gaps_.emplace(at + size, length - size);
      return at;
    }
    return std::exchange(end_, end_ + size);
  }
  void give_back(std::int64_t at, std::int64_t size) {
    auto next = gaps_.lower_bound(at);
    if (next != gaps_.end() && at + size == next->first) size += next->second, next = gaps_.erase(next);
    if (next != gaps_.begin())
      if (auto before = std::prev(next); before->first + before->second == at) {
        before->second += size;
        return;
      }
    gaps_.emplace(at, size);
  }
  std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> gaps_;  // address, length
  std::int64_t end_ = 0;
};

constexpr std::int64_t kBase = 0x7f0000000000;  // as of a device

class OfRank {
 public:
  OfRank(const Result& run, RankId rank, Pickle& out)
      : run_(run), rank_(run.graph().ranks()[rank.index()]), program_(run.graph().program_of(rank_)), out_(out) {
    at_.resize(program_.buffers.size());
    for (std::uint32_t b = 0; b < program_.buffers.size(); b++)
      names_.push_back(graph::name(program_.buffers[b].category));
    changes_ = timeline::memory_changes(run.graph(), run.timeline, rank);
    for (const auto& buffer : program_.resident())
      if (const auto size = on_device(buffer))
        resident_.push_back({*size, graph::name(buffer.category)}), addresses_.take(*size);
  }

  void trace() {
    out_.begin_list();
    for (const auto& change : changes_) {
      if (change.begins) begin(change);
      if (change.ends) end(change);
    }
    out_.end_list();
  }

  // After trace(), which finds its size. Only what stays throughout is live at the end.
  void segment(std::int64_t device) {
    out_.begin_dict();
    out_.entry("device", device), out_.entry("address", kBase), out_.entry("total_size", addresses_.end());
    out_.entry("stream", 0), out_.entry("segment_type", "large");
    out_.text("blocks"), out_.begin_list();
    std::int64_t used = 0;
    for (const auto& [size, name] : resident_) block(size, "active_allocated", name), used += size;
    if (used < addresses_.end()) block(addresses_.end() - used, "inactive", "");
    out_.end_list();
    out_.entry("allocated_size", used), out_.entry("active_size", used);
    out_.end_dict();
  }

 private:
  struct Live {
    std::int64_t address = -1, size = 0;
  };

  static std::optional<std::int64_t> on_device(const graph::Buffer& buffer) {
    if (buffer.tier != Tier::device || buffer.size <= Bytes{}) return std::nullopt;
    return buffer.size.count();
  }

  void block(std::int64_t size, std::string_view state, const std::string& name) {
    out_.begin_dict();
    out_.entry("size", size), out_.entry("requested_size", size), out_.entry("state", state);
    frames(name.empty() ? "free" : name, "throughout the step", 0);
    out_.end_dict();
  }

  void frames(const std::string& what, const std::string& where, std::int64_t line) {
    out_.text("frames"), out_.begin_list(), out_.begin_dict();
    out_.entry("name", what), out_.entry("filename", where), out_.entry("line", line);
    out_.end_dict(), out_.end_list();
  }

  void event(const char* action, const Live& live, Time when, const std::string& what, std::uint32_t task) {
    const auto& at = program_.coordinates[task];
    std::string where = fmt::format("rank {}, {} of stage {}", rank_.job_rank, graph::name(at.pass), at.stage);
    if (at.layer != graph::kNoLayer) where += fmt::format(", layer {}", at.layer);
    if (at.microbatch != graph::kNoMicrobatch) where += fmt::format(", micro-batch {}", at.microbatch);
    out_.begin_dict();
    out_.entry("action", action), out_.entry("addr", kBase + live.address), out_.entry("size", live.size);
    out_.entry("stream", 0), out_.entry("time_us", std::int64_t(to_seconds(when) * 1e6));
    frames(what, where, task);
    out_.end_dict();
  }

  void allocate(Live& live, std::int64_t size, Time when, const std::string& what, std::uint32_t task) {
    live = {addresses_.take(size), size};
    event("alloc", live, when, what, task);
  }
  void free(Live& live, Time when, const std::string& what, std::uint32_t task) {
    if (live.address < 0) return;
    event("free_completed", live, when, what, task);
    addresses_.give_back(live.address, live.size);
    live = {};
  }

  void begin(const timeline::MemoryChange& change) {
    for (const auto& use : program_.uses[change.task])
      if (const auto b = use.id().index(); use.how() == Access::allocate)
        if (const auto size = on_device(program_.buffers[b]))
          allocate(at_[b], *size, change.when, names_[b], change.task);
    if (program_.fold.empty() || program_.fold[change.task] == 0) return;
    Bytes within;
    for (const Bytes size : program_.fold_of(change.task).highest) within += size;
    if (within > Bytes{}) allocate(within_[change.task], within.count(), change.when, kWithin, change.task);
  }

  void end(const timeline::MemoryChange& change) {
    if (const auto inside = within_.find(change.task); inside != within_.end()) {
      free(inside->second, change.when, kWithin, change.task);
      within_.erase(inside);
    }
    for (const auto& use : program_.uses[change.task])
      if (const auto b = use.id().index(); use.how() == Access::free) free(at_[b], change.when, names_[b], change.task);
  }

  static constexpr const char* kWithin = "within the task";
  const Result& run_;
  const graph::Rank& rank_;
  const graph::Program& program_;
  Pickle& out_;
  std::vector<timeline::MemoryChange> changes_;
  std::vector<Live> at_;  // by buffer
  std::vector<std::string> names_;
  std::map<std::uint32_t, Live> within_;  // by task
  std::vector<std::pair<std::int64_t, std::string>> resident_;
  Addresses addresses_;
};

}  // namespace

void write_torch_snapshot(const Result& run, const Sink& sink) {
  Pickle out(sink);
  std::vector<OfRank> ranks;
  for (std::uint32_t r = 0; r < run.graph().ranks().size(); r++) ranks.emplace_back(run, RankId(r), out);
  out.begin_dict();
  out.text("device_traces"), out.begin_list();
  for (auto& rank : ranks) rank.trace();
  out.end_list();
  out.text("segments"), out.begin_list();
  for (std::size_t r = 0; r < ranks.size(); r++) ranks[r].segment(std::int64_t(r));
  out.end_list();
  out.end_dict();
  out.end();
}

}  // namespace rehearsal::report
