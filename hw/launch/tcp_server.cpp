#include "launch/tcp_server.hpp"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "launch/number_bytes.hpp"
#include "launch/secret.hpp"
#include "launch/store.hpp"
#include "launch/wire.hpp"

namespace rehearsal::launch {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto kHelloTimeout = 5s;  // for a new connection
constexpr auto kLeaveTimeout = 10s, kFailedTimeout = 2s;
constexpr auto kAcceptAgain = 100ms;  // retry, when there are no free descriptors
constexpr auto kBindTimeout = 1s;     // a job that is ending may still hold the port
constexpr std::size_t kLargestMessage = Store::kLargestPiece + (128 << 10);
constexpr std::size_t kMostStrangers = 256;  // connections that have not sent hello

struct Client {
  Client(tcp::socket socket, asio::io_context& io, std::uint64_t arrived)
      : wire(std::make_shared<Wire>(std::move(socket))), hello_timer(io), number(arrived) {}
  std::shared_ptr<Wire> wire;
  asio::steady_timer hello_timer;
  const std::uint64_t number;  // in order of arrival
  const std::string nonce = launch::nonce();
  std::optional<std::size_t> rank;  // set by hello
};

struct Waiting {
  std::weak_ptr<Client> who;
  std::uint32_t request;
  bool forget;
};

}  // namespace

struct TcpServer::Impl {
  Impl(const StoreAddress& where, std::size_t ranks)
      : greeting(launch::greeting(where.job, ranks)),
        secret(where.secret),
        come(ranks, false),
        acceptor(io),
        again(io),
        last(io) {
    bind(where);
    accept();
    thread = std::thread([this] { io.run(); });
  }

  // --- everything below runs in the thread of `io`, except the server's constructor and destructor ----------------

  // In the order in which they are tried.
  std::vector<asio::ip::address> addresses(const StoreAddress& where) {
    if (where.host == "localhost") return {asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
    const std::vector<asio::ip::address> all = {asio::ip::address_v6::any(), asio::ip::address_v4::any()};
    error_code error;
    std::vector<asio::ip::address> ours;
    if (const auto given = asio::ip::make_address(where.host, error); !error) {
      ours.push_back(given);
    } else {
      error.clear();
      for (const auto& found : tcp::resolver(io).resolve(where.host, "", error)) {
        const auto address = found.endpoint().address();
        if (!address.is_loopback() || where.one_host) ours.push_back(address);
      }
    }
    std::erase_if(ours, [&](const asio::ip::address& address) { return !is_of_this_machine(address); });
    return ours.empty() ? all : ours;
  }

  bool is_of_this_machine(const asio::ip::address& address) {
    error_code error;
    tcp::acceptor probe(io);
    probe.open(tcp::endpoint(address, 0).protocol(), error);
    if (!error) probe.bind({address, 0}, error);
    return !error;
  }

  void bind(const StoreAddress& where) {
    error_code error;
    const auto networks = addresses(where);
    for (const auto until = std::chrono::steady_clock::now() + kBindTimeout;;) {
      for (unsigned port = where.port; port < where.port + unsigned{where.ports} && port <= UINT16_MAX; ++port)
        for (const auto& network : networks) {
          const tcp::endpoint endpoint(network, static_cast<std::uint16_t>(port));
          error = listen(endpoint);
          if (!error) return;
          if (error == asio::error::address_in_use) break;  // other addresses would give the same error, or hide it
        }
      if (std::chrono::steady_clock::now() > until) break;
      std::this_thread::sleep_for(kAcceptAgain);
    }
    const std::string ports = where.ports > 1 ? fmt::format("ports {} to {}", where.port, where.port + where.ports - 1)
                                              : fmt::format("port {}", where.port);
    throw MachineError(fmt::format(
        "rank 0 cannot serve at {}: {}{}", ports, error.message(),
        error == asio::error::address_in_use ? "; another program has it: choose another MASTER_PORT" : ""));
  }

  error_code listen(const tcp::endpoint& endpoint) {
    error_code error, ignored;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), ignored);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) acceptor.close(ignored);
    return error;
  }

  void accept() {
    acceptor.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        again.expires_after(kAcceptAgain);
        again.async_wait([this](error_code stopped) {
          if (!stopped) accept();
        });
        return;
      }
      if (strangers == kMostStrangers) dismiss_oldest();
      admit(std::move(socket));
      accept();
    });
  }

  // A real rank has sent hello by now, so dropping the oldest keeps no rank out however many connections stay.
  void dismiss_oldest() {
    std::shared_ptr<Client> oldest;
    for (const auto& client : clients)
      if (!client->rank && (!oldest || client->number < oldest->number)) oldest = client;
    gone(oldest, "too many have come since"), oldest->wire->close();
  }

  void admit(tcp::socket socket) {
    const auto client = std::make_shared<Client>(std::move(socket), io, ++arrived);
    clients.insert(client), ++strangers;
    client->hello_timer.expires_after(kHelloTimeout);
    client->hello_timer.async_wait([this, client](error_code stopped) {
      if (!stopped && !client->rank) gone(client, "it did not say hello"), client->wire->close();
    });
    client->wire->start([this, client](Message message) { handle(client, std::move(message)); },
                        [this, client](const std::string& why) { gone(client, why); });
    client->wire->send({Kind::challenge, 0, {}, client->nonce});
  }

  void handle(const std::shared_ptr<Client>& client, Message m) {
    if (!client->rank) return hello(client, m);
    const auto answer = [&](Kind kind, std::string value = {}) {
      client->wire->send({kind, m.request, {}, std::move(value)});
    };
    switch (m.kind) {
      case Kind::set:
        set(m.key, std::move(m.value));
        return answer(Kind::done);
      case Kind::get:
      case Kind::take:
        waiting[m.key].push_back({client, m.request, m.kind == Kind::take});
        return serve(m.key);
      case Kind::find:
        if (const auto at = values.find(m.key); at != values.end()) return answer(Kind::value, at->second);
        return answer(Kind::nothing);
      case Kind::absent: {
        std::string list;
        for (std::size_t rank = 0; rank < come.size(); ++rank)
          if (!come[rank]) append_number(list, rank, 4);
        return answer(Kind::value, list);
      }
      case Kind::fail:
        return failed(*client->rank, m.value);
      case Kind::leave:
        gone(client, {});
        return client->wire->close();
      default:  // only a server sends these
        gone(client, "it does not speak our protocol");
        return client->wire->close();
    }
  }

  // Only a client that knows the secret of this job is told anything about it.
  void hello(const std::shared_ptr<Client>& client, const Message& m) {
    const Introduction met{client->nonce, m.key, m.request};
    const auto theirs = m.kind == Kind::hello ? greeting_of(m.value, secret, met) : std::nullopt;
    std::string why;
    if (m.kind != Kind::hello)
      why = "say hello first";
    else if (!theirs)
      why = fmt::format("another job is here, or {} differs among the ranks", kSecretVariable);
    else if (*theirs != greeting)
      why = fmt::format("another job is here: {}; this rank belongs to {}", greeting, *theirs);
    else if (m.request >= come.size())
      why = fmt::format("there is no rank {}", m.request);
    else if (come[m.request])
      why = fmt::format("rank {} is here already: does another job use this address?", m.request);
    if (!why.empty()) {
      client->wire->send({Kind::refused, m.request, {}, why});
      return client->wire->close_when_sent([this, client] { gone(client, {}); });
    }
    client->rank = m.request, come[m.request] = true, --strangers;
    client->hello_timer.cancel();
    client->wire->limit(kLargestMessage);
    client->wire->send({Kind::welcome, m.request, {}, welcome(secret, met)});
    if (failure) client->wire->send({Kind::failed, std::uint32_t(failure->rank), {}, failure->message});
  }

  void set(const std::string& key, std::string value) {
    values[key] = std::move(value);
    serve(key);
  }

  void serve(const std::string& key) {
    const auto value = values.find(key);
    const auto queue = waiting.find(key);
    if (value == values.end() || queue == waiting.end()) return;
    bool forget = false;
    for (const Waiting& one : queue->second) {
      if (const auto client = one.who.lock()) client->wire->send({Kind::value, one.request, {}, value->second});
      forget |= one.forget;
    }
    waiting.erase(queue);
    if (forget) values.erase(value);
  }

  void failed(std::size_t rank, const std::string& message) {
    if (failure) return;
    failure = Failure{rank, message};
    // Rank 0 last: its process may end at once, and this thread with it.
    for (const bool first : {true, false})
      for (const auto& client : clients)
        if (client->rank && (*client->rank != 0) == first)
          client->wire->send({Kind::failed, std::uint32_t(rank), {}, message});
    if (leaving) last.expires_after(kFailedTimeout), wait_for_last();
  }

  // `why`: empty for a rank that left properly.
  void gone(std::shared_ptr<Client> client, const std::string& why) {
    if (clients.erase(client) == 0) return;
    client->hello_timer.cancel();
    if (!client->rank) return void(--strangers);
    if (!why.empty()) failed(*client->rank, "its process has ended without a word, or its host is out of reach");
    if (leaving && clients.size() == strangers) io.stop();
  }

  void leave() {
    leaving = true;
    error_code ignored;
    acceptor.close(ignored), again.cancel();
    if (clients.size() == strangers) return io.stop();
    last.expires_after(failure ? kFailedTimeout : kLeaveTimeout);
    wait_for_last();
  }

  void wait_for_last() {
    last.async_wait([this](error_code stopped) {
      if (!stopped) io.stop();
    });
  }

  const std::string greeting, secret;
  asio::io_context io{1};
  std::map<std::string, std::string> values;
  std::map<std::string, std::vector<Waiting>> waiting;
  std::set<std::shared_ptr<Client>> clients;
  std::size_t strangers = 0;
  std::uint64_t arrived = 0;
  std::vector<bool> come;
  std::optional<Failure> failure;
  bool leaving = false;
  tcp::acceptor acceptor;
  asio::steady_timer again, last;
  std::thread thread;
};

TcpServer::TcpServer(const StoreAddress& address, std::size_t ranks) : impl_(std::make_unique<Impl>(address, ranks)) {}

TcpServer::~TcpServer() {
  boost::asio::post(impl_->io, [this] { impl_->leave(); });
  impl_->thread.join();
  for (const auto& client : impl_->clients) client->wire->close();  // releases the objects that hold it
}

std::uint16_t TcpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

std::string TcpServer::host() const {
  const auto address = impl_->acceptor.local_endpoint().address();
  return address.is_unspecified() ? "localhost" : address.to_string();
}

}  // namespace rehearsal::launch
