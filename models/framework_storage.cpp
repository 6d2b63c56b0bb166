// Values that wait for the backward in fewer bits than they are computed with (`training.activation_storage`), as
// DeepSeek-V3 keeps what its attention gives and what its experts' activations read (2412.19437, section 3.3.3).
#include <algorithm>

#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

constexpr double kScales = 4. / 128;  // bytes an element: an fp32 scale for each 128
constexpr double kFp8 = 1 + kScales, kE5m6 = 1.5 + kScales;

bool names(const Step& step, std::uint16_t value) {
  return std::any_of(step.operands.begin(), step.operands.end(),
                     [&](const Operand& o) { return o.of == Operand::Of::value && o.index == value; });
}
std::ptrdiff_t first_with(const std::vector<Step>& list, std::uint16_t value) {
  return std::find_if(list.begin(), list.end(), [&](const Step& s) { return names(s, value); }) - list.begin();
}

// Steps that run beside an exchange stay as many as before, and one more where it stands among them.
void insert(std::vector<Step>& list, std::ptrdiff_t at, Step step) {
  for (std::ptrdiff_t i = 0; i < at; ++i)
    if (list[i].beside && i + std::ptrdiff_t(list[i].beside_steps) > at) ++list[i].beside_steps;
  list.insert(list.begin() + at, std::move(step));
}

}  // namespace

void FrameworkRewrite::widen_stream() {
  if (!run_.framework.fp32_stream || element_ == 4) return;
  std::vector<bool> streams(block_.values.size());
  for (const auto end : {block_.input, block_.output})
    if (end) streams[*end] = true;
  for (const auto& op : block_.operators)
    if (op.kind == OperatorKind::add) streams[op.in[0]] = streams[op.out[0]] = true;
  for (std::size_t v = 0; v < streams.size(); ++v)
    if (streams[v]) part_.values[v].size = Bytes(4 * block_.values[v].elements);
}

void FrameworkRewrite::find_stored() {
  const auto add = [&](StoredValue as, Index v) {
    if (run_.training.stores(as)) stored_.emplace(v, as);
  };
  for (const auto& op : block_.operators) {
    if (op.name == "latent norm") add(StoredValue::latents, op.in[0]);
    if (op.kind == OperatorKind::attention) add(StoredValue::attention_out, op.out[0]);
    if (op.name == "experts up") add(StoredValue::dispatched, op.in[0]);
    if (op.kind != OperatorKind::activate) continue;
    const auto as = op.section == Section::feed_forward ? StoredValue::mlp_act : StoredValue::moe_act;
    for (const auto v : op.in) add(as, v);
  }
}

// The narrow copy of a product's operand may be what waits; but attention's backward reads its result once more.
bool FrameworkRewrite::keeps_cast(Index v) const {
  const auto found = stored_.find(v);
  if (found == stored_.end()) return run_.framework.saves_casts;
  return found->second == StoredValue::dispatched && run_.training.stored_fp8.contains(found->second);
}

// Behind its last use in the forward a value is copied to fewer bits; in each pass of the backward it is widened before
// its first use. What is recomputed, or waits as an operand of a product, is not there to be copied.
void FrameworkRewrite::store_narrow() {
  if (stored_.empty()) return;
  const auto kept = lives(part_).kept;
  const bool launches = run_.framework.cuda_graph == CudaGraph::none;
  for (const auto& [v, as] : stored_) {
    if (!kept[v] || first_with(part_.forward, v) == std::ssize(part_.forward)) continue;
    const double elements = double(part_.values[v].size.count()) / element_;
    const double narrow_bytes = run_.training.stored_fp8.contains(as) ? kFp8 : kE5m6;
    const Index narrow = value(narrow_bytes * elements);
    const double moved = (element_ + narrow_bytes) * elements;
    auto& list = part_.forward;
    const auto last = std::find_if(list.rbegin(), list.rend(), [&, v = v](const Step& s) { return names(s, v); });
    const auto at = list.rend() - last;
    insert(list, at, plain("narrow copy", moved, 1, {read(v), write(narrow)}));
    for (auto& run : part_.forward_launches)
      if (std::ptrdiff_t(run.until) >= at) ++run.until;
    for (auto* pass : {&part_.input_gradient_steps, &part_.weight_gradient_steps, &part_.backward}) {
      const auto first = first_with(*pass, v);
      if (first == std::ssize(*pass)) continue;
      const Index wide = like(v);
      for (auto& step : *pass)
        for (auto& o : step.operands)
          if (o.of == Operand::Of::value && o.index == v) o.index = wide;
      Step widen = plain("wide copy", moved, 1, {read(narrow), write(wide)});
      widen.repeats = (*pass)[first].repeats;
      insert(*pass, first, std::move(widen));
      if (!launches || pass == &part_.backward) continue;
      ++part_.backward_launches;
      if (pass == &part_.weight_gradient_steps) ++part_.weight_launches;
    }
    if (launches) ++part_.forward_launches.front().launches;
  }
}

}  // namespace rehearsal::models
