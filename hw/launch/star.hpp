// The bootstrap of ranks that this process starts: a pair of connected sockets with each of them. In every call all
// ranks send their bytes, and the parent, once it has those of all, sends them all to each.
#pragma once
#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "launch/bootstrap.hpp"

namespace rehearsal::launch {

// The parent's side.
class Star {
 public:
  explicit Star(std::size_t ranks);  // throws MachineError
  ~Star();
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;

  // The rank's end, which its process inherits; started() closes this process's copy.
  int end_of(std::size_t rank) const { return lines_[rank].theirs; }
  void started(std::size_t rank);

  std::vector<pollfd> events() const;  // that relay() waits for
  void relay();                        // as far as possible without waiting

 private:
  struct Line {
    int ours = -1, theirs = -1;  // -1: closed
    std::string in, out;
    std::size_t sent = 0;  // of `out`
  };
  static void receive(Line& line);
  static void send(Line& line);

  std::vector<Line> lines_;
};

// A rank's side; `socket` is its end. Its calls throw MachineError when the parent has ended. A failure needs no
// telling: the parent ends the other ranks.
std::unique_ptr<Bootstrap> join_star(int socket, const RankEnvironment& mine);

}  // namespace rehearsal::launch
