#include "tiers/store.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::tiers {

Region Store::add(std::int64_t place, Bytes size) {
  held_.emplace(++last_, Held{place, size});
  return last_;
}

std::int64_t Store::place(Region region) const { return held(region, 0, Bytes()).place; }

void Store::stop() { writes_.reset(), reads_.reset(); }

void Store::free(Region region) {
  const auto found = held_.find(region);
  INVARIANT(found != held_.end(), "a region that was allocated is freed");
  INVARIANT(std::ranges::none_of(under_way_, [&](const auto& copy) { return copy.second == region; }),
            "a region is freed after its copies were waited for");
  release(found->second.place);
  held_.erase(found);
}

const Store::Held& Store::held(Region region, std::size_t bytes, Bytes at) const {
  const auto found = held_.find(region);
  INVARIANT(found != held_.end(), "a region that was allocated is copied");
  INVARIANT(at >= Bytes() && at.count() + static_cast<std::int64_t>(bytes) <= found->second.size.count(),
            "a copy stays inside its region");
  return found->second;
}

Ticket Store::begun(Region region, bool write, std::function<void()> copy) {
  const Ticket ticket{write, (write ? writes_ : reads_)->add(std::move(copy))};
  under_way_.emplace(std::pair{write, ticket.number}, region);
  return ticket;
}

Ticket Store::write(Region region, std::span<const std::byte> from, Bytes at) {
  const Held held = this->held(region, from.size(), at);
  return begun(region, true, [this, held, from, at] { put(held.place, held.size, from, at.count()); });
}

Ticket Store::read(Region region, std::span<std::byte> to, Bytes at) {
  const Held held = this->held(region, to.size(), at);
  return begun(region, false, [this, held, to, at] { get(held.place, held.size, to, at.count()); });
}

std::optional<Lane::Instant> Store::ended(Ticket ticket) const {
  return (ticket.write ? writes_ : reads_)->ended(ticket.number);
}

void Store::wait(Ticket ticket) {
  INVARIANT(under_way_.erase({ticket.write, ticket.number}) == 1, "a copy is waited for once");
  (ticket.write ? writes_ : reads_)->wait(ticket.number);
}

}  // namespace rehearsal::tiers
