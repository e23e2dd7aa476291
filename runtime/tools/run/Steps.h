//===- Steps.h - Runs that go on from each other ----------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_STEPS_H
#define FUSION_RUNTIME_TOOLS_RUN_STEPS_H

#include "Inputs.h"
#include "Session.h"

namespace fusion::rt {

/// The steps behind the first one, `steps` in all, on its buffers, which are
/// the caller's own and are written. `outputs` are what the first step gave;
/// afterwards those that take an input's place are what the last one left, all
/// others have one dimension more in front and hold every step's. `seconds`: of
/// one step, 0: any.
Status runSteps(Session &session, const RunInputs &inputs,
                const std::vector<const void *> &inputPointers,
                const std::vector<void *> &outputPointers, int64_t steps,
                double seconds, std::vector<Tensor> &outputs);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_STEPS_H
