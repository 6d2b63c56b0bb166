// Runs a Call on the host, through the sources that a GPU runs (team.hpp): blocks one after the other, threads of a
// block one after the other. Slow, and meant to be checked against, not to train with.
#pragma once
#include <cstdint>

#include "kernels/call.hpp"
#include "kernels/product.hpp"

namespace rehearsal::kernels {

void plain_product(const Product& product);  // sums in fp32, in the order of k

struct HostOrder {
  std::uint64_t shuffle = 0;  // other than 0: blocks, and the threads of each phase, in an order drawn from this seed
  bool poison = false;        // shared memory and locals are NaN before they are written
  int multiprocessors = 2;    // how many blocks those kernels have that stride over the grid
};

// Operands in bf16 are widened for a product, whose sums are of fp32, and its result is rounded once.
void perform_on_host(const Call& call, ProductFunction product = plain_product, const HostOrder& order = {});

// to += from, of gpu::Device.
void accumulate_on_host(Precision precision, void* to, const void* from, std::int64_t elements);

}  // namespace rehearsal::kernels
