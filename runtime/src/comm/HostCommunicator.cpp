//===- HostCommunicator.cpp - The communicator of processes ---------------===//
#include "HostCollective.h"

using namespace fusion::rt;
using namespace fusion::rt::host;

namespace {

class HostCommunicator final : public Communicator {
public:
  HostCommunicator(uint32_t rank, uint32_t size,
                   std::shared_ptr<TransportFactory> transports,
                   std::shared_ptr<Rendezvous> rendezvous, double timeout)
      : ownRank(rank), ranks(size), transports(std::move(transports)),
        rendezvous(std::move(rendezvous)), timeout(timeout) {}

  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const std::vector<Group> &groups) override;
  Status run(const CollectiveRun &run) override;
  Counts counts() const override { return {collectives, bytesSent, staged}; }

private:
  uint32_t ownRank, ranks;
  std::shared_ptr<TransportFactory> transports;
  std::shared_ptr<Rendezvous> rendezvous;
  double timeout;
  std::vector<std::unique_ptr<Member>> members;
  std::atomic<uint64_t> collectives{0}, bytesSent{0}, staged{0};
};

/// A group of one rank: nothing is sent.
class NoTransport final : public Transport {
public:
  Status exchange(const std::vector<Transfer> &, const std::vector<Transfer> &,
                  int &) override {
    return {};
  }
};
} // namespace

Status HostCommunicator::connect(const std::vector<Group> &groups) {
  for (const Group &group : groups) {
    auto member = std::make_unique<Member>();
    member->group = group;
    member->headers.resize(group.ranks.size());
    if (group.ranks.size() > 1) {
      auto transport = transports->connect("group" + group.name, group.position,
                                           uint32_t(group.ranks.size()),
                                           *rendezvous, timeout);
      if (!transport)
        return transport.status();
      member->transport = std::move(*transport);
    } else {
      member->transport = std::make_unique<NoTransport>();
    }
    members.push_back(std::move(member));
  }
  return {};
}

Status HostCommunicator::run(const CollectiveRun &run) {
  Member &member = *members[run.group];
  if (!member.broken.ok())
    return member.broken;
  ++collectives;
  uint64_t before = member.staging.bytes();
  Status status = HostCollective(member, run, bytesSent).execute();
  staged += member.staging.bytes() - before;
  if (!status.ok())
    member.broken = status;
  return status;
}

std::unique_ptr<Communicator> fusion::rt::makeHostCommunicator(
    uint32_t rank, uint32_t size, std::shared_ptr<TransportFactory> transports,
    std::shared_ptr<Rendezvous> rendezvous, double timeout) {
  return std::make_unique<HostCommunicator>(rank, size, std::move(transports),
                                            std::move(rendezvous), timeout);
}
