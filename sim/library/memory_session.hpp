// The session of a library and of a page in a browser: what a command writes to its standard streams, and files that it
// calls memory:NAME, are kept here; files given here are found before those of the disk. There is no terminal.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "cli/session.hpp"

namespace rehearsal::library {

class MemorySession : public cli::Session {
 public:
  explicit MemorySession(const std::map<std::string, std::string>& texts) : files_(texts) {}

  const scenario::Files& files() const override { return files_; }
  void write(cli::Stream to, std::string_view text) override;
  std::string* memory_file(const std::string& name) override { return &written_[name]; }
  bool watched() const override { return bool(say_); }
  void progress(std::string_view line) override;
  bool stop() const override { return stop_; }
  void keep(std::span<const answer::Result> results) override { results_.assign(results.begin(), results.end()); }

  void on_progress(std::function<void(const char*)> say) { say_ = std::move(say); }
  void ask_to_stop() { stop_ = true; }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  const std::map<std::string, std::string>& written() const { return written_; }
  const std::vector<answer::Result>& results() const { return results_; }

 private:
  const scenario::LaidOver files_;
  std::mutex writing_;  // warnings may come from several threads
  std::string out_, err_;
  std::map<std::string, std::string> written_;
  std::function<void(const char*)> say_;
  std::atomic<bool> stop_{false};
  std::vector<answer::Result> results_;
};

}  // namespace rehearsal::library
