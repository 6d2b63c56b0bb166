// Attention by native kernels. If a sequence is split over the ranks of a context group (hw/kernels/cut.hpp says which
// rows are whose), queries see the keys and values of all: rank by rank, while those go around (Ring Attention, Liu et
// al., arXiv 2310.01889); all at once, gathered (Llama 3, arXiv 2407.21783, section 3.3.2); or each rank has some heads
// of whole sequences meanwhile (DeepSpeed Ulysses, Jacobs et al., arXiv 2309.14509).
#include "models/rehearsal_rewrite.hpp"

namespace rehearsal::models {

// A window or a chunk of all positions leaves them all.
Sight KernelRewrite::sight(Mask mask) const {
  const auto& m = mixer();
  const std::int64_t keys = std::max(m.window, m.chunk);
  Sight sight{mask};
  if (keys < shape_.shard.sequence) sight.keys = keys, sight.chunked = m.chunk > 0;
  sight.documents = shape_.documents;
  return sight;
}
// Dimensions for whole sequences, or for some heads of them.
std::vector<std::int64_t> KernelRewrite::attention_dims(std::int64_t fewer_heads, std::int64_t positions) const {
  const std::int64_t a = heads() / fewer_heads, kv = kv_heads() / fewer_heads;
  return {
      shape_.shard.micro_batch, a, positions, mixer().head_dim, sight(shape_.causal ? Mask::causal : Mask::none).dim(),
      kv == a ? 0 : kv};
}
std::vector<std::int64_t> KernelRewrite::part_dims(std::int64_t step) const {
  const Mask mask = !shape_.causal ? Mask::none : balanced() ? Mask::causal_balanced : Mask::causal;
  return {shape_.shard.micro_batch,      heads(), own_positions(), mixer().head_dim, sight(mask).dim(), kv_heads(),
          shape_.shard.sequence_parts(), step};
}
std::vector<std::int64_t> KernelRewrite::positions_dims(const Operator& op) const {
  const std::int64_t own = rows(op.in[0]), parts = own < rows_ ? rows_ / own : 0;
  return {own, columns(op.in[0]), own_positions(), cut_dim(), balanced(), parts, shape_.documents > 0};
}
std::vector<std::int64_t> KernelRewrite::rotary_dims(const Operator& op) const {
  return {rows_,     own_positions(), heads() + kv_heads(), mixer().head_dim, query_columns() + kv_columns(),
          cut_dim(), balanced()};
}

// One more score for each head, in the results of attention and their levels. `fewer_heads`: whole sequences of a share
// of the heads. The levels make the gradients of queries, keys and values right by themselves.
void KernelRewrite::sinks(const Operator& op, Index out, std::int64_t fewer_heads) {
  if (op.parameters.empty()) return;
  kernel(part_.forward, KernelKind::attention_sinks, sinks_dims(fewer_heads),
         {weight(op.parameters[0]), write(out), write(*levels_)});
}
void KernelRewrite::sinks_gradient(const Operator& op, Index out, Index dout, std::int64_t fewer_heads) {
  if (op.parameters.empty()) return;
  kernel(part_.input_gradient_steps, KernelKind::attention_sinks_gradient, sinks_dims(fewer_heads),
         {read(out), read(*levels_), read(dout), weight(op.parameters[0]), gradient(op.parameters[0])});
}
std::vector<std::int64_t> KernelRewrite::sinks_dims(std::int64_t fewer_heads) const {
  const std::int64_t positions = fewer_heads > 1 ? shape_.shard.sequence : own_positions();
  return {shape_.shard.micro_batch, heads() / fewer_heads, positions, mixer().head_dim,
          fewer_heads > 1 ? fewer_heads : 0};
}

void KernelRewrite::attention(const Operator& op) {
  if (shape_.shard.pieces > 1) return attention_of_pieces(op);
  if (cut()) return shape_.context == ContextKind::all_to_all ? attention_of_heads(op) : attention_of_parts(op);
  levels_ = value(rows_ * heads());
  kernel(part_.forward, KernelKind::attention, attention_dims(1, own_positions()),
         {read(at(op.in[0])), write(at(op.out[0])), write(*levels_)});
  sinks(op, at(op.out[0]), 1);
}
void KernelRewrite::attention_gradient(const Operator& op) {
  if (shape_.shard.pieces > 1) return attention_of_pieces_gradient(op);
  if (cut())
    return shape_.context == ContextKind::all_to_all ? attention_of_heads_gradient(op)
                                                     : attention_of_parts_gradient(op);
  sinks_gradient(op, at(op.out[0]), *gradients_[op.out[0]], 1);
  const Index dqkv = like(op.in[0]);
  kernel(part_.input_gradient_steps, KernelKind::attention_gradient, attention_dims(1, own_positions()),
         {read(at(op.in[0])), read(at(op.out[0])), read(*levels_), read(*gradients_[op.out[0]]), write(dqkv)});
  gradients_[op.in[0]] = dqkv;
}

// --- queries stay, keys and values come ------------------------------------------------------------------------------

// Keys and values of the rank's own rows; copied again for the gradient, so that only qkv is kept.
KernelRewrite::Index KernelRewrite::keys_and_values(Steps& steps, const Operator& op) {
  const std::int64_t kv = kv_columns();
  const Index block = value(rows_ * kv);
  kernel(steps, KernelKind::take_columns, {rows_, query_columns() + kv, query_columns(), kv},
         {read(at(op.in[0])), write(block)});
  return block;
}

void KernelRewrite::attention_of_parts(const Operator& op) {
  auto& F = part_.forward;
  const std::int64_t c = shape_.shard.context, q = query_columns();
  const Index qkv = at(op.in[0]), sums = value(rows_ * q);
  levels_ = value(rows_ * heads());
  Index block = keys_and_values(F, op);
  const auto look = [&](std::int64_t step) {
    kernel(F, KernelKind::attention_part, part_dims(step), {read(qkv), read(block), write(sums), write(*levels_)});
  };
  if (shape_.context == ContextKind::all_gather) {
    block = moved(F, CollectiveKind::all_gather, Axis::context, block, c * elements_[block]);
    look(kAllBlocks);
  } else {
    for (std::int64_t step = 0; step < c; ++step) {
      if (step > 0) block = moved(F, CollectiveKind::shift, Axis::context, block, elements_[block]);
      look(step);
    }
  }
  kernel(F, KernelKind::put_columns, {rows_, q, 0, q}, {read(sums), write(at(op.out[0]))});
  sinks(op, at(op.out[0]), 1);
}

// Sums of the gradients of a rank's keys and values travel with them, with one more hop to return; those of gathered
// ones are reduce-scattered.
void KernelRewrite::attention_of_parts_gradient(const Operator& op) {
  auto& I = part_.input_gradient_steps;
  const std::int64_t c = shape_.shard.context, q = query_columns(), kv = kv_columns();
  const Index qkv = at(op.in[0]), dq = value(rows_ * q);
  const auto begin = [&](Index v) { kernel(I, KernelKind::clear, {elements_[v]}, {write(v)}); };
  sinks_gradient(op, at(op.out[0]), *gradients_[op.out[0]], 1);
  begin(dq);
  Index block = keys_and_values(I, op), dblock;
  const auto look = [&](std::int64_t step) {
    kernel(I, KernelKind::attention_part_gradient, part_dims(step),
           {read(qkv), read(block), read(at(op.out[0])), read(*levels_), read(*gradients_[op.out[0]]), write(dq),
            write(dblock)});
  };
  if (shape_.context == ContextKind::all_gather) {
    block = moved(I, CollectiveKind::all_gather, Axis::context, block, c * elements_[block]);
    begin(dblock = value(elements_[block]));
    look(kAllBlocks);
    dblock = moved(I, CollectiveKind::reduce_scatter, Axis::context, dblock, rows_ * kv);
  } else {
    begin(dblock = value(elements_[block]));
    for (std::int64_t step = 0; step < c; ++step) {
      if (step > 0) block = moved(I, CollectiveKind::shift, Axis::context, block, elements_[block]);
      look(step);
      dblock = moved(I, CollectiveKind::shift, Axis::context, dblock, elements_[dblock]);
    }
  }
  const Index dqkv = like(op.in[0]);
  kernel(I, KernelKind::put_columns, {rows_, q + kv, 0, q}, {read(dq), write(dqkv)});
  kernel(I, KernelKind::put_columns, {rows_, q + kv, q, kv}, {read(dblock), write(dqkv)});
  gradients_[op.in[0]] = dqkv;
}

// --- queries stay, keys and values of earlier pieces are there -------------------------------------------------------

// Whether any query of the own piece sees a key of the one that is `step` before it.
bool KernelRewrite::sees_piece(std::int64_t step) const {
  const std::int64_t s = own_positions(), first = shape_.shard.piece * s, end = first - (step - 1) * s;
  Sight seen = sight(Mask::causal);
  if (seen.documents > 0) seen.chunked = false;  // chunks of documents begin anywhere (hw/kernels/steps.hpp)
  return seen.first(first) < end;
}
// Seq1F1B (arXiv 2406.03488). A value of the part for what pieces share.
KernelRewrite::Index KernelRewrite::carried(const Carried& shared, std::int64_t elements) {
  part_.carried.push_back(shared);
  return part_.carried.back().value = value(elements);
}

// Kept even with recomputation: later pieces read them in between.
void KernelRewrite::attention_of_pieces(const Operator& op) {
  auto& F = part_.forward;
  const std::int64_t own = shape_.shard.piece, q = query_columns(), kv = kv_columns();
  const Index qkv = at(op.in[0]), sums = value(rows_ * q);
  levels_ = value(rows_ * heads());
  pieces_seen_ = {carried({.piece = own, .begins = true, .ends = true}, rows_ * kv)};
  part_.values[pieces_seen_[0]].stays = true;
  kernel(F, KernelKind::take_columns, {rows_, q + kv, q, kv}, {read(qkv), write(pieces_seen_[0])});
  for (std::int64_t step = 0; step <= own; ++step) {
    if (step > 0) pieces_seen_.push_back(carried({.piece = own - step}, rows_ * kv));
    if (sees_piece(step))
      kernel(F, KernelKind::attention_part, part_dims(step),
             {read(qkv), read(pieces_seen_.back()), write(sums), write(*levels_)});
  }
  kernel(F, KernelKind::put_columns, {rows_, q, 0, q}, {read(sums), write(at(op.out[0]))});
  sinks(op, at(op.out[0]), 1);
}

// Backwards go from the last piece to the first: all later pieces have added to the gradient of the own keys and
// values.
void KernelRewrite::attention_of_pieces_gradient(const Operator& op) {
  auto& I = part_.input_gradient_steps;
  const std::int64_t own = shape_.shard.piece, q = query_columns(), kv = kv_columns();
  const bool last = own + 1 == shape_.shard.pieces;
  const Index qkv = at(op.in[0]), dq = value(rows_ * q), dqkv = like(op.in[0]);
  sinks_gradient(op, at(op.out[0]), *gradients_[op.out[0]], 1);
  kernel(I, KernelKind::clear, {elements_[dq]}, {write(dq)});
  std::optional<Index> dkv;
  for (std::int64_t step = 0; step <= own; ++step) {
    const Index block = carried({.piece = own - step, .gradient = true, .begins = last, .ends = step == 0}, rows_ * kv);
    if (step == 0) dkv = block;
    if (last) kernel(I, KernelKind::clear, {elements_[block]}, {write(block)});
    if (sees_piece(step))
      kernel(I, KernelKind::attention_part_gradient, part_dims(step),
             {read(qkv), read(pieces_seen_[static_cast<std::size_t>(step)]), read(at(op.out[0])), read(*levels_),
              read(*gradients_[op.out[0]]), write(dq), write(block)});
  }
  kernel(I, KernelKind::put_columns, {rows_, q + kv, 0, q}, {read(dq), write(dqkv)});
  kernel(I, KernelKind::put_columns, {rows_, q + kv, q, kv}, {read(*dkv), write(dqkv)});
  gradients_[op.in[0]] = dqkv;
}

// --- some heads of whole sequences -----------------------------------------------------------------------------------

// Rows of [n | m | m] columns become whole sequences of a share of each of the three.
KernelRewrite::Index KernelRewrite::whole_heads(Steps& steps, Index rows, std::int64_t n, std::int64_t m) {
  const std::int64_t c = shape_.shard.context;
  const Index sent = value(elements_[rows]), whole = value(elements_[rows]);
  kernel(steps, KernelKind::cut_columns, {rows_, c, n, m}, {read(rows), write(sent)});
  const Index blocks = moved(steps, CollectiveKind::all_to_all, Axis::context, sent, elements_[rows]);
  kernel(steps, KernelKind::join_rows, {shape_.shard.micro_batch, own_positions(), (n + 2 * m) / c, c, balanced()},
         {read(blocks), write(whole)});
  return whole;
}
KernelRewrite::Index KernelRewrite::whole_rows(Steps& steps, Index heads, std::int64_t n, std::int64_t m) {
  const std::int64_t c = shape_.shard.context;
  const Index sent = value(elements_[heads]), rows = value(elements_[heads]);
  kernel(steps, KernelKind::cut_rows, {shape_.shard.micro_batch, own_positions(), (n + 2 * m) / c, c, balanced()},
         {read(heads), write(sent)});
  const Index blocks = moved(steps, CollectiveKind::all_to_all, Axis::context, sent, elements_[heads]);
  kernel(steps, KernelKind::join_columns, {rows_, c, n, m}, {read(blocks), write(rows)});
  return rows;
}

void KernelRewrite::attention_of_heads(const Operator& op) {
  auto& F = part_.forward;
  const std::int64_t c = shape_.shard.context, q = query_columns();
  heads_seen_ = whole_heads(F, at(op.in[0]), q, kv_columns() / 2);
  heads_made_ = value(rows_ * q), levels_ = value(rows_ * heads());
  kernel(F, KernelKind::attention, attention_dims(c, shape_.shard.sequence),
         {read(*heads_seen_), write(*heads_made_), write(*levels_)});
  sinks(op, *heads_made_, c);
  place_[op.out[0]] = whole_rows(F, *heads_made_, q, 0);
}
void KernelRewrite::attention_of_heads_gradient(const Operator& op) {
  auto& I = part_.input_gradient_steps;
  const std::int64_t c = shape_.shard.context, q = query_columns();
  const Index dmade = whole_heads(I, *gradients_[op.out[0]], q, 0), dseen = value(elements_[*heads_seen_]);
  sinks_gradient(op, *heads_made_, dmade, c);
  kernel(I, KernelKind::attention_gradient, attention_dims(c, shape_.shard.sequence),
         {read(*heads_seen_), read(*heads_made_), read(*levels_), read(dmade), write(dseen)});
  gradients_[op.in[0]] = whole_rows(I, dseen, q, kv_columns() / 2);
}

}  // namespace rehearsal::models
