#include "plan/unpriced.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"

namespace rehearsal::plan {

void refuse_unpriced(const Job& job) {
  const auto& m = job.model;
  const auto& t = job.training;
  const auto& s = job.framework;
  const std::pair<const char*, bool> asked[] = {
      {"framework.expert_overlap beside a ring of context",
       s.expert_overlap && job.parallelism.context > 1 && t.context == models::ContextKind::ring},
      {"latent attention by this program's own kernels", m.mla && s.native_kernels}};
  std::vector<std::string> unpriced;
  for (const auto& [what, is] : asked)
    if (is) unpriced.emplace_back(what);
  if (unpriced.empty()) return;
  const bool several = unpriced.size() > 1;
  throw UserError(
      fmt::format("{} {} not priced yet: what the scenario says is right, but nobody knows how long it takes",
                  fmt::join(unpriced, ", "), several ? "are" : "is"));
}

}  // namespace rehearsal::plan
