#include "recorder/recording.hpp"

#include <fmt/format.h>

namespace rehearsal::test {

void Recording::add(gpu::StreamId stream, std::function<void()> effect) {
  Knowledge& before = before_.at(stream);
  if (before.size() <= stream.index()) before.resize(stream.index() + 1);
  ++before[stream.index()];
  effects_.push_back(std::move(effect));
}

void Recording::wait(gpu::StreamId stream, gpu::EventId event, std::function<void()> effect) {
  merge(before_[stream], events_.at(event));
  effects_.push_back(std::move(effect));
}

std::vector<gpu::StreamId> Recording::forked() const {
  std::vector<gpu::StreamId> forked;
  for (const auto& [stream, before] : before_)
    if (stream != first_) forked.push_back(stream);
  return forked;
}

std::vector<std::string> Recording::end(gpu::StreamId stream) const {
  std::vector<std::string> broken;
  if (stream != first_) broken.push_back("a recording ends on another stream than it began on");
  for (const auto& [forked, before] : before_)
    if (!covers(before_.at(first_), before))
      broken.push_back(fmt::format("stream {} has not joined again when the recording ends", forked.value));
  if (!live_.empty()) broken.push_back(fmt::format("a recording leaves {} blocks that it allocated", live_.size()));
  return broken;
}

}  // namespace rehearsal::test
