#include "report/dispatch_report.hpp"

#include <fmt/format.h>

#include "base/quantity_text.hpp"

namespace rehearsal::report {
namespace {

const char* name(const cost::OneDispatch& one) { return one.question.combine ? "combine" : "dispatch"; }

const char* dispatcher(const cost::OneDispatch& one) {
  switch (one.question.dispatcher) {
    case models::Dispatcher::nccl:
      return "nccl";
    case models::Dispatcher::deepep:
      return "deepep";
    case models::Dispatcher::hybridep:
      return "hybridep";
  }
  return "";
}

}  // namespace

std::string to_text(const cost::OneDispatch& one) {
  const auto& q = one.question;
  const auto line = [&](const char* way, double sent, double rate) {
    return fmt::format("  {:<8} {:>12} sent by each GPU, {:.4g} GB/s\n", way, show(bytes(sent)), rate / 1e9);
  };
  return fmt::format(
             "{} by {}: {} tokens of {} values of each of {} ranks, {} of {} experts for each\n\n"
             "  time     {:>9.4g} ms\n",
             name(one), dispatcher(one), q.tokens, q.hidden, one.work.group.ranks, q.per_token, q.experts,
             one.seconds * 1e3) +
         line("NVLink", one.sent.inside, one.inside_rate()) + line("RDMA", one.sent.out, one.out_rate());
}

Json to_json(const cost::OneDispatch& one) {
  const auto& q = one.question;
  return {{"collective", name(one)},
          {"dispatcher", dispatcher(one)},
          {"ranks", one.work.group.ranks},
          {"tokens", q.tokens},
          {"hidden", q.hidden},
          {"experts", q.experts},
          {"top_k", q.per_token},
          {"time_s", one.seconds},
          {"nvlink_bytes", one.sent.inside},
          {"nvlink_bytes_per_s", one.inside_rate()},
          {"rdma_bytes", one.sent.out},
          {"rdma_bytes_per_s", one.out_rate()}};
}

std::string to_csv(const cost::OneDispatch& one) {
  const auto& q = one.question;
  return fmt::format(
      "collective,dispatcher,ranks,tokens,hidden,experts,top_k,time_ms,nvlink_gbs,rdma_gbs\n"
      "{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g}\n",
      name(one), dispatcher(one), one.work.group.ranks, q.tokens, q.hidden, q.experts, q.per_token, one.seconds * 1e3,
      one.inside_rate() / 1e9, one.out_rate() / 1e9);
}

}  // namespace rehearsal::report
