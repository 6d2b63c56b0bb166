// Rank 0's side of the TCP store: a thread that keeps the values and tells all ranks who has failed. Rank 0 is a client
// of its own server, so there is only one way to use a store.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "launch/store_address.hpp"

namespace rehearsal::launch {

class TcpServer {
 public:
  // Binds the first free port of `address` at the first address of this machine that the host name resolves to, and at
  // no other. It binds all addresses only when the name is of no use here: it does not resolve, it is another machine's
  // (a container behind one), or it is loopback only (127.0.1.1 for the machine's own name) while ranks are elsewhere.
  // Throws MachineError when no port is free.
  TcpServer(const StoreAddress& address, std::size_t ranks);
  // Waits for the ranks to leave: at most ten seconds, two when one has failed.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;
  std::uint16_t port() const;
  std::string host() const;  // address at which rank 0 reaches it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::launch
