// Kernels in bf16 on a CPU.
#pragma once
#include <cstddef>
#include <span>

#include "cpu/kernels.hpp"

namespace rehearsal::cpu {

// Widens every operand that is stored in bf16, performs the kernel in fp32, and rounds the operands once. `operands`
// hold what the kernel touches, in the order of the table.
void perform_widened(const Kernel& kernel, std::span<const std::span<std::byte>> operands, const Surroundings& around,
                     GemmFunction gemm = cpu::gemm);

}  // namespace rehearsal::cpu
