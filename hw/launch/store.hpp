// A key-value store for the time before and after the work: ranks tell each other ids, digests and results, and that
// they fail. Not for what is measured: a barrier takes 0.3 ms over TCP and 1 ms in a folder
// (sim/design/starting-ranks.md).
//
// Each key is set once. Values may have any length; they travel in pieces. Every wait ends when the patience is over
// (MachineError that names the key and the ranks that have never come) or when another rank has failed (PeerFailed).
// A store is used by one thread of each rank. A rank that ends without fail() and without destroying its store has
// died: over TCP the others learn of it, in a folder somebody else must see it (a parent, or the user's launcher).
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

// Another rank failed, and this one has to give up because of it.
class PeerFailed : public MachineError {
 public:
  explicit PeerFailed(const Failure& failure);
};

class Store {
 public:
  static constexpr std::size_t kLargestPiece = 4 << 20;  // of a value, as put() and fetch() see it, beside its length

  Store(std::size_t rank, std::size_t size, Time patience) : rank_(rank), size_(size), patience_(patience) {}
  virtual ~Store() = default;  // takes leave: the others may go on without this rank
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

  void set(const std::string& key, std::string_view bytes);
  std::string get(const std::string& key);   // waits until it is set
  std::string take(const std::string& key);  // the same, and forgets it

  // Tells all others that this rank gives up; the first failure of a job is the one that counts.
  virtual void fail(const std::string& message) noexcept = 0;
  // That of another rank, if there is one: cheap enough for a waiting loop, and known within a second.
  virtual std::optional<Failure> failed() = 0;
  void throw_if_failed();

  // For the functions below: `name` with the number of times this rank has used it, which is the same at all ranks.
  std::string numbered(const std::string& name);

 protected:
  virtual void put(const std::string& key, std::string piece) = 0;
  // Nothing when the patience is over, or at once when it is zero.
  virtual std::optional<std::string> fetch(const std::string& key, Time patience, bool forget) = 0;
  virtual std::vector<std::size_t> absent() = 0;  // ranks that have never come

 private:
  friend std::vector<std::string> gather(Store& store, const std::string& name, std::string_view bytes);
  std::string whole(const std::string& key, bool forget);
  [[noreturn]] void give_up(const std::string& what, std::vector<std::size_t> owing);

  std::size_t rank_, size_;
  Time patience_;
  std::map<std::string, std::size_t> uses_;
};

// Returns when this rank has reached the store, which may be before others have. Rank 0 serves it, except in a folder.
// Throws MachineError: nobody serves it for as long as `patience`, another job is there, the port is taken.
std::unique_ptr<Store> open_store(const StoreAddress& address, const RankEnvironment& mine, Time patience);

// To be called by all ranks in the same order; every name may be used again and again.
// Everybody's bytes at rank 0, in rank order; empty elsewhere.
std::vector<std::string> gather(Store& store, const std::string& name, std::string_view bytes);
std::vector<std::string> gather_everywhere(Store& store, const std::string& name, std::string_view bytes);
// What rank 0 says; `bytes` of others are ignored.
std::string broadcast(Store& store, const std::string& name, std::string_view bytes);
// Returns when all have called it.
void barrier(Store& store, const std::string& name);

}  // namespace rehearsal::launch
