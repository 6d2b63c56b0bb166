// Mamba-2 (arXiv 2405.21060) by native kernels: convolution, scan and gated norm. A scan goes through whole sequences:
// over a context group each rank has some heads of them meanwhile, whatever attention does (Megatron-Core,
// core/ssm/mamba_context_parallel.py); from piece to piece of a sequence go the last rows before the convolution, and
// the state.
#include <fmt/format.h>

#include "base/error.hpp"
#include "models/rehearsal_rewrite.hpp"

namespace rehearsal::models {

Piece KernelRewrite::piece() const { return {shape_.shard.piece > 0, shape_.shard.piece + 1 < shape_.shard.pieces}; }
ScanShape KernelRewrite::scan_shape() const {
  const auto& shard = shape_.shard;
  const std::int64_t c = shard.context;
  return {shard.micro_batch,
          shard.sequence / shard.pieces,
          heads() / c,
          kv_heads() / c,
          mixer().head_dim,
          mixer().value_dim(),
          c};
}
std::vector<std::int64_t> KernelRewrite::convolve_dims() const {
  const ScanShape of = scan_shape();
  return {of.tokens(),         of.columns(),          of.positions,
          mixer().convolution, of.groups * of.states, cut_heads() ? of.context : 0,
          piece().dim()};
}
std::vector<std::int64_t> KernelRewrite::scan_dims() const {
  const ScanShape of = scan_shape();
  return {of.batch,     of.positions, of.heads, of.groups, of.states, of.depth, cut_heads() ? of.context : 0,
          piece().dim()};
}

void KernelRewrite::convolve(const Operator& op) {
  auto& F = part_.forward;
  const Index x = at(op.in[0]);
  convolved_ = cut_heads() ? whole_heads(F, x, value_columns(), key_columns()) : x;
  rows_before_ = *convolved_;  // of which nothing is read if there is no earlier piece
  if (piece().follows) rows_before_ = carried({.piece = shape_.shard.piece - 1, .ends = true}, last_rows());
  if (piece().goes_on) {
    const Index last = carried({.piece = shape_.shard.piece, .begins = true}, last_rows());
    part_.values[last].stays = true;
    kernel(F, KernelKind::last_rows, {rows_, columns(op.in[0]), own_positions(), mixer().convolution},
           {read(x), write(last)});
  }
  kernel(F, KernelKind::convolve, convolve_dims(),
         {read(*convolved_), weight(op.parameters[0]), read(*rows_before_), write(at(op.out[0]))});
}

void KernelRewrite::convolve_gradient(const Operator& op) {
  auto& I = part_.input_gradient_steps;
  const std::int64_t own = shape_.shard.piece;
  const Index dx = like(op.in[0]);
  const Index dbefore =
      piece().follows ? carried({.piece = own - 1, .gradient = true, .begins = true}, last_rows()) : dx;
  const Index after =
      piece().goes_on ? carried({.piece = own, .gradient = true, .ends = true}, last_rows()) : *convolved_;
  kernel(I, KernelKind::convolve_gradient, convolve_dims(),
         {read(*convolved_), weight(op.parameters[0]), read(*rows_before_), read(*gradients_[op.out[0]]), read(after),
          gradient(op.parameters[0]), write(dx), write(dbefore)});
  gradients_[op.in[0]] = cut_heads() ? whole_rows(I, dx, value_columns(), key_columns()) : dx;
}

void KernelRewrite::scan(const Operator& op) {
  auto& F = part_.forward;
  const ScanShape of = scan_shape();
  const Index steps = cut_heads() ? whole_heads(F, at(op.in[1]), heads(), 0) : at(op.in[1]);
  const Index made = cut_heads() ? like(op.out[0]) : at(op.out[0]);
  scanned_ = value(of.kept());
  if (piece().follows) {
    const Index before = carried({.piece = shape_.shard.piece - 1, .ends = true, .which = 1}, of.state());
    kernel(F, KernelKind::copy_state, {of.state(), 0, 0}, {read(before), write(*scanned_)});
  }
  kernel(F, KernelKind::scan, scan_dims(),
         {read(at(op.in[0])), read(steps), weight(op.parameters[0]), write(made), write(*scanned_)});
  if (piece().goes_on) {
    const Index behind = carried({.piece = shape_.shard.piece, .begins = true, .which = 1}, of.state());
    part_.values[behind].stays = true;
    kernel(F, KernelKind::copy_state, {of.state(), of.chunks() * of.state(), 0}, {read(*scanned_), write(behind)});
  }
  if (cut_heads()) place_[op.out[0]] = whole_rows(F, made, value_columns(), 0);
}

void KernelRewrite::scan_gradient(const Operator& op) {
  auto& I = part_.input_gradient_steps;
  const ScanShape of = scan_shape();
  const std::int64_t own = shape_.shard.piece;
  const Index given = *gradients_[op.out[0]], dy = cut_heads() ? whole_heads(I, given, value_columns(), 0) : given;
  const Index dx = like(op.in[0]), dsteps = like(op.in[1]), scratch = value(of.scratch());
  if (piece().goes_on)
    kernel(I, KernelKind::copy_state, {of.state(), 0, of.chunks() * of.state()},
           {read(carried({.piece = own, .gradient = true, .ends = true, .which = 1}, of.state())), write(scratch)});
  kernel(I, KernelKind::scan_gradient, scan_dims(),
         {read(at(op.in[0])), weight(op.parameters[0]), read(*scanned_), read(dy), gradient(op.parameters[0]),
          write(dx), write(dsteps), write(scratch)});
  if (piece().follows)
    kernel(
        I, KernelKind::copy_state, {of.state(), 0, 0},
        {read(scratch), write(carried({.piece = own - 1, .gradient = true, .begins = true, .which = 1}, of.state()))});
  gradients_[op.in[0]] = dx;
  gradients_[op.in[1]] = cut_heads() ? whole_rows(I, dsteps, heads(), 0) : dsteps;
}

void KernelRewrite::gated_norm(const Operator& op, std::size_t number) {
  statistics_[number] = value(rows_ * kv_heads());
  kernel(part_.forward, KernelKind::gated_norm, {rows_, columns(op.out[0]), kv_heads()},
         {read(at(op.in[0])), read(at(op.in[1])), weight(op.parameters[0]), write(at(op.out[0])),
          write(*statistics_[number])});
}
void KernelRewrite::gated_norm_gradient(const Operator& op, std::size_t number) {
  const Index dx = like(op.in[0]), dz = like(op.in[1]);
  kernel(part_.input_gradient_steps, KernelKind::gated_norm_gradient, {rows_, columns(op.out[0]), kv_heads()},
         {read(at(op.in[0])), read(at(op.in[1])), read(*statistics_[number]), weight(op.parameters[0]),
          read(*gradients_[op.out[0]]), gradient(op.parameters[0]), write(dx), write(dz)});
  gradients_[op.in[0]] = dx, gradients_[op.in[1]] = dz;
}

void refuse_state_space(const Mixer& mixer, const NetworkShape& shape) {
  const auto refuse = [](const std::string& rule) { throw UserError("framework native " + rule); };
  const auto& shard = shape.shard;
  const std::int64_t groups = mixer.kv_heads, positions = shard.sequence / shard.pieces;
  if (mixer.convolution < 2)
    refuse("scans behind a convolution of two taps or more; set 'convolution' of the mixer to one of 2 to 64");
  if (mixer.head_dim > 256)
    refuse(fmt::format("keeps states of at most 256 columns, and the mixer's have {}; set its 'head_dim' to fewer",
                       mixer.head_dim));
  if (mixer.heads % groups != 0)
    refuse(
        fmt::format("gives each of the mixer's {} groups ('kv_heads') equally many of its {} heads; set 'heads' to "
                    "a multiple of 'kv_heads'",
                    groups, mixer.heads));
  if (groups % (shard.tensor * shard.context) != 0)
    refuse(
        fmt::format("deals the groups of a scan out whole, and 'tensor' {} x 'context' {} do not divide the {} of "
                    "the mixer ('kv_heads'); set these to a multiple, or cut by less",
                    shard.tensor, shard.context, groups));
  if (shard.pieces > 1 && positions < mixer.convolution - 1)
    refuse(
        fmt::format("hands the last {} tokens of a piece to the next one, and pieces have {}; set 'schedule.pieces' "
                    "to fewer",
                    mixer.convolution - 1, positions));
}

}  // namespace rehearsal::models
