#include "launch/rank_process.hpp"

#include "base/error.hpp"

namespace rehearsal::launch {
namespace {

RankEnvironment mine(Launchers launchers) {
  const auto membership = launch::membership(launchers);
  INVARIANT(membership.has_value(), "only a rank joins a job");
  return *membership;
}

}  // namespace

RankProcess::RankProcess()
    : RankProcess(Launchers::any, [](const RankEnvironment& rank) { return open_bootstrap(rank); }) {}

RankProcess::RankProcess(Launchers launchers, Open open)
    : membership_(mine(launchers)), open_(std::move(open)), presence_(launchers) {}

Bootstrap& RankProcess::bootstrap() {
  if (!bootstrap_) bootstrap_ = open_(membership_);
  return *bootstrap_;
}

std::vector<std::string> RankProcess::publish(const std::string& result) {
  if (!is_rank()) return bootstrap().gather("results", result);
  presence_.publish(result);
  return {};
}

void RankProcess::report(std::exception_ptr error) noexcept {
  presence_.report(error);
  if (!bootstrap_) return;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    bootstrap_->fail(e.what());
  } catch (...) {
    bootstrap_->fail("something unknown");
  }
}

}  // namespace rehearsal::launch
