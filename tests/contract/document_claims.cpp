// What pages claim is not built, not performed, refused or planned is true: each sentence has a command that shows it.
// A sentence of this kind that is not listed fails, and so does one whose command answers otherwise.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "../document_pages.hpp"

namespace fs = std::filesystem;
using namespace rehearsal::documents;

namespace {

// Words by which such sentences are recognised.
const std::regex kWords(
    R"(\bnot (yet |been )?(built|performed|predicted|priced|modelled|supported|executed|possible)\b|\bcomes? later\b)"
    R"(|\brefuses?\b|\brefused\b|\b(has|is) no (price|key)\b|\bno key\b|\byet\b|\bnever (tried|compared|executed|run)\b)"
    R"(|\bcannot\b|[Nn]othing has been executed)");

struct Claim {
  const char *page, *says;  // `says`: a part of the sentence, with those words
  const char* command;      // that shows it; null: `answers` is the reason why no command can
  int status;               // its exit status
  const char* answers;      // must be in its answer
};
const char* const kOfTheWorld = nullptr;
const Claim kClaims[] = {
    {"scenarios/README.md", "other degrees, ZeRO, LOMO and loss scaling are refused",
     "check scenarios/parameter-servers-64xa100.yaml --set parallelism.zero=1", 2, "zero"},
    {"scenarios/README.md", "What does not divide is refused with the nearest values",
     "check scenarios/gpt3-175b-1024xa100.yaml --set batch.micro=7", 2, "nearest"},
    {"scenarios/README.md", "says what else is refused",
     "check scenarios/gpt-resharding-p3-8xlarge.yaml --set parallelism.chunks=2 --set schedule=interleaved-1f1b", 2,
     "stage"},
    {"scenarios/README.md", "They refuse other skews, placements, `limit_nodes`, two-hop dispatch",
     "check scenarios/measure/mixtral-tiny-ep4-this-machine.yaml --set 'experts={skew: {zipf: 1}}'", 2, "skew"},
    {"scenarios/README.md", "No prediction uses it yet", kOfTheWorld, 0, "of a GPU's profile; contract_measured_gpu"},
    {"scenarios/README.md", "the others are not used yet", kOfTheWorld, 0, "likewise"},
    {"scenarios/README.md", "No prediction uses them yet", kOfTheWorld, 0, "likewise"},
    {"scenarios/README.md", "Schedules that need a chain are refused by name",
     "run scenarios/teaching-1f1b-8-stages.yaml --set 'costs.edges=[[0, 2], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], "
     "[6, 7]]' "
     "--set schedule=zb-h1",
     2, "zb-h1"},
    {"CONTRIBUTING.md", "or the GPU cannot be used", kOfTheWorld, 0, "of tools/gpu-check; contract_gpu_program"},
    {"docs/reference.md", "A cell that cannot be read leaves its row not judged", kOfTheWorld, 0,
     "of tables; contract_validate_against"},
    {"CONTRIBUTING.md", "A sentence that says what is not built, not performed or refused is listed", kOfTheWorld, 0,
     "of this test"},
    {"scenarios/README.md", "This page explains what a table cannot say", kOfTheWorld, 0, "of tables"},
    {"scenarios/README.md", "copies of the head's table add up their gradients is not priced",
     "run scenarios/llama3-8b-dgx-h100.yaml --set 'model={use: deepseek-v3, layers: 3, dense_layers: 1, mtp_layers: "
     "1}' "
     "--set 'parallelism={pipeline: 4, data: 2, expert: 2}' --set 'partition={layout: Ett|t|m|LL}' --assumptions",
     0, "table is not priced"},
    {"docs/accuracy.md", "the allocator gives its cache back, and that has no price", kOfTheWorld, 0,
     "of memory that is nearly full; reports count how often it does"},
    {"docs/models.md", "the exchange around the look-up is not priced",
     "run scenarios/llama3-8b-dgx-h100.yaml --set 'parallelism={pipeline: 4, data: 2}' --set schedule=vocab-1 "
     "--assumptions",
     0, "gets back is not"},
    {"docs/models.md", "`run` refuses by name those without a flush with frameworks",
     "check scenarios/llama3-70b-64xh100.yaml --set schedule=pipedream", 2, "pipedream"},
    {"docs/models.md", "What it cannot do is refused by name",
     "check scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml --set training.kernels=unfused", 2, "kernels"},
    {"CONTRIBUTING.md", "refuses it until it has `.kernels`", kOfTheWorld, 0,
     "of an optimizer that is not there; plan/refusals.cpp"},
    {"docs/models.md", "sparse attention, the gated delta rule and lightning attention are predicted and not performed",
     "check scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml --set model.family=llama --set "
     "model.ffn_kind=swiglu --set 'model.mixer={sparse: 8, index_heads: 2, index_dim: 8}'",
     2, "sparse"},
    {"docs/models.md", "never compared with a run", kOfTheWorld, 0, "of published runs: no table has one"},
    {"docs/models.md", "which its rule does not even out; never compared with a run", kOfTheWorld, 0, "likewise"},
    {"docs/models.md", "and what has never been tried", kOfTheWorld, 0, "likewise"},
    {"docs/models.md", "Several GPUs, and NCCL between them, were never tried", kOfTheWorld, 0, "likewise"},
    {"docs/accuracy.md", "(LL, LL128) are not modelled across nodes", kOfTheWorld, 0,
     "of prices; fidelity_collectives_across_nodes"},
    {"docs/accuracy.md", "when ranks are many for its channels; not modelled", kOfTheWorld, 0, "likewise"},
    {"docs/planning.md", "Part of that is what is not modelled", kOfTheWorld, 0, "of prices"},
    {"web/README.md", "what stands in for what a page cannot have", kOfTheWorld, 0, "of browsers"},
    {"scenarios/gallery/README.md", "refused where it does not", kOfTheWorld, 0, "tools/gallery --check does"},
};

// On one line, without the markers of lists and comments.
std::string flat(const std::string& text) {
  static const std::regex begins("\n *# "), spaces("\\s+");
  return std::regex_replace(std::regex_replace(text, begins, " "), spaces, " ");
}

// The table of scenario keys and what commands print come from the program itself: not a page's own text.
std::string sentences(const fs::path& page) {
  auto text = read(page);
  const auto from = text.find("<!-- keys: begin -->");
  if (from != std::string::npos) text.erase(from, text.find("<!-- keys: end -->") - from);
  const std::string printed = "\n<!-- output: ", ends = "\n```\n";
  for (auto at = text.find(printed); at != std::string::npos; at = text.find(printed, at))
    text.erase(at, text.find(ends, text.find("```\n", at)) + ends.size() - 1 - at);
  if (page.extension() != ".yaml") return flat(text);
  std::string comments;
  for (const auto& line : lines_of(text))
    if (const auto at = line.find("# "); at != std::string::npos) comments += line.substr(at + 2) + "\n";
  return flat(comments);
}

std::vector<std::string> told_pages() {
  std::vector<std::string> all{"README.md", "CONTRIBUTING.md", "scenarios/README.md", "scenarios/gallery/README.md",
                               "web/README.md"};
  const auto add = [&](const char* folder, const char* extension) {
    for (const auto& file : fs::directory_iterator(kTop / folder))
      if (file.path().extension() == extension)
        all.push_back(std::string(folder) + "/" + file.path().filename().string());
  };
  add("docs", ".md"), add("scenarios", ".yaml"), add("scenarios/runs", ".yaml"), add("scenarios/jobs", ".yaml");
  return all;
}

}  // namespace

TEST_CASE("every sentence that says what there is not is in the list") {
  std::size_t found = 0;
  for (const auto& page : told_pages()) {
    const auto text = sentences(kTop / page);
    for (std::sregex_iterator it(text.begin(), text.end(), kWords), end; it != end; ++it) {
      const auto from = std::size_t(it->position()), to = from + std::size_t(it->length());
      const bool listed = std::any_of(std::begin(kClaims), std::end(kClaims), [&](const Claim& claim) {
        for (auto at = text.find(claim.says); page == claim.page && at != std::string::npos;
             at = text.find(claim.says, at + 1))
          if (at <= from && to <= at + std::string(claim.says).size()) return true;
        return false;
      });
      CHECK_MESSAGE(listed, page << ": \"..." << text.substr(from - std::min<std::size_t>(from, 60), 120)
                                 << "...\": list it in kClaims, with the command that shows it");
      ++found;
    }
  }
  CHECK(found >= std::size(kClaims));
}

TEST_CASE("every sentence of the list is on its page, and its command shows it") {
  for (const auto& claim : kClaims) {
    INFO(fmt::format("{}: {}", claim.page, claim.says));
    CHECK(contains(sentences(kTop / claim.page), claim.says));
    if (claim.command == kOfTheWorld) continue;
    const auto run = shell("cd '" PROJECT_ROOT "' && '" REHEARSE_BINARY "' " + std::string(claim.command) + " 2>&1");
    INFO(std::string(claim.command));
    INFO(run.out.substr(0, 600));
    CHECK(run.status == claim.status);
    CHECK(contains(run.out, claim.answers));
  }
}
