//===- Faults.h - Failures on purpose ---------------------------*- C++ -*-===//
//
// Tests of what a job does when a rank fails need ranks that fail at a given
// point: --inject RANK:FAULT[:N]. Nothing else looks at these.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_FAULTS_H
#define FUSION_RUNTIME_TOOLS_RUN_FAULTS_H

#include "DeviceCommunicator.h"
#include "Frames.h"
#include "Status.h"

#include <string>
#include <vector>

namespace fusion::rt {

class RankLink;

/// One failure of one rank.
struct Fault {
  static constexpr uint32_t kAll = uint32_t(-1);
  uint32_t rank = 0; ///< or all
  std::string kind;
  /// The collective it happens at; of "slow": milliseconds; of "link":
  /// megabytes a second that the network has.
  uint64_t number = 1;
};

/// Parses "RANK:FAULT[:N]", the rank a number or "all". False if it is none.
bool parseFault(const std::string &text, Fault &fault);

/// The kinds, for --help.
const char *faultsText();

/// What happens to a rank before it joins, before it is ready, at its end, and
/// when all is said and its process ends.
enum class Stage { Start, Load, End, Exit };
void injectAt(Stage stage, const std::vector<Fault> &faults, uint32_t rank,
              RankLink *link);

/// Whether a rank does not end when it is told to.
bool isDeaf(const std::vector<Fault> &faults, uint32_t rank);

/// Changes what a rank says of itself.
void injectIdentity(const std::vector<Fault> &faults, uint32_t rank,
                    Identity &identity);

/// `communicator`, with the rank's faults at its collectives.
std::shared_ptr<Communicator>
injectFaults(const std::vector<Fault> &faults,
             std::shared_ptr<Communicator> communicator, RankLink *link);
/// On GPUs a collective is put on a stream when a step is captured, so faults
/// happen there.
std::shared_ptr<DeviceCommunicator>
injectFaults(const std::vector<Fault> &faults,
             std::shared_ptr<DeviceCommunicator> communicator, RankLink *link);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_FAULTS_H
