// Where scenarios and the parts that they name are read from: the disk of this machine, or memory.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rehearsal::scenario {

class Files {
 public:
  virtual ~Files() = default;
  // The bytes of a file. Throws UserError, also for one of more than `limit` bytes.
  virtual std::string read(const std::string& path, std::size_t limit) const = 0;
  virtual bool exists(const std::string& path) const = 0;
  // The names, without their ending, of the .yaml files in a folder, sorted; none where there is no such folder.
  virtual std::vector<std::string> names_in(const std::string& folder) const = 0;
  // The folder that holds configs/ and models/zoo/. Throws UserError where it cannot be found.
  virtual std::string home() const = 0;
  // The folder of the profiles that were measured on this machine; empty where there is none.
  virtual std::string profiles() const = 0;
};

// Those of this machine: the only function of this room that is defined elsewhere, in sim/disk, which a program without
// a file system leaves out. It then passes files of its own wherever these are the default.
const Files& disk();

// Texts by their path: "configs/gpus/h100-80g-sxm.yaml". No profiles of a machine.
class MemoryFiles : public Files {
 public:
  explicit MemoryFiles(std::map<std::string, std::string> texts) : texts_(std::move(texts)) {}
  std::string read(const std::string& path, std::size_t limit) const override;
  bool exists(const std::string& path) const override;
  std::vector<std::string> names_in(const std::string& folder) const override;
  std::string home() const override;
  std::string profiles() const override { return ""; }

 private:
  std::map<std::string, std::string> texts_;
};

}  // namespace rehearsal::scenario
