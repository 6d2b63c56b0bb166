#include "launch/rank_process.hpp"

#include "base/error.hpp"

namespace rehearsal::launch {
namespace {

RankEnvironment mine() {
  const auto membership = launch::membership(Launchers::any);
  INVARIANT(membership.has_value(), "only a rank joins a job");
  return *membership;
}

}  // namespace

RankProcess::RankProcess(Time patience) : membership_(mine()), patience_(patience) {}

Store& RankProcess::store() {
  if (!store_) store_ = open_store(store_address(membership_), membership_, patience_);
  return *store_;
}

std::vector<std::string> RankProcess::publish(const std::string& result) {
  if (!is_rank()) return gather(store(), "results", result);
  presence_.publish(result);
  return {};
}

// Ranks that give up because of another rank have nothing to add.
void RankProcess::report(std::exception_ptr error) noexcept {
  presence_.report(error);
  if (!store_) return;
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailed&) {
  } catch (const std::exception& e) {
    store_->fail(e.what());
  } catch (...) {
    store_->fail("something unknown");
  }
}

}  // namespace rehearsal::launch
