//===- NcclCommunicator.h - Collectives through NCCL ------------*- C++ -*-===//
//
// One NCCL communicator for all groups of the same ranks: each has buffers of
// its own for every channel. They are nonblocking: NCCL does its work on
// threads of its own and is asked how far it is, so that every wait has an end.
// Split over NcclCommunicator.cpp (the life of the communicators) and
// NcclEnqueue.cpp (collectives on streams).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_NCCLCOMMUNICATOR_H
#define FUSION_RUNTIME_CUDA_NCCLCOMMUNICATOR_H

#include "DeviceCommunicator.h"
#include "NcclApi.h"
#include "NcclPlan.h"

namespace fusion::rt::cuda {

class NcclCommunicator final : public DeviceCommunicator {
public:
  NcclCommunicator(uint32_t rank, uint32_t size,
                   std::shared_ptr<Rendezvous> rendezvous)
      : ownRank(rank), ranks(size), rendezvous(std::move(rendezvous)) {}
  ~NcclCommunicator() override;

  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const DeviceSetup &setup) override;
  Status enqueue(const CollectiveRun &run, CUstream stream) override;
  uint64_t bytes() const override { return held; }
  Status poll() override;
  void abort() override;
  std::vector<Counts> counts() const override { return {count}; }

private:
  struct Member {
    Group group;
    /// None: a group of one, or without a collective.
    NcclComm comm = nullptr;
    bool isOwner = false; ///< of `comm`: the first group of these ranks
    char *staging = nullptr;
    uint64_t stagingSize = 0;
    CUevent last = nullptr; ///< after the last collective, if there are others
  };

  void setEnvironment();
  Status open(Member &member);
  Status agree(const Group &group, NcclId &id);
  Status reserve();
  /// Runs every collective once, so that NCCL has all that it needs before a
  /// step does: its connections are made at first use.
  Status warmUp();
  Status warmUpOn(char *memory, CUstream stream);
  /// A collective of the program with its parts one after the other from
  /// `memory` on. `end` gets the bytes that they take.
  CollectiveRun layOut(size_t command, char *memory, uint64_t &end) const;
  /// Until NCCL has done what was asked of `comm`.
  Status settle(NcclComm comm, const Group &group, const char *entry);
  Status waitForStream(CUstream stream);
  Status timedOut(const std::string &what) const;
  Status order(const CollectiveRun &run, CUstream stream);
  Status copyRows(const RowCopy &copy, CUstream stream);
  Status issue(const NcclCall &call, const Member &member, int reduction,
               CUstream stream);
  void close();

  uint32_t ownRank, ranks;
  std::shared_ptr<Rendezvous> rendezvous;
  DeviceSetup setup;
  const NcclApi *nccl = nullptr;
  std::vector<Member> members;
  uint64_t held = 0;
  Counts count{"nccl"};
  size_t connected = 0; ///< groups that have a communicator
  /// The collective that was put last, of the pass over the list under way.
  uint64_t lastCommand = 0;
  Member *lastMember = nullptr;
  /// It failed or was given up: NCCL is not asked again.
  bool isDead = false;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_NCCLCOMMUNICATOR_H
