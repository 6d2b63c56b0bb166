// Every input of the corpora through its fuzzer, without libFuzzer: bugs found once stay found, with any compiler; also
// mutations of the inputs, the same on every machine.   fuzz_replay NAME FOLDER [MUTATIONS of each, default 200]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using Target = int(const std::uint8_t*, std::size_t);
#define FUZZER(name) extern "C" Target fuzz_##name;
#include "fuzzers.inc"
#undef FUZZER

namespace {

namespace fs = std::filesystem;

const struct {
  const char* name;
  Target* run;
} kFuzzers[] = {
#define FUZZER(name) {#name, fuzz_##name},
#include "fuzzers.inc"
#undef FUZZER
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// libFuzzer's mutations without coverage: wrong, missing, doubled and foreign bytes, and numbers at their limits.
std::string mutated(std::string bytes, const std::vector<std::string>& corpus, std::mt19937_64& random) {
  static const std::string kPieces[] = {
      "0", "-1", "9223372036854775807", "1e400", "\xff", std::string(1, '\0'), "{", "[", "\"", ",", "\n", "null"};
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  for (std::size_t times = 1 + below(4); times > 0; --times) {
    const std::size_t at = below(bytes.size() + 1), some = below(std::min<std::size_t>(bytes.size() - at, 16) + 1);
    const std::string& other = corpus[below(corpus.size())];
    const std::size_t from = below(other.size());
    switch (below(6)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, some);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, some));
        break;
      case 3:
        bytes.insert(at, other.substr(from, below(64)));
        break;
      case 4:
        bytes.replace(at, some, other.substr(from, some));
        break;
      default:
        bytes.replace(at, some, kPieces[below(std::size(kPieces))]);
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const std::string name = argv[1];
  const auto fuzzer =
      std::find_if(std::begin(kFuzzers), std::end(kFuzzers), [&](const auto& f) { return f.name == name; });
  if (fuzzer == std::end(kFuzzers)) return 2;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(argv[2]))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const unsigned long mutations = argc == 4 ? std::strtoul(argv[3], nullptr, 10) : 200;
  std::size_t inputs = 0;
  const auto run = [&](const std::string& bytes) {
    // So that the input can be found if this program does not return.
    std::ofstream(std::string("last_") + argv[1], std::ios::binary) << bytes;
    fuzzer->run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), ++inputs;
  };
  std::vector<std::string> corpus;
  for (const fs::path& file : files) corpus.push_back(bytes_of(file));
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::printf("%s\n", files[i].c_str());
    std::fflush(stdout);
    const std::string& bytes = corpus[i];
    run(bytes);
    for (std::size_t step = std::max<std::size_t>(bytes.size() / 16, 1), at = 0; at < bytes.size(); at += step)
      run(bytes.substr(0, at));
    for (unsigned long m = 0; m < mutations; ++m) run(mutated(bytes, corpus, random));
  }
  std::printf("%zu inputs of %zu files\n", inputs, files.size());
  return files.empty() ? 1 : 0;
}
