#include "tiers/file_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <exception>
#include <vector>

#include "base/error.hpp"

namespace rehearsal::tiers {
namespace {

constexpr std::int64_t kPiece = 1 << 20;  // per request; kDepth of them are in flight
static_assert(kPiece % kBlock == 0);

constexpr std::int64_t block_of(std::int64_t offset) { return offset / kBlock * kBlock; }
bool aligned(const std::byte* memory) { return std::bit_cast<std::uintptr_t>(memory) % kBlock == 0; }

}  // namespace

struct alignas(kBlock) FileStore::Bounce {
  std::byte bytes[kPiece];
};

// One copy between memory and a range of the file. Offsets are in the file.
struct FileStore::Copy {
  const UnnamedFile& file;
  Side& side;
  bool write;
  std::byte* memory;
  std::int64_t begin, end, region_end;

  // A part of the copy, in one slot: bytes from `from` to `to`.
  struct Piece {
    Request request;
    std::int64_t from = 0, to = 0;
    bool bounced = false;
  };
  std::array<Piece, kDepth> pieces{};

  void run() {
    std::vector<std::size_t> idle;
    for (std::size_t slot = kDepth; slot-- > 0;) idle.push_back(slot);
    std::exception_ptr error;  // thrown only after pending requests end, because they use the memory
    for (std::int64_t next = begin; idle.size() < kDepth || (next < end && !error);) {
      try {
        while (next < end && !error && !idle.empty()) {
          const std::size_t slot = idle.back();
          next = prepare(slot, next);
          side.opened.channel->submit(slot, pieces[slot].request);
          idle.pop_back();
        }
      } catch (...) {
        error = std::current_exception();
      }
      if (idle.size() == kDepth) continue;
      const auto done = side.opened.channel->next();
      try {
        if (!error && !finished(pieces[done.slot], done.result)) {
          side.opened.channel->submit(done.slot, pieces[done.slot].request);  // the remainder of the piece
          continue;
        }
      } catch (...) {
        error = std::current_exception();
      }
      idle.push_back(done.slot);
    }
    if (error) std::rethrow_exception(error);
  }

 private:
  std::int64_t prepare(std::size_t slot, std::int64_t from) {
    auto& piece = pieces[slot];
    const std::int64_t low = file.direct() ? block_of(from) : from;
    const std::int64_t high = file.direct() ? std::min(low + kPiece, whole_blocks(end)) : std::min(low + kPiece, end);
    piece = {{write, file.descriptor(), memory + (from - begin), high - low, low}, from, std::min(high, end), false};
    const bool straight = low == from && high == piece.to && (!file.direct() || aligned(piece.request.memory));
    if (!straight) {
      auto& bounce = side.bounces[slot];
      if (!bounce) bounce = std::make_unique<Bounce>();
      piece.bounced = true, piece.request.memory = bounce->bytes;
      if (write) fill(piece, low, high);
    }
    return piece.to;
  }

  // Whole blocks are written. Bytes of a block outside this piece come from the file; after a region there are none.
  void fill(const Piece& piece, std::int64_t low, std::int64_t high) const {
    std::byte* const bounce = piece.request.memory;
    const std::int64_t last = high - kBlock;
    if (low < piece.from) fetch(bounce, low);
    if (piece.to < high) {
      if (piece.to == region_end)
        std::memset(bounce + (piece.to - low), 0, std::size_t(high - piece.to));
      else if (last > low || low == piece.from)
        fetch(bounce + (last - low), last);
    }
    std::memcpy(bounce + (piece.from - low), memory + (piece.from - begin), std::size_t(piece.to - piece.from));
  }

  void fetch(std::byte* into, std::int64_t block) const {
    ssize_t n = 0;
    do n = ::pread(file.descriptor(), into, std::size_t(kBlock), block);
    while (n < 0 && errno == EINTR);
    if (n < 0) file.fail("read", errno);
    if (n < kBlock) file.fail_cut(block + n);
  }

  // False: the request now has the remainder.
  bool finished(Piece& piece, std::int64_t result) const {
    auto& request = piece.request;
    if (result == -EINTR || result == -EAGAIN) return false;
    if (result < 0) file.fail(write ? "write" : "read", static_cast<int>(-result));
    const bool odd = file.direct() && result % kBlock != 0;  // only the end of a file can be inside a block
    if (result < request.size) {
      if (!write && (result == 0 || odd)) file.fail_cut(request.offset + result);
      if (result == 0 || odd) file.fail("write", EIO);
      request.memory += result, request.offset += result, request.size -= result;
      return false;
    }
    if (!write && piece.bounced) {
      const auto* bounce = request.memory + request.size - (whole_blocks(piece.to) - block_of(piece.from));
      std::memcpy(memory + (piece.from - begin), bounce + (piece.from - block_of(piece.from)),
                  std::size_t(piece.to - piece.from));
    }
    return true;
  }
};

FileStore::FileStore(const FileOptions& options)
    : file_(options.directory, options.whose, options.direct),
      writes_{open_channel(options.io_uring), {}},
      reads_{open_channel(options.io_uring), {}} {
  file_.grow(whole_blocks(options.capacity.count()));
}

FileStore::~FileStore() { stop(); }

Region FileStore::allocate(Bytes size) {
  const auto place = extents_.allocate(size);
  try {
    file_.grow(extents_.end());
  } catch (...) {
    extents_.free(place);
    throw;
  }
  return add(place, size);
}

std::string FileStore::means() const {
  const auto& ring = writes_.opened.refused;
  std::string text = ring.empty() ? "io_uring" : fmt::format("pread and pwrite (io_uring: {})", ring);
  text += file_.direct() ? ", O_DIRECT" : ", through the page cache";
  return file_.refused().empty() ? text : fmt::format("{} ({})", text, file_.refused());
}

void FileStore::put(std::int64_t place, Bytes size, std::span<const std::byte> from, std::int64_t at) {
  if (from.empty()) return;
  file_.check();
  const std::int64_t begin = place + at, count = static_cast<std::int64_t>(from.size());
  // Requests have non-const memory; that of a write is only read.
  auto* memory = const_cast<std::byte*>(from.data());
  Copy{file_, writes_, true, memory, begin, begin + count, place + size.count()}.run();
}

void FileStore::get(std::int64_t place, Bytes size, std::span<std::byte> to, std::int64_t at) {
  if (to.empty()) return;
  file_.check();
  const std::int64_t begin = place + at, count = static_cast<std::int64_t>(to.size());
  Copy{file_, reads_, false, to.data(), begin, begin + count, place + size.count()}.run();
}

}  // namespace rehearsal::tiers
