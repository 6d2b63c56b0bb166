#include "cost/one_dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.hpp"

namespace rehearsal::cost {

OneDispatch one_dispatch(const cluster::ClusterSpec& machine, const collective::SizeCurves& curves,
                         const DispatchQuestion& question, const GroupShape& group) {
  if (question.per_token > question.experts)
    throw UserError(fmt::format("a token sees {} of {} experts; --top-k is at most --experts", question.per_token,
                                question.experts));
  if (question.experts % std::int64_t(group.ranks) != 0)
    throw UserError(fmt::format("{} ranks do not divide {} experts", group.ranks, question.experts));
  auto loads = question.loads;
  if (!loads.empty() && loads.size() != group.ranks)
    throw UserError(fmt::format("--loads has {} loads for {} ranks", loads.size(), group.ranks));
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.) / double(group.ranks);
  for (double& load : loads) load /= mean;
  std::sort(loads.begin(), loads.end(), std::greater<>());
  models::Framework framework;
  framework.dispatcher = question.dispatcher;
  const CostModel model(machine, curves, framework);
  const std::int64_t width = question.narrow && !question.combine ? 1 : 2;
  OneDispatch one{question,
                  {question.tokens, Bytes(question.hidden * width), question.experts, question.per_token, 0,
                   question.dispatcher != models::Dispatcher::nccl, group, loads.empty() ? 1 : loads.front(), loads,
                   question.combine && !loads.empty()},
                  {},
                  0};
  one.sent = model.hops(one.work, CostModel::Of::busiest), one.seconds = model.dispatch(one.work);
  return one;
}

}  // namespace rehearsal::cost
