// Both stores return what they were given, byte for byte, and count requested sizes.
#include <algorithm>
#include <random>

#include "helpers.hpp"
#include "tiers/extents.hpp"
#include "tiers/storage.hpp"

using namespace tiers_test;

namespace {

// Every way in which a file can be read and written here.
std::vector<FileOptions> ways(const Folder& folder) {
  std::vector<FileOptions> all;
  for (const bool direct : {true, false})
    for (const bool ring : {true, false}) {
      auto options = folder.options();
      options.direct = direct, options.io_uring = ring;
      all.push_back(options);
    }
  return all;
}

// Regions and parts of them, against plain memory.
void round_trips(Store& store, unsigned seed) {
  std::mt19937 draw(seed);
  struct Known {
    Region region;
    std::vector<std::byte> bytes;
  };
  std::vector<Known> all;
  for (const std::size_t size : {1, 2, 4095, 4096, 4097, 12'345, 1 << 20, (1 << 20) + 1, 9 * (1 << 20) + 77}) {
    Known known{store.allocate(Bytes(std::int64_t(size))), pattern(size, unsigned(size))};
    put(store, known.region, known.bytes);
    all.push_back(std::move(known));
  }
  for (int i = 0; i < 200; i++) {
    auto& known = all[draw() % all.size()];
    const std::size_t at = draw() % known.bytes.size();
    const std::size_t size = 1 + draw() % std::min<std::size_t>(known.bytes.size() - at, i % 8 == 0 ? 1 << 24 : 9000);
    if (i % 2 == 0) {
      const auto part = pattern(size, unsigned(i));
      std::ranges::copy(part, known.bytes.begin() + std::ptrdiff_t(at));
      put(store, known.region, part, std::int64_t(at));
    }
    const auto back = get(store, known.region, size, std::int64_t(at));
    REQUIRE(std::equal(back.begin(), back.end(), known.bytes.begin() + std::ptrdiff_t(at)));
  }
  for (const auto& known : all) {
    REQUIRE(get(store, known.region, known.bytes.size()) == known.bytes);
    store.free(known.region);
  }
  CHECK(store.live() == Bytes());
}

}  // namespace

TEST_CASE("contents survive at odd sizes and offsets, in a heap and in a file, however it is read") {
  HeapStore heap;
  round_trips(heap, 1);
  const Folder folder;
  for (const auto& way : ways(folder)) {
    FileStore file(way);
    CAPTURE(file.means());
    round_trips(file, 2);
    CHECK(fs::is_empty(folder.path));  // the file has no name
  }
}

TEST_CASE("memory that is aligned goes straight, other memory through a buffer; both arrive") {
  const Folder folder;
  FileStore file(folder.options());
  HeapStore heap;  // aligned
  constexpr std::int64_t kSize = 3 * (1 << 20) + 4096 + 5;
  const auto aligned = heap.memory(heap.allocate(Bytes(kSize)));
  const auto bytes = pattern(kSize, 7);
  std::ranges::copy(bytes, aligned.begin());
  const auto region = file.allocate(Bytes(kSize));
  put(file, region, aligned);
  CHECK(get(file, region, kSize) == bytes);
  std::ranges::fill(aligned, std::byte{});
  file.wait(file.read(region, aligned));
  CHECK(std::ranges::equal(aligned, bytes));
}

TEST_CASE("many copies are under way, and neighbours keep apart") {
  const Folder folder;
  for (const auto& way : ways(folder)) {
    FileStore file(way);
    CAPTURE(file.means());
    std::vector<std::vector<std::byte>> bytes;
    std::vector<Region> regions;
    std::vector<Ticket> tickets;
    for (unsigned i = 0; i < 40; i++) {
      bytes.push_back(pattern(5000 * i + 3, i));
      regions.push_back(file.allocate(Bytes(std::int64_t(bytes[i].size()))));
      tickets.push_back(file.write(regions[i], bytes[i]));
    }
    file.wait(tickets.back());  // they end in their order
    tickets.pop_back();
    auto before = Lane::Instant::min();
    for (const auto& t : tickets) {
      const auto ended = file.ended(t);
      REQUIRE(ended);
      CHECK(*ended >= before);
      before = *ended;
      file.wait(t);
      CHECK_FALSE(file.ended(t));
    }
    for (unsigned i = 0; i < 40; i++) CHECK(get(file, regions[i], bytes[i].size()) == bytes[i]);
  }
}

TEST_CASE("sizes are counted to the byte, whatever blocks they take") {
  const Folder folder;
  FileStore file(folder.options());
  HeapStore heap;
  for (Store* store : {static_cast<Store*>(&file), static_cast<Store*>(&heap)}) {
    const auto a = store->allocate(Bytes(1)), b = store->allocate(Bytes(5000));
    CHECK(store->live() == Bytes(5001));
    store->free(a);
    const auto c = store->allocate(Bytes(10));
    CHECK(store->live() == Bytes(5010));
    CHECK(store->high_water() == Bytes(5010));
    store->free(b), store->free(c);
    CHECK(store->live() == Bytes());
    CHECK(store->high_water() == Bytes(5010));
  }
}

TEST_CASE("freed extents are reused, and adjacent gaps merge") {
  Extents extents;
  const auto a = extents.allocate(Bytes(4096)), b = extents.allocate(Bytes(4097)), c = extents.allocate(Bytes(1));
  CHECK(a == 0);
  CHECK(b == 4096);
  CHECK(c == 3 * 4096);
  CHECK(extents.end() == 4 * 4096);
  extents.free(b);
  CHECK(extents.allocate(Bytes(4096)) == b);  // the lowest gap
  CHECK(extents.allocate(Bytes(4096)) == b + 4096);
  extents.free(a), extents.free(b);
  CHECK(extents.allocate(Bytes(2 * 4096)) == a);
  CHECK(extents.end() == 4 * 4096);
  // Nothing is kept behind the last.
  extents.free(c);
  CHECK(extents.end() == 3 * 4096);
  CHECK(extents.allocate(Bytes(3 * 4096)) == c);
  CHECK(extents.end() == 6 * 4096);
  CHECK_THROWS_AS(extents.free(4096 * 5), InternalError);
}

TEST_CASE("a file is as long as what was in use at once, and takes its capacity at once") {
  const Folder folder;
  auto options = folder.options();
  options.capacity = Bytes(10 * 4096 - 1);
  FileStore file(options);
  CHECK(file.length() == Bytes(10 * 4096));
  struct stat now {};
  REQUIRE(::fstat(descriptor_in(folder.path), &now) == 0);
  CHECK(now.st_blocks * 512 >= 10 * 4096);  // on the disk, though nothing was written
  for (int i = 0; i < 100; i++) file.free(file.allocate(Bytes(9 * 4096)));
  CHECK(file.length() == Bytes(10 * 4096));
  file.allocate(Bytes(11 * 4096));
  CHECK(file.length() == Bytes(11 * 4096));
}

TEST_CASE("a rank has both tiers behind handles, and copies from one to the other") {
  const Folder folder;
  Storage storage(folder.options());
  CHECK(storage.means(Tier::nvme).empty());
  CHECK(descriptor_in(folder.path) == -1);  // no file before it is needed
  auto bytes = pattern(10'001, 3);
  const auto disk = storage.allocate(Tier::nvme, Bytes(10'001)), host = storage.allocate(Tier::host, Bytes(10'001));
  storage.wait(storage.copy(bytes, disk, Direction::out));
  storage.wait(storage.copy(storage.host_memory(host), disk, Direction::in));
  CHECK(std::ranges::equal(storage.host_memory(host), bytes));
  std::vector<std::byte> back(10'001);
  storage.wait(storage.copy(back, host, Direction::in));
  CHECK(back == bytes);
  storage.free(disk);
  CHECK(storage.high_water(Tier::nvme) == Bytes(10'001));
  CHECK(storage.live(Tier::nvme) == Bytes());
  CHECK(storage.live(Tier::host) == Bytes(10'001));
}

TEST_CASE("calls that only our own bugs make are reported as bugs") {
  HeapStore heap;
  const auto region = heap.allocate(Bytes(100));
  std::vector<std::byte> bytes(100);
  CHECK_THROWS_AS(heap.write(region, bytes, Bytes(1)), InternalError);
  CHECK_THROWS_AS(heap.write(region + 1, bytes), InternalError);
  const auto ticket = heap.write(region, bytes);
  CHECK_THROWS_AS(heap.free(region), InternalError);  // under way
  heap.wait(ticket);
  CHECK_THROWS_AS(heap.wait(ticket), InternalError);
  heap.free(region);
  CHECK_THROWS_AS(heap.free(region), InternalError);
}
