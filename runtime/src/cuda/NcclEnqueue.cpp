//===- NcclEnqueue.cpp - NCCL's collectives on streams --------------------===//
//
// See NcclCommunicator.h. Kernels that wait for other ranks must not wait for
// each other's place on a GPU, and those of one communicator must come in one
// order: where several groups have a communicator, all collectives follow each
// other in the order of the program's list, which all ranks share.
//
//===----------------------------------------------------------------------===//
#include "NcclCommunicator.h"

#include "Checked.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Status NcclCommunicator::copyRows(const RowCopy &copy, CUstream stream) {
  auto target = reinterpret_cast<CUdeviceptr>(copy.target);
  auto source = reinterpret_cast<CUdeviceptr>(copy.source);
  const Driver &driver = *setup.driver;
  if (!copy.source)
    return driver.check(driver.fillBytes(target, 0, copy.width, stream),
                        "cuMemsetD8Async");
  if (copy.rows == 1)
    return driver.check(driver.copyOnDevice(target, source, copy.width, stream),
                        "cuMemcpyDtoDAsync");
  CUcopy2D rows;
  rows.source = source;
  rows.sourcePitch = copy.sourceStride;
  rows.target = target;
  rows.targetPitch = copy.targetStride;
  rows.width = copy.width;
  rows.height = copy.rows;
  return driver.check(driver.copyRows(&rows, stream), "cuMemcpy2DAsync");
}

Status NcclCommunicator::issue(const NcclCall &call, const Member &member,
                               int reduction, CUstream stream) {
  NcclComm comm = member.comm;
  switch (call.kind) {
  case NcclCall::AllReduce:
    return nccl->check(nccl->allReduce(call.input, call.output, call.count,
                                       getNcclType(call.dtype), reduction, comm,
                                       stream),
                       "ncclAllReduce", comm);
  case NcclCall::AllGather:
    return nccl->check(nccl->allGather(call.input, call.output, call.count,
                                       kNcclI8, comm, stream),
                       "ncclAllGather", comm);
  case NcclCall::ReduceScatter:
    return nccl->check(nccl->reduceScatter(call.input, call.output, call.count,
                                           getNcclType(call.dtype), reduction,
                                           comm, stream),
                       "ncclReduceScatter", comm);
  case NcclCall::Broadcast:
    return nccl->check(nccl->broadcast(call.input, call.output, call.count,
                                       kNcclI8, call.peer, comm, stream),
                       "ncclBroadcast", comm);
  case NcclCall::Send:
    return nccl->check(
        nccl->send(call.input, call.count, kNcclI8, call.peer, comm, stream),
        "ncclSend", comm);
  case NcclCall::Receive:
    return nccl->check(nccl->receive(call.output, call.count, kNcclI8,
                                     call.peer, comm, stream),
                       "ncclRecv", comm);
  }
  return {};
}

/// After the last collective of another group.
Status NcclCommunicator::order(const CollectiveRun &run, CUstream stream) {
  Member &member = members[run.group];
  // Another pass over the list has begun.
  if (run.command <= lastCommand)
    lastMember = nullptr;
  lastCommand = run.command;
  Member *before = std::exchange(lastMember, &member);
  if (!before || before == &member)
    return {};
  return setup.driver->check(
      setup.driver->streamWaitEvent(stream, before->last, 0),
      "cuStreamWaitEvent");
}

Status NcclCommunicator::enqueue(const CollectiveRun &run, CUstream stream) {
  if (isDead)
    return Status(Code::PeerFailed, "NCCL failed in an earlier collective");
  Member &member = members[run.group];
  NcclPlan plan = planNccl(run, member.group, member.staging);
  for (const RowCopy &copy : plan.before)
    FUSION_RT_TRY(copyRows(copy, stream));
  if (!plan.calls.empty()) {
    bool isOrdered = connected > 1;
    if (isOrdered)
      FUSION_RT_TRY(order(run, stream));
    FUSION_RT_TRY(nccl->check(nccl->groupStart(), "ncclGroupStart"));
    Status status;
    int reduction = getNcclReduction(run.call->reduction);
    for (const NcclCall &call : plan.calls)
      if (status.ok())
        status = issue(call, member, reduction, stream);
    Status ended = nccl->check(nccl->groupEnd(), "ncclGroupEnd", member.comm);
    if (status.ok())
      status = ended;
    if (!status.ok()) {
      isDead = true;
      return status;
    }
    // NCCL's thread has put all of it on the stream before anything follows.
    FUSION_RT_TRY(settle(member.comm, member.group, "a collective"));
    if (isOrdered)
      FUSION_RT_TRY(setup.driver->check(
          setup.driver->eventRecord(member.last, stream), "cuEventRecord"));
  }
  for (const RowCopy &copy : plan.after)
    FUSION_RT_TRY(copyRows(copy, stream));
  ++count.collectives;
  count.bytesSent += plan.sentBytes;
  return {};
}
