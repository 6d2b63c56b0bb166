// The tier `host` where ranks compute on a CPU: memory beside that of the rank, copied by threads of its own.
#pragma once
#include <map>

#include "tiers/store.hpp"

namespace rehearsal::tiers {

class HeapStore final : public Store {
 public:
  HeapStore() = default;
  ~HeapStore() override;
  Region allocate(Bytes size) override;  // throws MachineError where there is no memory left
  // The region itself: what the host computes on, and where files are read to and written from.
  std::span<std::byte> memory(Region region) const;
  Bytes live() const override { return live_; }
  Bytes high_water() const override { return high_water_; }
  std::string means() const override { return "memory, copied by a thread"; }

 private:
  struct Freed {
    void operator()(std::byte* block) const;
  };
  void release(std::int64_t place) override;
  void put(std::int64_t place, Bytes size, std::span<const std::byte> from, std::int64_t at) override;
  void get(std::int64_t place, Bytes size, std::span<std::byte> to, std::int64_t at) override;

  struct Block {
    std::unique_ptr<std::byte[], Freed> memory;
    Bytes size;
  };
  std::map<std::int64_t, Block> blocks_;  // by address, which is their place
  Bytes live_, high_water_;
};

}  // namespace rehearsal::tiers
