// Every model of the zoo has the number of parameters that was published for it; one that no paper counts has at least
// the size that its name says.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "scenario/scenario.hpp"

using namespace rehearsal;
namespace fs = std::filesystem;

namespace {

struct Published {
  double parameters, tolerance;
};
// Llama: counts of the released weights, biases and norms included, so to the last one. BLOOM: model card; positions
// are ALiBi there, while family gpt learns s x h of them (0.02 %), and its embedding has a norm. MPT: 12 l h^2 + V h,
// what is left without biases and learned positions (1.4 % of the smallest). NeMo prints whole billions (Nemotron-3 8B
// has 8.5 with both its embedding matrices of 1.05).
const std::map<std::string, Published> kPublished = {{"llama2-7b", {6'738'415'616., 0}},
                                                     {"llama2-13b", {13'015'864'320., 0}},
                                                     {"llama2-70b", {68'976'648'192., 0}},
                                                     {"llama3-8b", {8'030'261'248., 0}},
                                                     {"llama3-70b", {70'553'706'496., 0}},
                                                     {"llama3-405b", {405'853'388'800., 0}},
                                                     {"bloom-176b", {176'247'271'424., 2e-4}},
                                                     {"gpt3-175b", {174.6e9, 5e-3}},  // GPT-3 Table 2.1
                                                     {"gpt3-5b", {5e9, .02}},
                                                     {"gpt3-20b", {20e9, .02}},
                                                     {"nemotron-8b", {6'442.5e6 + 2 * 1048.6e6, 1e-3}},
                                                     {"nemotron-22b", {22e9, .04}},
                                                     {"nemotron-340b", {340e9, .005}},
                                                     {"mpt-125m", {123.6e6, .014}},
                                                     {"mpt-350m", {353.6e6, .01}},
                                                     {"mpt-760m", {756.9e6, .01}},
                                                     {"mpt-1b", {1.311e9, .01}},
                                                     {"mpt-3b", {2.646e9, .01}},
                                                     {"mpt-7b", {6.649e9, .01}},
                                                     {"mpt-13b", {12.84e9, .01}},
                                                     {"mpt-30b", {29.96e9, .01}},
                                                     {"mpt-70b", {64.84e9, .01}}};

// "llama3-8b" -> 8e9
double named_size(const std::string& name) {
  const auto size = name.substr(name.rfind('-') + 1);
  return std::stod(size) * (size.ends_with('t') ? 1e12 : size.ends_with('m') ? 1e6 : 1e9);
}

}  // namespace

TEST_CASE("every model has the size that was published, or that its name says") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);  // what was measured here is no part of a test
  const auto text = fs::temp_directory_path() / fmt::format("every-model-{}.yaml", ::getpid());
  std::size_t published = 0;
  for (const auto& part : scenario::list("models")) {
    INFO(part.name);
    std::ofstream(text) << fmt::format("version: 1\nmodel: {}\ncluster: dgx-a100-80g\nbatch: {{global: 1}}\n",
                                       part.name);
    const auto model = scenario::load(text.string()).concrete->model;
    const auto known = kPublished.find(part.name);
    if (known == kPublished.end()) {
      CHECK(models::parameters(model) == doctest::Approx(named_size(part.name)).epsilon(.05));
      continue;
    }
    ++published;
    const auto [parameters, tolerance] = known->second;
    CHECK(std::abs(models::parameters(model) - parameters) <= tolerance * parameters);
  }
  CHECK(published == kPublished.size());
  fs::remove(text);
}
