// What CUDA asks of a recording (a graph captured from streams), held against the calls that make one. The rules are
// those of cudaStreamBeginCapture, cudaStreamEndCapture and of allocations within graphs:
// - a stream is of the recording when it began there or has waited for an event that was recorded in it; what other
//   streams get meanwhile runs at once (thread-local mode), and no replay repeats it;
// - every stream that joined has joined the first one again when the recording ends: all that it did is before the end;
// - what it allocates it frees, once; it frees nothing else, and nobody else frees that;
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
  // Work on a stream that is of it.
  void add(gpu::StreamId stream, std::function<void()> effect);
  // After the work of recording the event.
  void record(gpu::EventId event, gpu::StreamId stream) { events_[event] = before_.at(stream); }
  void record_outside(gpu::EventId event) { events_.erase(event); }
  // For an event of it; the stream joins. No work: a stream that only waits need not be waited for.
  void wait(gpu::StreamId stream, gpu::EventId event, std::function<void()> effect);
  void allocate(gpu::Address block) { live_.insert(block); }
  bool free(gpu::Address block) { return live_.erase(block) > 0; }  // false: not one of its blocks
  // Broken rules.
  std::vector<std::string> end(gpu::StreamId stream) const;

  gpu::StreamId first() const { return first_; }
  std::vector<gpu::StreamId> forked() const;  // all that joined but the first
  const std::vector<std::function<void()>>& effects() const { return effects_; }

 private:
  gpu::StreamId first_;
  std::vector<std::function<void()>> effects_;
  std::map<gpu::StreamId, Knowledge> before_;  // of streams that are of it: the work of each that comes before
  std::map<gpu::EventId, Knowledge> events_;
  std::set<gpu::Address> live_;
};

}  // namespace rehearsal::test
