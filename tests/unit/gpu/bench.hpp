// A recording device with two streams, for tests that break its rules.
#pragma once
#include <algorithm>
#include <string>

#include "recorder/recorder.hpp"

namespace rehearsal::test {

struct Bench {
  explicit Bench(World::Manner manner = {}) : world(std::move(manner)), device(world) {
    pool = device.make_pool();
    a = device.make_stream(0), b = device.make_stream(0);
    event = device.make_event();
  }
  void run() {
    while (world.progress()) {
    }
  }
  bool complains(const std::string& about) const {
    return std::ranges::any_of(world.broken(),
                               [&](const std::string& s) { return s.find(about) != std::string::npos; });
  }
  World world;
  RecordingDevice device;
  PoolId pool;
  StreamId a, b;
  EventId event;
};

}  // namespace rehearsal::test
