#include "standin/file_communicators.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "kernels/host.hpp"
#include "launch/rank_environment.hpp"

namespace rehearsal::standin {
namespace {

namespace fs = std::filesystem;

class FileCommunicator : public gpu::Communicator {
 public:
  FileCommunicator(HostDevice& device, fs::path line, int members, int index, Time patience)
      : device_(device), line_(std::move(line)), members_(members), index_(index), patience_(patience) {}

  void send(const std::byte* from, Bytes size, int peer, gpu::StreamId) override {
    device_.call([=, this] { put(peer, from, static_cast<std::size_t>(size.count())); });
  }
  void receive(gpu::Address into, Bytes size, int peer, gpu::StreamId) override {
    device_.call([=, this] { take(peer, into, static_cast<std::size_t>(size.count())); });
  }
  void collective(CollectiveKind kind, Precision precision, const std::byte* in, gpu::Address out, std::int64_t part,
                  gpu::StreamId) override {
    device_.call([=, this] {
      const auto one = static_cast<std::size_t>(part * bytes_per_element(precision));
      const auto n = static_cast<std::size_t>(members_), me = static_cast<std::size_t>(index_);
      const bool blocks = kind == CollectiveKind::all_to_all;
      const std::size_t given = blocks || kind == CollectiveKind::reduce_scatter ? one * n : one;
      std::vector<std::vector<std::byte>> all(n, std::vector<std::byte>(given));
      all[me].assign(in, in + given);
      for (int peer = 0; peer < members_; ++peer)
        if (peer != index_) put(peer, in, given);
      for (int peer = 0; peer < members_; ++peer)
        if (peer != index_) take(peer, all[static_cast<std::size_t>(peer)].data(), given);
      if (kind == CollectiveKind::all_gather) {
        for (std::size_t from = 0; from < n; ++from) std::copy(all[from].begin(), all[from].end(), out + from * one);
        return;
      }
      if (kind == CollectiveKind::shift) {
        std::ranges::copy(all[(me + n - 1) % n], out);
        return;
      }
      if (blocks) {
        for (std::size_t from = 0; from < n; ++from) std::copy_n(all[from].data() + me * one, one, out + from * one);
        return;
      }
      for (std::size_t from = 1; from < n; ++from)
        kernels::accumulate_on_host(precision, all[0].data(), all[from].data(),
                                    static_cast<std::int64_t>(given) / bytes_per_element(precision));
      const auto* sum = all[0].data() + (kind == CollectiveKind::reduce_scatter ? me * one : 0);
      std::copy_n(sum, one, out);
    });
  }
  std::optional<std::string> failure() override {
    return broken_ ? std::optional<std::string>("the wire broke") : std::nullopt;
  }
  void abort() noexcept override {}

 private:
  // "kill 1": rank 1 dies at its third message; "break 1": its communicators fail then.
  void perhaps_fail() {
    const char* fault = std::getenv("REHEARSAL_STANDIN_FAULT");
    if (fault == nullptr || ++messages_ != 3) return;
    const std::string said = fault;
    const auto mine = launch::membership(launch::Launchers::any);
    if (!mine || said.substr(said.find(' ') + 1) != std::to_string(mine->rank)) return;
    if (said.starts_with("kill")) raise(SIGKILL);
    broken_ = true;
  }
  fs::path file(int from, int to, std::uint64_t number) const {
    return line_ / fmt::format("{}-{}-{}", from, to, number);
  }
  void put(int peer, const std::byte* bytes, std::size_t size) {
    perhaps_fail();
    const fs::path whole = file(index_, peer, sent_[peer]++), parts = whole.string() + ".part";
    std::ofstream out(parts, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    out.close();
    if (!out) throw MachineError("a message could not be written");
    fs::rename(parts, whole);
  }
  void take(int peer, std::byte* into, std::size_t size) {
    const fs::path whole = file(peer, index_, received_[peer]++);
    for (const Time until = dispatch::now() + patience_; !fs::exists(whole);) {
      if (dispatch::now() > until) throw MachineError(fmt::format("nothing came from member {}", peer));
      dispatch::sleep_until(dispatch::now() + seconds(2e-4));
    }
    if (fs::file_size(whole) != size)
      throw MachineError(fmt::format("a message of {} bytes is received as {}", fs::file_size(whole), size));
    std::ifstream in(whole, std::ios::binary);
    in.read(reinterpret_cast<char*>(into), static_cast<std::streamsize>(size));
    fs::remove(whole);
  }

  HostDevice& device_;
  fs::path line_;
  int members_, index_;
  Time patience_;
  std::map<int, std::uint64_t> sent_, received_;
  int messages_ = 0;
  bool broken_ = false;
};

}  // namespace

std::string FileCommunicators::make_id() { return fmt::format("{}-{}", getpid(), ids_++); }

std::unique_ptr<gpu::Communicator> FileCommunicators::join(const std::string& id, int members, int index, gpu::Traffic,
                                                           Time patience) {
  const fs::path line = folder_ / id;
  fs::create_directories(line);
  std::ofstream(line / fmt::format("member-{}", index));
  for (const Time until = dispatch::now() + patience;;) {
    int here = 0;
    for (int i = 0; i < members; ++i) here += fs::exists(line / fmt::format("member-{}", i));
    if (here == members) break;
    if (dispatch::now() > until) throw MachineError(fmt::format("{} of {} members came", here, members));
    dispatch::sleep_until(dispatch::now() + seconds(2e-4));
  }
  return std::make_unique<FileCommunicator>(device_, line, members, index, patience);
}

}  // namespace rehearsal::standin
