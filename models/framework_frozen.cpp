// Matrices that do not learn and are held in fewer bits (QLoRA, arXiv 2305.14314, section 3; AutoGPTQ; LLM.int8): a
// kernel makes a copy of one in the precision of the product, which reads it and drops it, in each pass anew
// (bitsandbytes, autograd/_functions.py, MatMul4Bit; MatMul8bitLt in its backward, and, assumed, as if in its forward;
// AutoGPTQ's products that dequantise first). In fp8 a product in fp8 reads the matrix as it is.
#include <algorithm>
#include <utility>

#include "models/framework_rewrite.hpp"

namespace rehearsal::models {

// Where adapters do, an end on request: a copy of it, which PEFT keeps beside the original (modules_to_save).
bool FrameworkRewrite::learns(const Operator& op) const {
  if (!run_.training.frozen()) return true;
  return run_.training.learns_ends && (op.kind == OperatorKind::embed || op.name == "head");
}

bool FrameworkRewrite::quantised(const Operator& op) const {
  const bool linear = op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear;
  return run_.training.quantises() && linear && op.section != Section::none;
}

// Products of several outputs are matrices of their own where the framework has them apart, as experts always are: one
// copy at a time.
void FrameworkRewrite::dequantise(List& list, const Operator& op, Operands& of_product) {
  const auto& training = run_.training;
  if (!quantised(op) || (training.frozen_precision == FrozenPrecision::fp8 && training.precision == Precision::fp8))
    return;
  const bool experts = op.kind == OperatorKind::expert_linear;
  const Gemm whole = experts ? expert_product(op) : product(op);
  const bool apart = run_.framework.separate_projections && op.out.size() > 1;
  std::int64_t columns = 0;
  for (const auto v : op.out)
    columns = apart ? std::max(columns, block_.values[v].columns) : columns + block_.values[v].columns;
  // MatMul4Bit saves its input whenever anything needs a gradient.
  if (run_.framework.keeps_quantised_inputs && &list != &part_.forward)
    for (const auto v : op.in) of_product.push_back(read(v));
  const Index copy = value(element_ * double(columns) * double(whole.k));
  const double parameters = double(whole.n) * double(whole.k) * double(whole.batch);
  const std::int64_t kernels = apart ? static_cast<std::int64_t>(op.out.size()) : whole.batch;
  of_product.push_back(read(copy));
  // What a product reads may just have been gathered, and stays beside it.
  const auto* gather = list.empty() ? nullptr : std::get_if<GroupCollective>(&list.back().what);
  const bool before = gather && gather->kind == CollectiveKind::all_gather;
  list.insert(list.end() - (before ? 1 : 0),
              plain("dequantise", (bytes_of(training.frozen_precision, element_) + element_) * parameters, kernels,
                    {write(copy)}));
}

}  // namespace rehearsal::models
