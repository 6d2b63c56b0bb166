// Identifies a process that works on a store, and detects its end.
#pragma once
#include <cstdint>
#include <string>

namespace rehearsal::store {

struct Worker {
  std::string host;          // machine, boot and process namespace: where the number of a process means something
  std::int64_t process = 0;  // its process id there
  std::int64_t born = 0;     // start time in ticks of that kernel: process ids are reused
  bool operator==(const Worker&) const = default;
};

Worker this_worker();

// Whether it has certainly ended. False for another host, where that is unknown.
bool is_gone(const Worker& worker);

}  // namespace rehearsal::store
