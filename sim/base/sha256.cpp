#include "base/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/error.hpp"

namespace rehearsal {

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  INVARIANT(EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) == 1, "libcrypto has no SHA-256");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::string_view text) { EVP_DigestUpdate(context_->md, text.data(), text.size()); }

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context_->md, raw.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; i++) text += fmt::format("{:02x}", raw[i]);
  return text;
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

}  // namespace rehearsal
