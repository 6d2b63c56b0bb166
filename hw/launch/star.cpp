#include "launch/star.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "launch/frames.hpp"

namespace rehearsal::launch {
namespace {

void shut(int& descriptor) {
  if (descriptor >= 0) close(std::exchange(descriptor, -1));
}

bool is_whole(const std::string& frame) {
  return frame.size() >= kFrameHead && frame.size() == kFrameHead + frame_size(frame.data());
}

bool try_again() { return errno == EINTR || errno == EAGAIN; }

class StarRank : public Bootstrap {
 public:
  StarRank(int socket, const RankEnvironment& mine) : Bootstrap(mine.rank, mine.size), socket_(socket) {
    if (fcntl(socket, F_SETFD, FD_CLOEXEC) != 0)
      throw MachineError(fmt::format("{}={}: {}", kSocketVariable, socket, std::strerror(errno)));
  }
  ~StarRank() override { shut(socket_); }

  std::vector<std::string> gather(const std::string&, std::string_view bytes) override {
    auto all = exchange(bytes);
    if (rank() != 0) all.clear();
    return all;
  }
  std::string broadcast(const std::string&, std::string_view bytes) override {
    return exchange(rank() == 0 ? bytes : std::string_view{}).front();
  }
  void fail(const std::string&) noexcept override {}

 private:
  std::vector<std::string> exchange(std::string_view bytes) {
    std::string frame;
    append_frame(frame, bytes);
    move(frame, [this](char* at, std::size_t size) { return ::send(socket_, at, size, MSG_NOSIGNAL); });
    const auto receive = [this](char* at, std::size_t size) { return ::recv(socket_, at, size, 0); };
    std::string head(kFrameHead, '\0');
    move(head, receive);
    std::string all(frame_size(head.data()), '\0');
    move(all, receive);
    return split_frames(all);
  }

  template <class Call>
  static void move(std::string& bytes, Call call) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t n = call(bytes.data() + done, bytes.size() - done);
      if (n > 0)
        done += static_cast<std::size_t>(n);
      else if (n == 0 || !try_again())
        throw MachineError("the process that started this rank has ended");
    }
  }

  int socket_;
};

}  // namespace

Star::Star(std::size_t ranks) : lines_(ranks) {
  for (Line& line : lines_) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw MachineError(fmt::format("socketpair: {}", std::strerror(errno)));
    line.ours = ends[0], line.theirs = ends[1];
  }
}

Star::~Star() {
  for (Line& line : lines_) shut(line.ours), shut(line.theirs);
}

void Star::started(std::size_t rank) { shut(lines_[rank].theirs); }

std::vector<pollfd> Star::events() const {
  std::vector<pollfd> all;
  for (const Line& line : lines_)
    all.push_back({line.ours, static_cast<short>(line.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  return all;
}

void Star::relay() {
  for (Line& line : lines_) receive(line);
  if (std::ranges::all_of(lines_, [](const Line& line) { return is_whole(line.in); })) {
    std::string all;
    for (Line& line : lines_) all += std::exchange(line.in, {});
    for (Line& line : lines_) append_frame(line.out, all);
  }
  for (Line& line : lines_) send(line);
}

void Star::receive(Line& line) {
  std::array<char, 64 << 10> some;
  while (line.ours >= 0) {
    const ssize_t n = recv(line.ours, some.data(), some.size(), MSG_DONTWAIT);
    if (n > 0)
      line.in.append(some.data(), static_cast<std::size_t>(n));
    else if (n < 0 && try_again())
      return;
    else
      shut(line.ours);
  }
}

void Star::send(Line& line) {
  while (line.ours >= 0 && line.sent < line.out.size()) {
    const ssize_t n =
        ::send(line.ours, line.out.data() + line.sent, line.out.size() - line.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
      line.sent += static_cast<std::size_t>(n);
    else if (try_again())
      return;
    else
      shut(line.ours);
  }
  line.out.clear(), line.sent = 0;
}

std::unique_ptr<Bootstrap> join_star(int socket, const RankEnvironment& mine) {
  return std::make_unique<StarRank>(socket, mine);
}

}  // namespace rehearsal::launch
