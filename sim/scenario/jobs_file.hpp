// Files with `jobs`: several scenarios at once on the nodes of one cluster.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scenario/scenario.hpp"

namespace rehearsal::scenario {

struct Context;
struct Node;

struct Jobs {
  std::string name, file;
  cluster::ClusterSpec cluster;
  struct Job {
    Scenario scenario;  // its cluster has only this job's nodes
    std::string nodes;  // as given: "0-15"
    std::vector<std::uint32_t> on;
  };
  std::vector<Job> jobs;
  std::vector<std::string> warnings;
};

bool is_jobs(const Node& root);
Jobs read_jobs(Context& context, const std::string& path, const Node& root);

// Throws UserError with all errors of the file and of the scenarios that it names.
Jobs load_jobs(const std::string& path, const std::vector<std::string>& sets = {}, const Files& files = disk());
// Reads a scenario or a jobs file; throws as the loader of its kind does.
std::variant<Scenario, Jobs> load_either(const std::string& path, const std::vector<std::string>& sets = {},
                                         const Files& files = disk());

}  // namespace rehearsal::scenario
