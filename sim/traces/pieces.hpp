// A file in pieces of 256 KiB, decompressed where it is gzip.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace rehearsal::traces {

class Pieces {
 public:
  static constexpr std::size_t kSize = 256 << 10;

  // `passed` hears how many bytes of the file have been read. Throws UserError.
  explicit Pieces(const std::string& path, std::function<void(std::size_t)> passed = {});
  ~Pieces();
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  // The next bytes, of which it returns the number; 0 at the end. A byte may be written behind them.
  std::size_t next(char*& begin);
  const std::string& damage() const { return damage_; }  // why the end came early; empty if it did not

 private:
  struct File;
  std::unique_ptr<File> file_;
  std::unique_ptr<std::array<char, kSize + 1>> bytes_;
  std::string damage_;
  std::function<void(std::size_t)> passed_;
};

}  // namespace rehearsal::traces
