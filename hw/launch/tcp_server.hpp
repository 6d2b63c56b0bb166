// Rank 0's side of the store over TCP: a thread that keeps the values and tells everybody who has failed. Rank 0 is a
// client of its own server, so there is one way to use a store.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "launch/store_address.hpp"

namespace rehearsal::launch {

class TcpServer {
 public:
  // Serves at the first port of `address` that is free, at the first address of this machine that its host names, and
  // at no other. Only where the name is of no use here is it all of them: it cannot be looked up, is another machine's
  // (a container behind one), or leads to this machine alone (127.0.1.1 for its own name) while ranks are elsewhere.
  // Throws MachineError when no port is free.
  TcpServer(const StoreAddress& address, std::size_t ranks);
  // Waits for the ranks to take leave: ten seconds at most, two when one has failed.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;
  std::uint16_t port() const;
  std::string host() const;  // at which rank 0 reaches it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::launch
