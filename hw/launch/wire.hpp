// One TCP connection of the store, as used by both ends: length-prefixed messages in both directions.
//
//   4 bytes length of the rest, 1 kind, 4 request, 2 length of the key, the key, the value
//
// Incoming data is not trusted: a length above the limit or a malformed message ends the connection. Everything happens
// in the thread that runs the io_context.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace rehearsal::launch {

using boost::asio::ip::tcp;

enum class Kind : std::uint8_t {
  // From a rank, after the challenge. request = rank, key = its nonce, value = claim().
  hello,
  set,     // answered by done
  get,     // answered by value, when there is one
  take,    // like get, and the value is erased
  find,    // answered at once by value or nothing
  absent,  // answered by value: the ranks that have never connected, each in 4 bytes
  fail,    // value = message
  leave,
  // From rank 0's server. Answers carry the number of the request.
  challenge,  // to every new connection; value = a nonce
  welcome,    // value = proof() that the server knows the secret too
  refused,    // value = reason; the connection ends
  done,
  value,
  nothing,
  failed  // request = rank, value = message; sent unasked
};
inline constexpr auto kLastKind = Kind::failed;

struct Message {
  Kind kind = Kind::hello;
  std::uint32_t request = 0;
  std::string key, value;
};

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  explicit Wire(tcp::socket socket) : socket_(std::move(socket)) {}

  // on_end is called once, when no more messages can come, unless this side closed; `why` is a text for people.
  void start(std::function<void(Message)> on_message, std::function<void(const std::string& why)> on_end);
  // Sets the largest message size; 4 KiB until the other end is trusted.
  void limit(std::size_t bytes) { limit_ = bytes; }
  void send(const Message& message);
  bool idle() const { return queue_.empty(); }  // everything has been handed to the network
  // Ends the connection once everything queued is sent, and then calls `closed`.
  void close_when_sent(std::function<void()> closed = {});
  void close();

 private:
  void read_length();
  void read_rest(std::size_t bytes);
  void write_next();
  void end(const std::string& why);

  tcp::socket socket_;
  std::size_t limit_ = 4 << 10;
  std::string incoming_;
  std::deque<std::string> queue_;
  std::function<void(Message)> on_message_;
  std::function<void(const std::string&)> on_end_;
  std::function<void()> closed_;
  bool closing_ = false, ended_ = false;
};

// Protocol, job and number of ranks, as text; ranks of the same job have equal greetings.
std::string greeting(const std::string& job, std::size_t ranks);

// Ranks prove to each other that they know the secret (launch/secret.hpp). Each proof is bound to a fresh nonce of the
// other side, so an eavesdropper cannot replay it. A claim is a rank's proof, 64 digits, followed by its greeting.
struct Introduction {
  std::string of_server, of_rank;  // nonces
  std::uint32_t rank = 0;
};
std::string claim(const std::string& secret, const Introduction& met, const std::string& greeting);
std::optional<std::string> greeting_of(const std::string& claim, const std::string& secret, const Introduction& met);
std::string welcome(const std::string& secret, const Introduction& met);

}  // namespace rehearsal::launch
