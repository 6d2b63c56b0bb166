// Files that ask how experts are placed on GPUs (contract, section 7; scenarios/balance/README.md).
#pragma once
#include <string>
#include <vector>

#include "balance/answer.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

struct Context;
struct Node;

balance::Question read_balance(Context& context, const std::string& path, const Node& root);
// Whether a file without `version` asks for an expert placement.
bool is_balance(const Node& root);

// Reads one file; `sets` are KEY=VALUE. Throws UserError with every error of the file at once.
balance::Question load_balance(const std::string& path, const std::vector<std::string>& sets = {},
                               const Files& files = disk());

}  // namespace rehearsal::scenario
