// Runs a Call on the host with the same sources as on a GPU (team.hpp): blocks, and the threads of a block,
// sequentially. Slow: meant for checks, not for training.
#pragma once
#include <cstdint>

#include "kernels/call.hpp"
#include "kernels/product.hpp"

namespace rehearsal::kernels {

void plain_product(const Product& product);  // sums in fp32, in the order of k

struct HostOrder {
  std::uint64_t shuffle = 0;  // nonzero: blocks, and the threads of each phase, in a random order with this seed
  bool poison = false;        // shared memory and locals are NaN before they are written
  int multiprocessors = 2;    // determines the number of blocks of grid-stride kernels
};

// For a product bf16 operands are widened; it sums in fp32 and rounds its result once.
void perform_on_host(const Call& call, ProductFunction product = plain_product, const HostOrder& order = {});

// to += from; implements gpu::Device::accumulate.
void accumulate_on_host(Precision precision, void* to, const void* from, std::int64_t elements);

}  // namespace rehearsal::kernels
