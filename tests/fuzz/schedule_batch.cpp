// Any line of `schedule --batch` is answered with an order, or the reason why there is none. Cases that are merely
// large are skipped, because they may take long.
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/process.hpp"
#include "memory_file.hpp"

namespace {

bool large(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  double actions = 1;
  for (const char* key : {"pipeline", "microbatches", "chunks", "pieces"}) {
    const auto at = json.find(key);
    if (at != json.end() && at->is_number()) actions *= std::max(1., std::abs(at->get<double>()));
  }
  return !(actions < 500);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    if (large(text.substr(at, end - at))) return 0;
    at = end + 1;
  }
  const fuzz::MemoryFile file(data, size);
  const auto session = cli::process_session();
  if (cli::run_schedule(*session, {"--batch", file.path(), "--output", "/dev/null"}) != 0) std::abort();
  return 0;
}
