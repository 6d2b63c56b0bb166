// The TCP store: a rank's client of rank 0's server.
#pragma once
#include "launch/store.hpp"

namespace rehearsal::launch {

std::unique_ptr<Store> open_tcp_store(const StoreAddress& address, const RankEnvironment& mine, Time patience);

}  // namespace rehearsal::launch
