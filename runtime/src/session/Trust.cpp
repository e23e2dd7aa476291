//===- Trust.cpp - Whether a module's native code may run -----------------===//
//
// A module that contains native code can do whatever the user can. It runs only
// with consent, and this is where consent is decided; `--inspect` and the null
// backend need none.
//
//===----------------------------------------------------------------------===//
#include "Trust.h"
#include "Text.h"

#include <cstdio>
#include <memory>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;

static Status checkOwn(const LoadedModule &module) {
  std::string advice = "; compile it here with fusion-compile, or run with "
                       "--trust=all if you trust it";
  std::string what = "module '" + escape(module.path) + "' ";
  if (module.path.empty() || module.ownerId < 0)
    return Status(Code::Rejected, "a module in memory has no owner" + advice);
  if (uint64_t(module.ownerId) != geteuid())
    return Status(Code::Rejected, what + "is owned by another user" + advice);
  if (module.mode & 022)
    return Status(Code::Rejected,
                  what + "can be written by others (chmod go-w it)" + advice);
  if (module.view.module.buildId != buildId())
    return Status(Code::Rejected, what + "was made by another build (" +
                                      escape(module.view.module.buildId, 64) +
                                      ", this is " + buildId() + ")" + advice);
  return {};
}

namespace {
struct FileCloser {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
struct KeyDeleter {
  void operator()(EVP_PKEY *key) const { EVP_PKEY_free(key); }
};
struct ContextDeleter {
  void operator()(EVP_MD_CTX *context) const { EVP_MD_CTX_free(context); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;
} // namespace

static Status checkSignature(const LoadedModule &module,
                             const std::string &keyPath) {
  if (module.path.empty())
    return Status(Code::Usage, "only a module file can be signed");
  File keyFile(std::fopen(keyPath.c_str(), "re"));
  std::unique_ptr<EVP_PKEY, KeyDeleter> key(
      keyFile ? PEM_read_PUBKEY(keyFile.get(), nullptr, nullptr, nullptr)
              : nullptr);
  if (!key || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519)
    return Status(Code::Usage, "'" + escape(keyPath) +
                                   "': not an Ed25519 public key in PEM form");
  std::string signaturePath = module.path + ".sig";
  File signatureFile(std::fopen(signaturePath.c_str(), "re"));
  unsigned char signature[65];
  size_t size = signatureFile ? std::fread(signature, 1, sizeof(signature),
                                           signatureFile.get())
                              : 0;
  if (size != 64)
    return Status(Code::Rejected, "'" + escape(signaturePath) +
                                      "': no Ed25519 signature of 64 bytes");
  // The whole file lies in memory from its first byte.
  const uint8_t *bytes = module.fileBytes();
  std::unique_ptr<EVP_MD_CTX, ContextDeleter> context(EVP_MD_CTX_new());
  if (!context || EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr,
                                       key.get()) != 1)
    return Status(Code::Resources, "out of memory while verifying a signature");
  if (EVP_DigestVerify(context.get(), signature, 64, bytes,
                       module.view.fileSize) != 1)
    return Status(Code::Rejected, "module '" + escape(module.path) +
                                      "' is not signed by '" + escape(keyPath) +
                                      "'");
  return {};
}

Status fusion::rt::checkTrust(const LoadedModule &module,
                              const std::string &rule) {
  if (rule == "all")
    return {};
  if (rule == "own")
    return checkOwn(module);
  if (rule.compare(0, 7, "signed:") == 0)
    return checkSignature(module, rule.substr(7));
  return Status(Code::Usage, "unknown trust rule '" + escape(rule) +
                                 "'; use own, all or signed:KEY");
}
