//===- Sha256.cpp - Hashes of a module's sections -------------------------===//
//
// A thin wrapper over libcrypto, whose assembly uses the CPU's SHA
// instructions: hashing weights at load is then bound by memory, not by us.
//
//===----------------------------------------------------------------------===//
#include "Sha256.h"

#include <openssl/evp.h>

using namespace fusion::rt;

Expected<Digest> fusion::rt::sha256(const void *data, size_t size) {
  Digest digest;
  unsigned length = 0;
  if (EVP_Digest(data, size, digest.data(), &length, EVP_sha256(), nullptr) !=
          1 ||
      length != digest.size())
    return Status(Code::Resources, "out of memory while hashing");
  return digest;
}

std::string fusion::rt::toHex(const Digest &digest) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (uint8_t byte : digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}
