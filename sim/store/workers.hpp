// Who works on a store: one process, told apart from every other and seen to be gone once it is.
#pragma once
#include <cstdint>
#include <string>

namespace rehearsal::store {

struct Worker {
  std::string host;          // machine, boot and process namespace: where the number of a process means something
  std::int64_t process = 0;  // its number there
  std::int64_t born = 0;     // when it started, in ticks of that kernel: numbers of processes are used again
  bool operator==(const Worker&) const = default;
};

Worker this_worker();

// Whether it has certainly ended. Of another host nobody can tell: false.
bool is_gone(const Worker& worker);

}  // namespace rehearsal::store
