//===- Communicator.h - Collectives between ranks ---------------*- C++ -*-===//
//
// What a backend asks for a collective. An implementation knows how bytes move
// and values combine; the group structure of a program is the same for all.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_COMMUNICATOR_H
#define FUSION_RUNTIME_COMM_COMMUNICATOR_H

#include "ModuleData.h"
#include "Status.h"
#include "Transport.h"

#include <memory>
#include <string>
#include <vector>

namespace fusion::rt {

/// This rank's group of one communicator of a program: collectives on `axes`
/// that are on `stream`. They run in list order.
struct Group {
  std::vector<uint32_t> axes;
  uint32_t stream = 0;
  std::vector<uint32_t> ranks; ///< by position
  uint32_t position = 0;       ///< this rank's
  /// The same in all members, different in every other group: its lowest rank
  /// and what it is for.
  std::string name;
};

/// The communicators that a program needs on `rank`, in the order of their
/// first collective; the same order on all ranks.
std::vector<Group> groupsOf(const Program &program, uint32_t rank);

/// Which of `groups` a collective belongs to.
size_t groupIndex(const std::vector<Group> &groups, const Command &command);

/// One tensor of a collective at a run.
struct PartBuffer {
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< of the input
  const char *input = nullptr;
  char *output = nullptr; ///< equal to `input` if in place, else apart
};

/// One collective of a run. The lists belong to the caller and stay.
struct CollectiveRun {
  const CollectiveCall *call = nullptr;
  size_t group = 0;     ///< index into the groups given to `connect`
  uint64_t command = 0; ///< its place in the program; ranks compare it
  std::vector<PartBuffer> parts;
};

/// What a rank does not share with others: `run` is called by one thread a
/// group at a time.
class Communicator {
public:
  virtual ~Communicator() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;

  /// Connects all groups, in order. Called once; all ranks call it.
  virtual Status connect(const std::vector<Group> &groups) = 0;

  /// Runs a collective to its end. Inputs of other ranks are combined in the
  /// order of the group, so that all members have the same bits. Errors name
  /// the rank: `PeerFailed` (it went away), `Timeout` (it does not come, or it
  /// runs another collective). After an error every run fails.
  virtual Status run(const CollectiveRun &run) = 0;

  /// Collectives run, bytes that this rank sent to others, and bytes that it
  /// holds for what they send.
  struct Counts {
    uint64_t collectives = 0, bytesSent = 0, stagingBytes = 0;
  };
  virtual Counts counts() const = 0;
};

/// Ranks that are processes: bytes over `transports`.
std::unique_ptr<Communicator>
makeHostCommunicator(uint32_t rank, uint32_t size,
                     std::shared_ptr<TransportFactory> transports,
                     std::shared_ptr<Rendezvous> rendezvous, double timeout);

/// Counts and moves nothing: outputs become zeros where they are not the input.
std::unique_ptr<Communicator> makeNullCommunicator(uint32_t rank,
                                                   uint32_t size);

/// Opens the transport library that belongs to this build. `address` is the
/// local one to bind to. `Environment` if it, or Gloo, is not installed.
Expected<std::shared_ptr<TransportFactory>>
openTransports(const std::string &address);

/// "all_reduce", ... as the dialect names them.
const char *collectiveName(CollectiveOp op);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_COMMUNICATOR_H
