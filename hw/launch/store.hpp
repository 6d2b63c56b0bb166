// A key-value store for use before and after the work: ranks exchange ids, digests and results, and report failures.
// Not for use within a measurement: a barrier takes 0.3 ms over TCP and 1 ms in a folder
// (sim/design/starting-ranks.md).
//
// Each key is set once. Values may have any length; they are sent in pieces. Every wait ends with MachineError when
// patience runs out (it names the key and the ranks that never connected), or with PeerFailed when another rank failed.
// One thread of each rank uses the store. A rank that ends without fail() and without destroying its store has died:
// over TCP the other ranks learn of it, with a folder a parent or the user's launcher must notice it.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "launch/store_address.hpp"

namespace rehearsal::launch {

struct Failure {
  std::size_t rank;
  std::string message;
};

// Another rank failed, so this one must give up.
class PeerFailed : public MachineError {
 public:
  explicit PeerFailed(const Failure& failure);
};

class Store {
 public:
  static constexpr std::size_t kLargestPiece = 4 << 20;  // of a value; put() and fetch() add its length

  Store(std::size_t rank, std::size_t size, Time patience) : rank_(rank), size_(size), patience_(patience) {}
  virtual ~Store() = default;  // leaves: the other ranks may continue without this one
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

  void set(const std::string& key, std::string_view bytes);
  std::string get(const std::string& key);   // waits until the key is set
  std::string take(const std::string& key);  // like get(), and erases the value

  // Tells all other ranks that this one gives up; the first failure of a job is the one reported.
  virtual void fail(const std::string& message) noexcept = 0;
  // The failure of another rank, if any: cheap enough for a waiting loop, and known within a second.
  virtual std::optional<Failure> failed() = 0;
  void throw_if_failed();

  // For the functions below: `name` with its number of uses by this rank, which is the same on all ranks.
  std::string numbered(const std::string& name);

 protected:
  virtual void put(const std::string& key, std::string piece) = 0;
  // Nothing after `patience`, or at once when that is zero.
  virtual std::optional<std::string> fetch(const std::string& key, Time patience, bool forget) = 0;
  virtual std::vector<std::size_t> absent() = 0;  // ranks that have never connected

 private:
  friend std::vector<std::string> gather(Store& store, const std::string& name, std::string_view bytes);
  std::string whole(const std::string& key, bool forget);
  [[noreturn]] void give_up(const std::string& what, std::vector<std::size_t> owing);

  std::size_t rank_, size_;
  Time patience_;
  std::map<std::string, std::size_t> uses_;
};

// Returns when this rank has reached the store, perhaps before others have. Rank 0 serves it, except in a folder.
// Throws MachineError when there is no server within `patience`, another job is there, or the port is taken.
std::unique_ptr<Store> open_store(const StoreAddress& address, const RankEnvironment& mine, Time patience);

// All ranks must call these in the same order; a name may be reused any number of times.
// The bytes of all ranks at rank 0, in rank order; empty elsewhere.
std::vector<std::string> gather(Store& store, const std::string& name, std::string_view bytes);
std::vector<std::string> gather_everywhere(Store& store, const std::string& name, std::string_view bytes);
// The bytes of rank 0; `bytes` of others are ignored.
std::string broadcast(Store& store, const std::string& name, std::string_view bytes);
// Returns when all have called it.
void barrier(Store& store, const std::string& name);

}  // namespace rehearsal::launch
