// The tier `host` for ranks that compute on a CPU: separate memory, copied by threads of its own.
#pragma once
#include <map>

#include "tiers/store.hpp"

namespace rehearsal::tiers {

class HeapStore final : public Store {
 public:
  HeapStore() = default;
  ~HeapStore() override;
  Region allocate(Bytes size) override;  // throws MachineError when out of memory
  // The memory of a region: the host computes on it, and files are read into it and written from it.
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
  std::map<std::int64_t, Block> blocks_;  // by address, which is their `place`
  Bytes live_, high_water_;
};

}  // namespace rehearsal::tiers
