// Where scenarios and the parts that they name are read from: the local disk, or memory.
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
  // The bytes of a file. Throws UserError if it cannot be read or is larger than `limit` bytes.
  virtual std::string read(const std::string& path, std::size_t limit) const = 0;
  virtual bool exists(const std::string& path) const = 0;
  // The names, without extension, of the .yaml files in a folder, sorted; empty if there is no such folder.
  virtual std::vector<std::string> names_in(const std::string& folder) const = 0;
  // The folder that holds configs/ and models/zoo/. Throws UserError where it cannot be found.
  virtual std::string home() const = 0;
  // The folder of the profiles measured on this machine; empty if there is none.
  virtual std::string profiles() const = 0;
};

// The files of this machine: the only function of this folder that is defined elsewhere, in sim/disk. A program without
// a file system does not link that and passes files of its own wherever these are the default.
const Files& disk();

// Texts by path: "configs/gpus/h100-80g-sxm.yaml". Has no profiles of a machine.
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

// Texts by name over other files. Names are compared without "./" and "..": a file names others relative to its own
// folder.
class LaidOver : public Files {
 public:
  explicit LaidOver(const std::map<std::string, std::string>& texts, const Files& behind = disk());
  std::string read(const std::string& path, std::size_t limit) const override;
  bool exists(const std::string& path) const override;
  std::vector<std::string> names_in(const std::string& folder) const override;
  std::string home() const override { return behind_.home(); }
  std::string profiles() const override { return behind_.profiles(); }

 private:
  const std::string* find(const std::string& path) const;
  const Files& behind_;
  std::map<std::string, std::string> texts_;
};

}  // namespace rehearsal::scenario
