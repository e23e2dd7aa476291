//===- GlooTransport.cpp - Bytes over Gloo's TCP pairs --------------------===//
//
// A library of its own, so that only programs with ranks need Gloo. Only its
// point-to-point messages are used: how values are combined is decided by
// HostCommunicator, the same on every transport.
//
//===----------------------------------------------------------------------===//
#include "Transport.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstring>

using namespace fusion::rt;

namespace {

/// Gloo's rendezvous over ours, the keys of a group under its name.
class Store final : public gloo::rendezvous::Store {
public:
  Store(Rendezvous &rendezvous, std::string prefix)
      : rendezvous(rendezvous), prefix(std::move(prefix)) {}

  void set(const std::string &key, const std::vector<char> &data) override {
    check(rendezvous.set(prefix + key, data));
  }
  std::vector<char> get(const std::string &key) override {
    auto value = rendezvous.get(prefix + key);
    check(value ? Status() : value.status());
    return *value;
  }
  void wait(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys)
      get(key);
  }
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &) override {
    wait(keys);
  }

  Status failure; ///< the first error of the rendezvous

private:
  void check(const Status &status) {
    if (status.ok())
      return;
    failure = status;
    throw gloo::IoException(status.message());
  }

  Rendezvous &rendezvous;
  std::string prefix;
};

class GlooTransport final : public Transport {
public:
  GlooTransport(std::shared_ptr<gloo::rendezvous::Context> context,
                std::chrono::milliseconds timeout)
      : context(std::move(context)), timeout(timeout) {}

  ~GlooTransport() override {
    try {
      context->closeConnections();
    } catch (...) {
    }
  }

  Status exchange(const std::vector<Transfer> &receives,
                  const std::vector<Transfer> &sends, int &mismatch) override;

private:
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::chrono::milliseconds timeout;
};

class GlooFactory final : public TransportFactory {
public:
  explicit GlooFactory(const char *address) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    device = gloo::transport::tcp::CreateDevice(attributes);
  }

  Expected<std::unique_ptr<Transport>> connect(const std::string &name,
                                               uint32_t position, uint32_t size,
                                               Rendezvous &rendezvous,
                                               double timeout) override;

private:
  std::shared_ptr<gloo::transport::Device> device;
};

} // namespace

Status GlooTransport::exchange(const std::vector<Transfer> &receives,
                               const std::vector<Transfer> &sends,
                               int &mismatch) {
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  const Transfer *waited = nullptr;
  try {
    std::vector<Buffer> in, out;
    auto post = [&](const Transfer &transfer) {
      return context->createUnboundBuffer(transfer.data, transfer.size);
    };
    for (const Transfer &transfer : receives) {
      waited = &transfer;
      in.push_back(post(transfer));
      in.back()->recv(int(transfer.peer), transfer.tag);
    }
    for (const Transfer &transfer : sends) {
      waited = &transfer;
      out.push_back(post(transfer));
      out.back()->send(int(transfer.peer), transfer.tag);
    }
    for (size_t i = 0; i < receives.size(); ++i) {
      waited = &receives[i];
      in[i]->waitRecv(timeout);
      if (!receives[i].expected ||
          std::memcmp(receives[i].data, receives[i].expected,
                      receives[i].size) == 0)
        continue;
      mismatch = int(i);
      // The other members must be able to see it too.
      for (size_t k = 0; k < sends.size(); ++k)
        if (sends[k].isHeader)
          out[k]->waitSend(std::chrono::milliseconds(500));
      return Status(Code::Rejected, "unexpected bytes");
    }
    for (size_t i = 0; i < sends.size(); ++i) {
      waited = &sends[i];
      out[i]->waitSend(timeout);
    }
    return {};
  } catch (const gloo::IoException &error) {
    bool late = std::strstr(error.what(), "imed out");
    return Status(late ? Code::Timeout : Code::PeerFailed,
                  late ? "no message in time" : "the connection broke", {},
                  waited ? int(waited->peer) : -1);
  } catch (const std::exception &error) {
    return Status(Code::PeerFailed, error.what(), {},
                  waited ? int(waited->peer) : -1);
  }
}

Expected<std::unique_ptr<Transport>>
GlooFactory::connect(const std::string &name, uint32_t position, uint32_t size,
                     Rendezvous &rendezvous, double timeout) {
  Store store(rendezvous, name + "/");
  try {
    auto milliseconds = std::chrono::milliseconds(int64_t(timeout * 1000));
    auto context =
        std::make_shared<gloo::rendezvous::Context>(int(position), int(size));
    context->setTimeout(milliseconds);
    context->connectFullMesh(store, device);
    return std::unique_ptr<Transport>(
        std::make_unique<GlooTransport>(std::move(context), milliseconds));
  } catch (const std::exception &error) {
    if (!store.failure.ok())
      return store.failure;
    return Status(Code::PeerFailed,
                  std::string("can't connect to the ranks: ") + error.what());
  }
}

extern "C" __attribute__((visibility("default"))) TransportFactory *
fusion_rt_make_transports(const char *address, char *error, size_t size) {
  try {
    return new GlooFactory(address);
  } catch (const std::exception &failure) {
    std::strncpy(error, failure.what(), size - 1);
    error[size - 1] = 0;
    return nullptr;
  }
}
