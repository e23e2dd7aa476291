//===- Frames.cpp - Messages between a rank and its hub -------------------===//
#include "Frames.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

using namespace fusion::rt;

static constexpr uint32_t kMagic = 0x4e534601; // "\1FSN"

double fusion::rt::monotonicSeconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

static void putWord(std::string &to, uint32_t value) {
  for (int i = 0; i < 4; ++i)
    to += char(value >> 8 * i);
}

static uint32_t getWord(const std::string &from, size_t at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i)
    value |= uint32_t(uint8_t(from[at + size_t(i)])) << 8 * i;
  return value;
}

std::string fusion::rt::encodeFrame(FrameType type,
                                    const std::string &payload) {
  std::string bytes;
  putWord(bytes, kMagic);
  putWord(bytes, uint32_t(type));
  uint32_t size = uint32_t(std::min(payload.size(), kFramePayload));
  putWord(bytes, size);
  return bytes.append(payload, 0, size);
}

int fusion::rt::takeFrame(std::string &bytes, Frame &frame) {
  // Garbage is seen at its first bytes, not when a head is complete.
  std::string magic;
  putWord(magic, kMagic);
  if (bytes.compare(0, std::min<size_t>(4, bytes.size()), magic, 0,
                    std::min<size_t>(4, bytes.size())) != 0)
    return -1;
  if (bytes.size() < kFrameHead)
    return 0;
  uint32_t type = getWord(bytes, 4), size = getWord(bytes, 8);
  if (type > uint32_t(FrameType::Last) || size > kFramePayload)
    return -1;
  if (bytes.size() < kFrameHead + size)
    return 0;
  frame.type = FrameType(type);
  frame.payload = bytes.substr(kFrameHead, size);
  bytes.erase(0, kFrameHead + size);
  return 1;
}

std::string fusion::rt::joinFields(const std::vector<std::string> &fields) {
  std::string text;
  for (const std::string &field : fields) {
    putWord(text, uint32_t(field.size()));
    text += field;
  }
  return text;
}

bool fusion::rt::splitFields(const std::string &text, size_t count,
                             std::vector<std::string> &fields) {
  fields.clear();
  size_t at = 0;
  while (at < text.size()) {
    if (fields.size() == count || text.size() - at < 4)
      return false;
    uint32_t size = getWord(text, at);
    at += 4;
    if (size > text.size() - at)
      return false;
    fields.push_back(text.substr(at, size));
    at += size;
  }
  return fields.size() == count;
}

std::string fusion::rt::encodeStatus(const Status &status) {
  return joinFields({std::to_string(int(status.code())),
                     std::to_string(status.rank()), status.op().substr(0, 4096),
                     status.message().substr(0, 16384)});
}

Status fusion::rt::decodeStatus(const std::string &payload) {
  std::vector<std::string> fields;
  if (!splitFields(payload, 4, fields))
    return Status(Code::Internal, "unreadable error");
  int code = std::atoi(fields[0].c_str());
  if (code < 0 || code > int(Code::Internal))
    code = int(Code::Internal);
  return code == 0 ? Status()
                   : Status(Code(code), fields[3], fields[2],
                            std::atoi(fields[1].c_str()));
}

std::string fusion::rt::encodeIdentity(const Identity &identity) {
  std::vector<std::string> fields;
  for (const auto &[key, value] : identity) {
    fields.push_back(key);
    fields.push_back(value);
  }
  return std::to_string(identity.size()) + "\n" + joinFields(fields);
}

bool fusion::rt::decodeIdentity(const std::string &text, Identity &identity) {
  size_t line = text.find('\n');
  if (line == std::string::npos || line > 3)
    return false;
  int count = std::atoi(text.c_str());
  std::vector<std::string> fields;
  if (count < 1 || count > 64 ||
      !splitFields(text.substr(line + 1), 2 * size_t(count), fields))
    return false;
  identity.clear();
  for (size_t i = 0; i < fields.size(); i += 2)
    identity.emplace_back(fields[i], fields[i + 1]);
  return true;
}

std::string fusion::rt::identityValue(const Identity &identity,
                                      const std::string &key) {
  for (const auto &[name, value] : identity)
    if (name == key)
      return value;
  return {};
}

std::string fusion::rt::makeNonce() {
  std::string nonce(kNonce, 0);
  size_t done = 0;
  while (done < nonce.size()) {
    ssize_t count = getrandom(&nonce[done], nonce.size() - done, 0);
    if (count > 0)
      done += size_t(count);
  }
  return nonce;
}

std::string fusion::rt::makeProof(const std::string &token,
                                  const std::string &role,
                                  const std::string &hubNonce,
                                  const std::string &rankNonce) {
  std::string text = role + hubNonce + rankNonce;
  unsigned char digest[32];
  unsigned int size = sizeof(digest);
  if (!HMAC(EVP_sha256(), token.data(), int(token.size()),
            reinterpret_cast<const unsigned char *>(text.data()), text.size(),
            digest, &size))
    return {};
  return std::string(reinterpret_cast<char *>(digest), size);
}

bool fusion::rt::equalProofs(const std::string &a, const std::string &b) {
  return a.size() == b.size() && !a.empty() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool fusion::rt::sendBytes(int socket, const std::string &bytes,
                           double seconds) {
  double end = monotonicSeconds() + seconds;
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = send(socket, bytes.data() + done, bytes.size() - done,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      done += size_t(count);
      continue;
    }
    if (errno == EINTR)
      continue;
    double left = end - monotonicSeconds();
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || left <= 0)
      return false;
    pollfd waited{socket, POLLOUT, 0};
    poll(&waited, 1, int(left * 1000) + 1);
  }
  return true;
}
