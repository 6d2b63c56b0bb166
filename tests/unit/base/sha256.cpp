#include "base/sha256.hpp"

#include <doctest/doctest.h>

using namespace rehearsal;

// The examples of NIST (FIPS 180-4, csrc.nist.gov "SHA256.pdf") and of one million letters.
TEST_CASE("digests are those that NIST prints") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a stream is its text, however it is cut, with and without the processor's instructions") {
  std::string text;
  for (int i = 0; i < 300; i++) {
    CAPTURE(i);
    const auto whole = sha256(text);
    for (const auto cut : {text.size() / 3, text.size() / 2, text.size()}) {
      Sha256 own, portable = Sha256::portable();
      for (Sha256* hash : {&own, &portable}) {
        hash->update(std::string_view(text).substr(0, cut)), hash->update(""),
            hash->update(std::string_view(text).substr(cut));
        CHECK(hash->hex() == whole);
      }
    }
    text += static_cast<char>(i * 7 % 256);
  }
}
