//===- RankTesting.h - Tests that run on several processes ------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_RANKTESTING_H
#define FUSION_RUNTIME_TESTS_RANKTESTING_H

#include "Communicator.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fusion::rt::test {

/// A program with one all-reduce on each of the lists of axes, all on stream 0:
/// its communicators are numbered as the lists.
Program meshProgram(std::vector<uint32_t> sizes,
                    std::vector<std::vector<uint32_t>> groups);

/// Runs `body` as each rank of the program's mesh, in a process of its own with
/// the host communicator. It returns what went wrong, or nothing. The texts of
/// all ranks, by rank.
std::vector<std::string>
onRanks(const Program &program,
        const std::function<std::string(Communicator &)> &body);

/// Makes the communicator of a rank.
using MakeCommunicator = std::function<std::unique_ptr<Communicator>(
    uint32_t rank, uint32_t size, std::shared_ptr<Rendezvous> rendezvous)>;

/// The same with communicators of another kind. `limit`: seconds after which a
/// rank is said to hang.
std::vector<std::string>
onRanks(const Program &program, const MakeCommunicator &make,
        const std::function<std::string(Communicator &)> &body,
        double limit = 120);

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_RANKTESTING_H
