// What a member of a group holds when a collective begins, and where its results belong: the cells of its routine, cut
// into pieces. Addresses only, so that the memory may be that of a GPU.
#pragma once
#include <span>
#include <vector>

#include "collective/routine.hpp"
#include "dispatch/operands.hpp"

namespace rehearsal::dispatch {

struct Cell {
  std::size_t size = 0;           // bytes
  const std::byte* at = nullptr;  // what it holds
  std::byte* home = nullptr;      // where its result belongs; null: nowhere
};

// By cell and piece (cell x pieces + piece). Operands as in Transport::join; `width`: bytes of an element.
std::vector<Cell> lay_out(const collective::Routine& routine, CollectiveKind kind, std::size_t width,
                          const Operands& operands);

}  // namespace rehearsal::dispatch
