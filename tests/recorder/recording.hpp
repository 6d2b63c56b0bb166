// CUDA's rules for a recording (a graph captured from streams), checked against the calls that make one. They are those
// of cudaStreamBeginCapture, cudaStreamEndCapture and of allocations within graphs:
// - a stream belongs to the recording when it began there or has waited for an event recorded in it; work on other
//   streams runs at once meanwhile (thread-local mode), and no replay repeats it;
// - when the recording ends, every stream that joined has rejoined the first one: all its work precedes the end;
// - memory allocated in it is freed in it, exactly once; it frees no other memory, and only it frees that memory;
// - it ends on the stream where it began.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "recorder/knowledge.hpp"

namespace rehearsal::test {

class Recording {
 public:
  explicit Recording(gpu::StreamId first) : first_(first), before_{{first, {}}} {}

  bool includes(gpu::StreamId stream) const { return before_.contains(stream); }
  bool includes(gpu::EventId event) const { return events_.contains(event); }
  // Adds work on a stream that belongs to the recording.
  void add(gpu::StreamId stream, std::function<void()> effect);
  // The event comes after the work queued on the stream so far.
  void record(gpu::EventId event, gpu::StreamId stream) { events_[event] = before_.at(stream); }
  void record_outside(gpu::EventId event) { events_.erase(event); }
  // Waits for an event of the recording; the stream joins. Without work: a stream that only waits need not rejoin.
  void wait(gpu::StreamId stream, gpu::EventId event, std::function<void()> effect);
  void allocate(gpu::Address block) { live_.insert(block); }
  bool free(gpu::Address block) { return live_.erase(block) > 0; }  // false: the block is not the recording's
  // The broken rules.
  std::vector<std::string> end(gpu::StreamId stream) const;

  gpu::StreamId first() const { return first_; }
  std::vector<gpu::StreamId> forked() const;  // all streams that joined, except the first
  const std::vector<std::function<void()>>& effects() const { return effects_; }

 private:
  gpu::StreamId first_;
  std::vector<std::function<void()>> effects_;
  std::map<gpu::StreamId, Knowledge> before_;  // by stream of the recording: the work of each stream that precedes it
  std::map<gpu::EventId, Knowledge> events_;
  std::set<gpu::Address> live_;
};

}  // namespace rehearsal::test
