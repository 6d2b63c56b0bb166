// Memory for bytes that a rank does not compute on: in the memory of its host, or in a file. Regions are allocated and
// freed; copies to and from them run asynchronously.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "tiers/lane.hpp"

namespace rehearsal::tiers {

using Region = std::uint64_t;  // unique in one store

// A copy that was started.
struct Ticket {
  bool write = false;
  Lane::Number number = 0;
};

// Writes run in the order in which they were started, and so do reads, but reads and writes do not wait for each other:
// to read written data, first wait for the write. One thread uses a store.
//
// Faults of the machine throw MachineError: at once, or when the copy is waited for.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual Region allocate(Bytes size) = 0;
  void free(Region region);  // no copy of it may be pending

  // Both can access any part of a region. The memory must stay valid until the copy was waited for.
  Ticket write(Region region, std::span<const std::byte> from, Bytes at = {});
  Ticket read(Region region, std::span<std::byte> to, Bytes at = {});
  std::optional<Lane::Instant> ended(Ticket ticket) const;
  void wait(Ticket ticket);  // once per ticket

  // Sizes of regions as requested.
  virtual Bytes live() const = 0;
  virtual Bytes high_water() const = 0;
  // How the bytes are transferred, in words.
  virtual std::string means() const = 0;

 protected:
  Region add(std::int64_t place, Bytes size);
  std::int64_t place(Region region) const;
  // Ends both lanes: derived classes must call it before they destroy what their copies use.
  void stop();

 private:
  virtual void release(std::int64_t place) = 0;
  // Run on a lane. `place`: the value with which the region was added.
  virtual void put(std::int64_t place, Bytes size, std::span<const std::byte> from, std::int64_t at) = 0;
  virtual void get(std::int64_t place, Bytes size, std::span<std::byte> to, std::int64_t at) = 0;

  struct Held {
    std::int64_t place;
    Bytes size;
  };
  const Held& held(Region region, std::size_t bytes, Bytes at) const;
  Ticket begun(Region region, bool write, std::function<void()> copy);

  std::map<Region, Held> held_;
  std::map<std::pair<bool, Lane::Number>, Region> under_way_;
  Region last_ = 0;
  std::unique_ptr<Lane> writes_ = std::make_unique<Lane>(), reads_ = std::make_unique<Lane>();
};

}  // namespace rehearsal::tiers
