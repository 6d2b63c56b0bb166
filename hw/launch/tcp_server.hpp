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
  // Serves at the first port of `address` that is free, on all networks of this machine unless the host is "localhost"
  // or a loopback address. Throws MachineError when none is.
  TcpServer(const StoreAddress& address, std::size_t ranks);
  // Waits for the ranks to take leave: ten seconds at most, two when one has failed.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;
  std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::launch
