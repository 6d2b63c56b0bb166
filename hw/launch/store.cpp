#include "launch/store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/quantity_text.hpp"
#include "launch/folder_store.hpp"
#include "launch/number_bytes.hpp"
#include "launch/tcp_store.hpp"

namespace rehearsal::launch {
namespace {

constexpr std::size_t kNumber = 8;

std::string piece_key(const std::string& key, std::size_t piece) { return fmt::format("{}:{}", key, piece); }

std::string ranks_text(const std::vector<std::size_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

PeerFailed::PeerFailed(const Failure& failure)
    : MachineError(fmt::format("rank {} failed: {}", failure.rank, failure.message)) {}

// The first piece holds the length of the whole value, and is put last.
void Store::set(const std::string& key, std::string_view bytes) {
  for (std::size_t piece = 1; piece * kLargestPiece < bytes.size(); ++piece)
    put(piece_key(key, piece), std::string(bytes.substr(piece * kLargestPiece, kLargestPiece)));
  std::string first;
  append_number(first, bytes.size(), kNumber);
  put(key, first.append(bytes.substr(0, kLargestPiece)));
}

std::string Store::get(const std::string& key) { return whole(key, false); }
std::string Store::take(const std::string& key) { return whole(key, true); }

std::string Store::whole(const std::string& key, bool forget) {
  const auto first = fetch(key, patience_, forget);
  if (!first) give_up("'" + key + "'", {});
  auto broken = [&] { return MachineError(fmt::format("'{}' in the store of the ranks is damaged", key)); };
  if (first->size() < kNumber) throw broken();
  const std::uint64_t size = read_number(*first, 0, kNumber);
  std::string bytes = first->substr(kNumber);
  for (std::size_t piece = 1; bytes.size() < size; ++piece) {
    auto next = fetch(piece_key(key, piece), patience_, forget);
    if (!next || next->empty()) throw broken();
    bytes += *next;
  }
  if (bytes.size() != size) throw broken();
  return bytes;
}

void Store::throw_if_failed() {
  if (const auto failure = failed()) throw PeerFailed(*failure);
}

std::string Store::numbered(const std::string& name) { return fmt::format("{}#{}", name, uses_[name]++); }

void Store::give_up(const std::string& what, std::vector<std::size_t> owing) {
  const auto never = absent();
  std::erase_if(owing, [&](std::size_t rank) { return std::ranges::find(never, rank) != never.end(); });
  std::string text = fmt::format("waited {} for {}", show(patience_), what);
  if (!never.empty()) text += fmt::format("; {} {} never come", ranks_text(never), never.size() == 1 ? "has" : "have");
  if (!owing.empty()) text += fmt::format("; {} {} not set it", ranks_text(owing), owing.size() == 1 ? "has" : "have");
  throw MachineError(text);
}

std::unique_ptr<Store> open_store(const StoreAddress& address, const RankEnvironment& mine, Time patience) {
  if (!address.folder.empty()) return open_folder_store(address, mine, patience);
  return open_tcp_store(address, mine, patience);
}

std::vector<std::string> gather(Store& store, const std::string& name, std::string_view bytes) {
  const std::string key = store.numbered(name);
  auto of = [&](std::size_t rank) { return fmt::format("{}/{}", key, rank); };
  if (store.rank() != 0) return store.set(of(store.rank()), bytes), std::vector<std::string>{};
  std::vector<std::string> all = {std::string(bytes)};
  for (std::size_t rank = 1; rank < store.size(); ++rank) {
    if (!store.fetch(of(rank), store.patience_, false)) {
      std::vector<std::size_t> owing;
      for (std::size_t r = rank; r < store.size(); ++r)
        if (!store.fetch(of(r), Time{}, false)) owing.push_back(r);
      store.give_up("'" + name + "' of all ranks", owing);
    }
    all.push_back(store.take(of(rank)));
  }
  return all;
}

// Through rank 0: twice as many messages as ranks, instead of their square.
std::vector<std::string> gather_everywhere(Store& store, const std::string& name, std::string_view bytes) {
  std::string joined;
  for (const std::string& one : gather(store, name, bytes)) append_number(joined, one.size(), kNumber), joined += one;
  joined = broadcast(store, name, joined);
  std::vector<std::string> all;
  for (std::size_t at = 0; at < joined.size();) {
    const std::uint64_t size = read_number(joined, at, kNumber);
    all.push_back(joined.substr(at + kNumber, size));
    at += kNumber + size;
  }
  INVARIANT(all.size() == store.size(), "rank 0 joins one text of every rank");
  return all;
}

std::string broadcast(Store& store, const std::string& name, std::string_view bytes) {
  const std::string key = store.numbered(name + ".all");
  if (store.rank() != 0) return store.get(key);
  store.set(key, bytes);
  return std::string(bytes);
}

void barrier(Store& store, const std::string& name) { gather_everywhere(store, name, {}); }

}  // namespace rehearsal::launch
