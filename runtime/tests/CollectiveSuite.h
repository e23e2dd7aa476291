//===- CollectiveSuite.h - One suite for all communicators ------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_COLLECTIVESUITE_H
#define FUSION_RUNTIME_TESTS_COLLECTIVESUITE_H

#include "Communicator.h"

#include <string>

namespace fusion::rt::test {

/// Runs one collective with parts of these shapes and compares every byte of
/// the results. What went wrong, or nothing.
std::string tryOne(Communicator &communicator, const Group &group, size_t index,
                   CollectiveCall call, DType dtype,
                   std::vector<std::vector<int64_t>> shapes, bool inPlace,
                   uint64_t command);

/// All collectives on one group with tensors of about `size` elements;
/// `command` counts them. Without `reduces` those that only move bytes.
std::string tryAll(Communicator &communicator, const Group &group, size_t index,
                   DType dtype, int64_t size, uint64_t &command,
                   bool reduces = true);

const std::vector<DType> kAllTypes = {DType::F64,  DType::F32, DType::F16,
                                      DType::BF16, DType::I1,  DType::I8,
                                      DType::I32,  DType::I64};
/// Widths of 1, 2 and 4 bytes, where it is the group that matters.
const std::vector<DType> kSomeTypes = {DType::I8, DType::BF16, DType::F32};

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_COLLECTIVESUITE_H
