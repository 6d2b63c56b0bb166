#include "launch/whole_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.hpp"

namespace rehearsal::launch {

void fail(const std::string& what, const std::filesystem::path& file) {
  throw MachineError(fmt::format("cannot {} {}: {}", what, file.string(), std::strerror(errno)));
}

void write_whole(const std::filesystem::path& file, std::string_view bytes) {
  const std::filesystem::path partial = file.string() + ".part";
  std::ofstream out(partial, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) fail("write", partial);
  if (std::rename(partial.c_str(), file.c_str()) != 0) fail("rename", partial);
}

std::optional<std::string> read_whole(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace rehearsal::launch
