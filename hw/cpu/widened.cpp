#include "cpu/widened.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "base/bf16.hpp"
#include "base/error.hpp"

namespace rehearsal::cpu {
namespace {

template <class T>
std::span<T> of(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// The update of the master copy in fp32, which the parameters then are rounded from.
void update_master(Kernel kernel, std::span<const std::span<std::byte>> operands, const Surroundings& around) {
  const std::int64_t e = kernel.dims[0];
  const std::span<float> states = of<float>(operands[2]);
  const std::span<float> master = states.last(static_cast<std::size_t>(e));
  std::array<float*, 3> pointers{of<float>(operands[0]).data(), master.data(), states.data()};
  kernel.precision = Precision::fp32;
  kernel.dims[2] = static_cast<std::int64_t>(Flat::own);
  perform(kernel, std::span(pointers).first(kernel.kind == KernelKind::sgd ? 2 : 3), around);
  const auto parameters = of<std::uint16_t>(operands[1]).last(static_cast<std::size_t>(e));
  std::transform(master.begin(), master.end(), parameters.begin(), to_bf16);
}

}  // namespace

void perform_widened(const Kernel& kernel, std::span<const std::span<std::byte>> operands, const Surroundings& around,
                     GemmFunction gemm) {
  INVARIANT(kernel.precision == Precision::bf16, "only bf16 is widened");
  if (keeps_master(kernel)) return update_master(kernel, operands, around);
  std::array<std::vector<float>, 6> wide;
  std::array<float*, 6> pointers{};
  const auto narrow = [&](std::size_t i) { return operand_precision(kernel, i) == Precision::bf16; };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    pointers[i] = of<float>(operands[i]).data();
    if (!narrow(i)) continue;
    const auto stored = of<std::uint16_t>(operands[i]);
    wide[i].resize(stored.size());
    std::transform(stored.begin(), stored.end(), wide[i].begin(), from_bf16);
    pointers[i] = wide[i].data();
  }
  Kernel in_fp32 = kernel;
  in_fp32.precision = Precision::fp32;
  perform(in_fp32, std::span(pointers).first(operands.size()), around, gemm);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (narrow(i)) std::transform(wide[i].begin(), wide[i].end(), of<std::uint16_t>(operands[i]).begin(), to_bf16);
}

}  // namespace rehearsal::cpu
