#include "launch/tcp_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <vector>

#include "base/quantity_text.hpp"
#include "dispatch/clock.hpp"
#include "launch/number_bytes.hpp"
#include "launch/secret.hpp"
#include "launch/tcp_server.hpp"
#include "launch/wire.hpp"

namespace rehearsal::launch {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

const Time kOneAttempt = seconds(2);  // to connect and be welcomed
const Time kFirstPause = seconds(5e-3), kLongestPause = seconds(0.25);
const Time kLastWord = seconds(1);  // to hand a failure or farewell to the network

const std::string kAnswered = "it answered: ";

class TcpStore : public Store {
 public:
  TcpStore(const StoreAddress& address, const RankEnvironment& mine, Time patience)
      : Store(mine.rank, mine.size, patience), job_(address.job), secret_(address.secret) {
    StoreAddress where = address;
    if (mine.rank == 0) {
      server_ = std::make_unique<TcpServer>(address, mine.size);
      where.host = server_->host(), where.port = server_->port(), where.ports = 1;
    }
    connect(where, patience);
  }

  ~TcpStore() override {
    try {
      if (!wire_) return;
      wire_->send({Kind::leave, 0, {}, {}});
      bool closed = false;
      wire_->close_when_sent([&closed] { closed = true; });
      run_until(dispatch::now() + kLastWord, [&] { return closed; });
      wire_->close();
    } catch (...) {  // rank 0 considers it dead, which is correct
    }
  }

  void fail(const std::string& message) noexcept override {
    try {
      if (failed_ || !wire_) return;
      wire_->send({Kind::fail, 0, {}, message});
      run_until(dispatch::now() + kLastWord, [this] { return wire_->idle() || failed_; });
    } catch (...) {  // rank 0 considers it dead when its connection ends
    }
  }

  std::optional<Failure> failed() override {
    if (!failed_) io_.restart(), io_.poll();
    return failed_of_another();
  }

 protected:
  void put(const std::string& key, std::string piece) override {
    request({Kind::set, 0, key, std::move(piece)}, std::nullopt);
  }

  std::optional<std::string> fetch(const std::string& key, Time patience, bool forget) override {
    if (patience > Time{}) return request({forget ? Kind::take : Kind::get, 0, key, {}}, patience);
    return request({Kind::find, 0, key, {}}, std::nullopt);
  }

  std::vector<std::size_t> absent() override {
    const std::string list = request({Kind::absent, 0, {}, {}}, std::nullopt).value_or("");
    std::vector<std::size_t> ranks;
    for (std::size_t at = 0; at + 4 <= list.size(); at += 4) ranks.push_back(read_number(list, at, 4));
    return ranks;
  }

 private:
  template <class Done>
  void run_until(Time when, Done done) {
    io_.restart();
    while (!done()) {
      const Time left = when - dispatch::now();
      // Runs nothing when time is up, or when there is no connection left to wait for.
      if (left <= Time{} || io_.run_one_for(std::chrono::nanoseconds(left.count() / 1000)) == 0) return;
    }
  }

  std::optional<Failure> failed_of_another() const {
    return failed_ && failed_->rank != rank() ? failed_ : std::nullopt;
  }

  // Rank 0 may start late, its name may not resolve yet, and another program may hold one of the ports.
  void connect(const StoreAddress& where, Time patience) {
    const Time until = dispatch::now() + patience;
    std::string why;
    for (Time pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
      for (unsigned port = where.port; port < where.port + unsigned{where.ports} && port <= UINT16_MAX; ++port) {
        const std::string said = attempt(where.host, port, until);
        if (wire_) return;
        // A server's answer is a better reason than a failed connection.
        if (why.empty() || said.starts_with(kAnswered)) why = fmt::format("port {}: {}", port, said);
      }
      if (dispatch::now() >= until) break;
      dispatch::sleep_until(std::min(until, dispatch::now() + pause));
    }
    throw MachineError(
        fmt::format("rank {} tried for {} to reach rank 0 at {}; {}", rank(), show(patience), where.host, why));
  }

  // The reason for a failure, or nothing: then wire_ is ready.
  std::string attempt(const std::string& host, unsigned port, Time until) {
    error_code error;
    std::vector<tcp::endpoint> endpoints;
    const auto number = static_cast<unsigned short>(port);
    if (host == "localhost") {  // without DNS (RFC 6761, section 6.3): bare images have no hosts file
      endpoints = {{asio::ip::address_v4::loopback(), number}, {asio::ip::address_v6::loopback(), number}};
    } else {
      tcp::resolver resolver(io_);
      for (const auto& found : resolver.resolve(host, std::to_string(port), tcp::resolver::numeric_service, error))
        endpoints.push_back(found.endpoint());
      if (error) return error.message();
    }
    tcp::socket socket(io_);
    std::optional<error_code> connected;
    const Time deadline = std::min(until, dispatch::now() + kOneAttempt);
    asio::async_connect(socket, endpoints, [&](error_code e, const tcp::endpoint&) { connected = e; });
    run_until(deadline, [&] { return connected.has_value(); });
    if (!connected) {
      socket.close(error);
      run_until(dispatch::now() + kLastWord, [&] { return connected.has_value(); });
      return "no answer";
    }
    if (*connected) return connected->message();
    return introduce(std::make_shared<Wire>(std::move(socket)), deadline);
  }

  std::string introduce(const std::shared_ptr<Wire>& wire, Time deadline) {
    std::optional<Message> answer;
    std::optional<std::string> ended;
    Introduction met{{}, nonce(), static_cast<std::uint32_t>(rank())};
    wire->start(
        [&, this](Message m) {
          if (welcomed_) return receive(std::move(m));
          if (m.kind == Kind::challenge && met.of_server.empty()) {
            met.of_server = m.value;
            return wire->send({Kind::hello, met.rank, met.of_rank, claim(secret_, met, greeting(job_, size()))});
          }
          welcomed_ = m.kind == Kind::welcome && !met.of_server.empty() && same(m.value, welcome(secret_, met));
          if (welcomed_) wire->limit(kLargestPiece + (128 << 10));
          answer = std::move(m);
        },
        [&, this](const std::string& why) {
          if (!welcomed_)
            ended = why;
          else if (!failed_)
            failed_ = Failure{0, "its process has ended without a word, or its host is out of reach (" + why + ")"};
        });
    run_until(deadline, [&] { return answer || ended; });
    if (welcomed_) return wire_ = wire, "";
    wire->close();
    if (answer && answer->kind == Kind::refused) return kAnswered + answer->value;
    if (answer) return kAnswered + "it does not know the secret of this job";
    return ended ? "it is no server of ours: " + *ended : "it does not answer";
  }

  void receive(Message m) {
    if (m.kind == Kind::failed) {
      if (!failed_) failed_ = Failure{m.request, m.value};
    } else if (m.request == request_) {
      answer_ = std::move(m);
    }
  }

  // Nothing when there is no value within `patience`; without a patience only the failure of a rank ends the wait.
  std::optional<std::string> request(Message message, std::optional<Time> patience) {
    if (const auto failure = failed()) throw PeerFailed(*failure);
    message.request = ++request_;
    answer_.reset();
    wire_->send(message);
    const Time until = patience ? dispatch::now() + *patience : Time(INT64_MAX);
    run_until(until, [this] { return answer_ || failed_of_another(); });
    if (!answer_) throw_if_failed();
    if (!answer_ || answer_->kind == Kind::nothing) return std::nullopt;
    return std::move(answer_->value);
  }

  const std::string job_, secret_;
  std::unique_ptr<TcpServer> server_;  // on rank 0; waits for the other ranks after our own connection is closed
  asio::io_context io_{1};
  std::shared_ptr<Wire> wire_;
  bool welcomed_ = false;
  std::uint32_t request_ = 0;
  std::optional<Message> answer_;
  std::optional<Failure> failed_;
};

}  // namespace

std::unique_ptr<Store> open_tcp_store(const StoreAddress& address, const RankEnvironment& mine, Time patience) {
  return std::make_unique<TcpStore>(address, mine, patience);
}

}  // namespace rehearsal::launch
