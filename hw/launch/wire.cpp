#include "launch/wire.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/error.hpp"
#include "launch/number_bytes.hpp"
#include "launch/secret.hpp"

namespace rehearsal::launch {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kLength = 4, kHead = 1 + 4 + 2, kProof = 64;
constexpr const char* kProtocol = "rehearsal store 2";

std::string packed(const Message& m) {
  INVARIANT(m.key.size() <= UINT16_MAX, "keys of the store are short");
  std::string bytes;
  bytes.reserve(kLength + kHead + m.key.size() + m.value.size());
  append_number(bytes, kHead + m.key.size() + m.value.size(), 4);
  append_number(bytes, static_cast<std::uint8_t>(m.kind), 1);
  append_number(bytes, m.request, 4);
  append_number(bytes, m.key.size(), 2);
  return bytes.append(m.key).append(m.value);
}

bool unpack(const std::string& bytes, Message& m) {
  if (bytes.size() < kHead) return false;
  const auto kind = read_number(bytes, 0, 1), key = read_number(bytes, 5, 2);
  if (kind > static_cast<std::uint8_t>(kLastKind) || kHead + key > bytes.size()) return false;
  m.kind = static_cast<Kind>(kind);
  m.request = static_cast<std::uint32_t>(read_number(bytes, 1, 4));
  m.key = bytes.substr(kHead, key), m.value = bytes.substr(kHead + key);
  return true;
}

// A host that loses power closes no connection: the kernel probes after 10 s of silence and gives up 15 s later.
void keep_alive(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const int idle = 10, every = 5, times = 3;
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

}  // namespace

std::string greeting(const std::string& job, std::size_t ranks) {
  return fmt::format("{}, {} ranks, job '{}'", kProtocol, ranks, job);
}

std::string claim(const std::string& secret, const Introduction& met, const std::string& greeting) {
  return proof(secret, fmt::format("rank {} {} {} {}", met.rank, met.of_server, met.of_rank, greeting)) + greeting;
}

std::optional<std::string> greeting_of(const std::string& said, const std::string& secret, const Introduction& met) {
  if (said.size() < kProof) return std::nullopt;
  const std::string greeting = said.substr(kProof);
  if (!same(said, claim(secret, met, greeting))) return std::nullopt;
  return greeting;
}

std::string welcome(const std::string& secret, const Introduction& met) {
  return proof(secret, fmt::format("server {} {} {}", met.rank, met.of_server, met.of_rank));
}

void Wire::start(std::function<void(Message)> on_message, std::function<void(const std::string&)> on_end) {
  on_message_ = std::move(on_message), on_end_ = std::move(on_end);
  keep_alive(socket_);
  read_length();
}

void Wire::read_length() {
  incoming_.resize(kLength);
  asio::async_read(socket_, asio::buffer(incoming_), [self = shared_from_this()](error_code error, std::size_t) {
    if (self->ended_) return;
    if (error) return self->end(error.message());
    const std::size_t bytes = read_number(self->incoming_, 0, kLength);
    if (bytes > self->limit_) return self->end(fmt::format("it sent a message of {} bytes", bytes));
    self->read_rest(bytes);
  });
}

void Wire::read_rest(std::size_t bytes) {
  incoming_.resize(bytes);
  asio::async_read(socket_, asio::buffer(incoming_), [self = shared_from_this()](error_code error, std::size_t) {
    if (self->ended_) return;
    if (error) return self->end(error.message());
    Message message;
    if (!unpack(self->incoming_, message)) return self->end("it does not speak our protocol");
    const auto handler = self->on_message_;  // it may close this wire, and so be dropped while it runs
    handler(std::move(message));
    if (!self->ended_) self->read_length();
  });
}

void Wire::send(const Message& message) {
  if (ended_ || closing_) return;
  queue_.push_back(packed(message));
  if (queue_.size() == 1) write_next();
}

void Wire::write_next() {
  asio::async_write(socket_, asio::buffer(queue_.front()), [self = shared_from_this()](error_code error, std::size_t) {
    if (self->ended_) return;
    if (error) return self->end(error.message());
    self->queue_.pop_front();
    if (!self->queue_.empty()) return self->write_next();
    if (self->closing_) self->close();
  });
}

void Wire::close_when_sent(std::function<void()> closed) {
  closing_ = true, closed_ = std::move(closed);
  if (ended_ || queue_.empty()) close();
}

void Wire::close() {
  error_code ignored;
  ended_ = true;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  on_message_ = {}, on_end_ = {};  // breaks the reference cycle: they hold the owner of this wire
  if (auto closed = std::exchange(closed_, {})) closed();
}

void Wire::end(const std::string& why) {
  if (ended_) return;
  const auto on_end = std::exchange(on_end_, {});
  close();
  if (on_end) on_end(why);
}

}  // namespace rehearsal::launch
