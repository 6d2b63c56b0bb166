// SHA-256 of a stream of text (libcrypto), for digests of orders, graphs and scenarios.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace rehearsal {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::string_view text);
  std::string hex();  // ends the stream; 64 lower-case digits

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256(std::string_view text);

}  // namespace rehearsal
