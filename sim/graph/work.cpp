#include "graph/work.hpp"

#include <fmt/format.h>

#include "base/quantity_text.hpp"

namespace rehearsal::graph {
namespace {

struct Describe {
  std::string operator()(const Gemm& w) const {
    return fmt::format("gemm {}{}x{}x{} {}{}", w.batch > 1 ? fmt::format("{} * ", w.batch) : "", w.m, w.n, w.k,
                       name(w.precision), w.weight_gradient ? " weight gradient" : "");
  }
  std::string operator()(const FusedAttention& w) const {
    auto seen = w.seen > 0 ? fmt::format(" {} {}", w.chunked ? "chunks of" : "at most", w.seen) : std::string();
    if (w.share < 1) seen += fmt::format(" of which {:.4g}", w.share);
    return fmt::format("attention {}x{} heads {}x{}x{}{}{}{}{}", w.batch, w.heads, w.queries, w.keys,
                       w.value_dim > 0 ? fmt::format("{}/{}", w.head_dim, w.value_dim) : fmt::format("{}", w.head_dim),
                       w.causal ? " causal" : "", w.backward ? " backward" : "",
                       bytes_per_element(w.precision) > 2 ? fmt::format(" {}", name(w.precision)) : "", seen);
  }
  std::string operator()(const MemoryBound& w) const {
    const char* dropout = w.kind == Traffic::plain                  ? ""
                          : w.kind == Traffic::with_dropout_forward ? " dropout"
                                                                    : " dropout backward";
    const auto beyond = w.beyond > Bytes{} ? fmt::format(", as long as {} more", show(w.beyond)) : std::string();
    return fmt::format("memory-bound {} in {} kernels{}{}", show(w.traffic), w.kernels, dropout, beyond);
  }
  std::string operator()(const Collective& w) const {
    return fmt::format("{} {} over {} ranks ({} GPUs apart){}", name(w.kind), show(w.size), w.group.ranks,
                       w.group.stride, w.tensors > 1 ? fmt::format(", {} tensors", w.tensors) : "");
  }
  std::string operator()(const Dispatch& w) const {
    return fmt::format("dispatch of {} x {} to {} of {} experts over {} ranks", w.tokens, show(w.each), w.per_token,
                       w.experts, w.group.ranks);
  }
  std::string operator()(const Overlapped& w) const {
    return fmt::format("work {} beside {}", w.kernel.value, w.collective.value);
  }
  std::string operator()(const Message& w) const {
    std::string text = fmt::format("send {} from GPU {} to {}", show(w.size), w.from, w.to);
    if (w.chunks > 1) text += fmt::format(" in {} chunks", w.chunks);
    if (w.gathered.count() > 0) text += fmt::format(", gathers {} over {} ranks", show(w.gathered), w.gather.ranks);
    return text;
  }
  std::string operator()(const Receive&) const { return "receive"; }
  std::string operator()(const OptimizerStep& w) const {
    return fmt::format("optimizer step of {} parameters, {}", w.parameters, show(w.traffic));
  }
  std::string operator()(const FixedDelay& w) const { return "wait " + show(w.duration); }
  std::string operator()(const HostBound& w) const {
    return fmt::format("host {} beyond work {}", show(w.host), w.busy.value);
  }
  std::string operator()(const Kernel& w) const {
    std::string text = rehearsal::name(w.kind);
    for (std::size_t i = 0; i < w.dims.size() && w.dims[i] > 0; ++i)
      text += fmt::format("{}{}", i ? "x" : " ", w.dims[i]);
    return text;
  }
  std::string operator()(const StagingCopy& w) const {
    return fmt::format("{} {}", w.incoming ? "take" : "post", show(w.size));
  }
  std::string operator()(const Copy& w) const {
    return fmt::format("copy {} from {} to {}{}", show(w.size), rehearsal::name(w.from), rehearsal::name(w.to),
                       w.turns > 1 ? fmt::format(", in turns of {}", w.turns) : "");
  }
  std::string operator()(const HostStep& w) const {
    return fmt::format("host step of {} parameters, {}", w.parameters, show(w.traffic));
  }
  std::string operator()(const Sequence& w) const {
    std::size_t count = 0;
    for (const Sequence::Item& item : w.items) count += item.count;
    return fmt::format("sequence of {} works", count);
  }
};

}  // namespace

const char* name(Category category) {
  switch (category) {
    case Category::compute:
      return "compute";
    case Category::recompute:
      return "recompute";
    case Category::tensor_comm:
      return "tensor_comm";
    case Category::pipeline_comm:
      return "pipeline_comm";
    case Category::data_comm:
      return "data_comm";
    case Category::optimizer:
      return "optimizer";
    case Category::host:
      return "host";
    case Category::contention:
      return "contention";
    case Category::bubble:
      return "bubble";
    case Category::context_comm:
      return "context_comm";
    case Category::expert_comm:
      return "expert_comm";
    case Category::offload:
      return "offload";
  }
  return "?";
}

std::string describe(const Work& work) { return std::visit(Describe{}, work); }

}  // namespace rehearsal::graph
