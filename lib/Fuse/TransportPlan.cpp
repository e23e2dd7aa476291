//===- TransportPlan.cpp - What carries which collective ------------------===//
//
// See TransportPlan.h. First what is legal: every reader of a reduced value
// must be one whose kernel can add, and the ranks' tensors must fit beside the
// program's values. Then what the user asked for, or what makes the step short.
//
//===----------------------------------------------------------------------===//
#include "TransportPlan.h"
#include "HorizontalGraph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fusion;

std::optional<TransportChoice> fusion::symbolizeTransport(StringRef name) {
  return llvm::StringSwitch<std::optional<TransportChoice>>(name)
      .Case("auto", TransportChoice::Auto)
      .Case("nccl", TransportChoice::Nccl)
      .Case("peer", TransportChoice::Peer)
      .Case("direct", TransportChoice::Direct)
      .Default(std::nullopt);
}

bool fusion::isRankReduction(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp>(op);
}

//===----------------------------------------------------------------------===//
// Readers
//===----------------------------------------------------------------------===//

using RepeatingOps = llvm::SmallPtrSet<Operation *, 16>;

static bool isSingleElement(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == 1;
}

/// Finds the readers through which a value is broadcast, as a mean over a batch
/// is behind its division: arithmetic that is repeated for every element rather
/// than written. Numbers are not followed: what is computed from them is
/// written, once.
static RepeatingOps findRepeating(Block &block) {
  RepeatingOps repeating;
  // Backwards, so that readers are known before what they read.
  for (Operation &op : llvm::reverse(block)) {
    OpFamily family = getOpFamily(&op);
    bool isMove = family == OpFamily::View || family == OpFamily::Injective;
    bool isNumber = op.getNumResults() == 1 && isSingleElement(op.getResult(0));
    if (isa<BroadcastOp>(op) ||
        ((isMove || (isCheapToRecompute(&op) && !isNumber)) &&
         llvm::any_of(op.getUsers(), [&](Operation *user) {
           return repeating.contains(user);
         })))
      repeating.insert(&op);
  }
  return repeating;
}

/// Whether the kernels that read the results can add the ranks' tensors. What
/// only moves elements is looked through.
static void checkReaders(PlannedCollective &planned,
                         const RepeatingOps &repeating) {
  for (Value result : planned.op->getResults()) {
    bool isAdded = false;
    Operation *returned = nullptr;
    llvm::SmallPtrSet<Operation *, 8> seen;
    SmallVector<Value> worklist{result};
    while (!worklist.empty())
      for (Operation *user : worklist.pop_back_val().getUsers()) {
        if (!seen.insert(user).second)
          continue;
        // Batch statistics, not gradients.
        if (repeating.contains(user)) {
          planned.refusal = FusionRule::TransportRepeated;
          planned.other = user;
          return;
        }
        OpFamily family = getOpFamily(user);
        if (family == OpFamily::Elementwise || family == OpFamily::Reduction) {
          isAdded = true;
        } else if (isView(user) || family == OpFamily::Injective) {
          llvm::append_range(worklist, user->getResults());
        } else if (user->hasTrait<OpTrait::IsTerminator>()) {
          returned = user;
        } else {
          planned.refusal = FusionRule::TransportReader;
          planned.other = user;
          return;
        }
      }
    if (isAdded)
      continue;
    planned.refusal = FusionRule::TransportReturned;
    planned.other = returned;
    return;
  }
}

bool fusion::leadsToReduction(Operation *op) {
  while (isa<ElementwiseOpInterface, ReshapeOp, SliceOp, RankSliceOp>(op) &&
         op->getNumResults() == 1 &&
         llvm::hasSingleElement(llvm::SmallPtrSet<Operation *, 4>(
             op->user_begin(), op->user_end())))
    op = *op->user_begin();
  return isa<ReduceOp>(op);
}

/// Whether one kernel will read each result, element by element: another GPU's
/// memory is slow to read twice. Who adds more than one other rank's tensor, or
/// what is scattered, takes all as one operand, which is no one rank's memory.
/// The schedule has the last word.
static bool isReadInPlace(const PlannedCollective &planned) {
  if (planned.ranks != 2 || !isa<AllReduceOp>(planned.op))
    return false;
  SmallVector<Operation *> readers(planned.op->getUsers());
  while (!readers.empty()) {
    Operation *reader = readers.pop_back_val();
    if (isa<ReshapeOp, RankSliceOp>(reader))
      llvm::append_range(readers, reader->getUsers());
    else if (getOpFamily(reader) != OpFamily::Elementwise ||
             leadsToReduction(reader))
      return false;
  }
  return true;
}

/// Tensors that a reader adds: an update of as many fits the limits of a group.
/// Hosts have no more GPUs that copy from each other.
static constexpr int64_t kMostTerms = 8;

static void checkForm(PlannedCollective &planned,
                      const RepeatingOps &repeating) {
  if (planned.ranks < 2) {
    planned.refusal = FusionRule::TransportRanks;
    return;
  }
  if (!isRankReduction(planned.op))
    return;
  if (planned.ranks > kMostTerms) {
    planned.refusal = FusionRule::MaxLoads;
    planned.value = planned.ranks;
    planned.limit = kMostTerms;
    return;
  }
  auto isStatic = [](Type type) {
    return cast<RankedTensorType>(type).hasStaticShape();
  };
  if (!llvm::all_of(planned.op->getOperandTypes(), isStatic))
    planned.refusal = FusionRule::TransportShape;
  else
    checkReaders(planned, repeating);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// Bytes of intermediate values along the block, an upper bound: what fusion
/// keeps in registers is counted too.
class UnfusedBytes {
public:
  UnfusedBytes(Block &block, const FusionLegality &legality);

  /// The peak from `op` to the last reader of its results if so many bytes more
  /// were alive there.
  int64_t getPeakWith(Operation *op, int64_t bytes) const;
  void add(Operation *op, int64_t bytes);
  int64_t getPeak() const { return peak; }

private:
  unsigned getLastReader(Operation *op) const { return lastReader.lookup(op); }

  llvm::DenseMap<Operation *, unsigned> numberOf, lastReader;
  SmallVector<int64_t, 0> live; ///< by op
  int64_t peak = 0;
};

} // namespace

UnfusedBytes::UnfusedBytes(Block &block, const FusionLegality &legality) {
  for (Operation &op : block)
    numberOf.try_emplace(&op, numberOf.size());
  live.resize(numberOf.size() + 1);
  // Backwards, so that the readers of a view are known before it.
  for (Operation &op : llvm::reverse(block)) {
    unsigned last = numberOf[&op];
    for (Operation *user : op.getUsers()) {
      Operation *top = block.findAncestorOpInBlock(*user);
      last = std::max(last, isView(top) ? lastReader[top] : numberOf[top]);
    }
    lastReader[&op] = last;
    if (isView(&op) || getOpFamily(&op) == OpFamily::Source)
      continue;
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType())) {
        int64_t bytes = legality.getByteSize(result);
        live[numberOf[&op]] += bytes;
        live[last + 1] -= bytes;
      }
  }
  int64_t sum = 0;
  for (int64_t &bytes : live) {
    bytes = sum += bytes;
    peak = std::max(peak, sum);
  }
}

int64_t UnfusedBytes::getPeakWith(Operation *op, int64_t bytes) const {
  auto range = llvm::ArrayRef(live).slice(
      numberOf.lookup(op), getLastReader(op) - numberOf.lookup(op) + 1);
  return *llvm::max_element(range) + bytes;
}

void UnfusedBytes::add(Operation *op, int64_t bytes) {
  for (unsigned i = numberOf.lookup(op); i <= getLastReader(op); ++i)
    peak = std::max(peak, live[i] += bytes);
}

/// Takes out what does not fit, in the order of the block.
static void checkMemory(TransportPlan &plan, Block &block, int64_t limit,
                        const FusionLegality &legality) {
  int64_t total = 0;
  for (const PlannedCollective &planned : plan.collectives)
    if (planned.usesPeer)
      total += planned.extraBytes;
  if (total == 0)
    return;
  UnfusedBytes live(block, legality);
  if (live.getPeak() + total <= limit)
    return;
  for (PlannedCollective &planned : plan.collectives) {
    if (!planned.usesPeer || planned.extraBytes == 0)
      continue;
    int64_t peak = live.getPeakWith(planned.op, planned.extraBytes);
    if (peak <= limit) {
      live.add(planned.op, planned.extraBytes);
      continue;
    }
    planned.usesPeer = false;
    planned.refusal = FusionRule::TransportMemory;
    planned.value = peak;
    planned.limit = limit;
  }
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// What either transport takes.
static void setTimes(PlannedCollective &planned, const CommModel &comms,
                     const CostModel &model) {
  CommGroup group = getCommGroup(cast<CommunicationOpInterface>(planned.op));
  CommOp op = *getCommOp(planned.op), move = op;
  // The model counts the whole tensor: of a gather what it results in.
  double bytes = planned.bytes, moved = bytes;
  if (op == CommOp::AllGather)
    bytes = moved = bytes * planned.ranks;
  if (op == CommOp::AllReduce) {
    move = planned.ranks == 2 ? CommOp::Permute : CommOp::AllGather;
    moved *= planned.ranks == 2 ? 1 : planned.ranks;
  } else if (op == CommOp::ReduceScatter) {
    move = CommOp::AllToAll;
  }
  planned.ncclUs = comms.predict(op, bytes, group, Transport::Nccl).us;
  planned.peerUs = comms.predict(move, moved, group, Transport::Peer).us;
  planned.readUs = comms.predict(move, moved, group, Transport::Direct).us;
  planned.handshakeUs = comms.predict(move, 1, group, Transport::Peer).us;
  planned.sumUs = 1e6 * planned.extraBytes / model.getDevice().memoryBandwidth;
}

namespace {

/// The step of a block that is not fused yet: kernels in order, collectives
/// beside them as soon as their operands are there.
class StepEstimate {
public:
  StepEstimate(Block &block, const TransportPlan &plan,
               const FusionLegality &legality, const CostModel &model,
               const CommModel &comms);

  /// Prices a collective of the plan as it is decided now.
  void update(unsigned number);
  double getUs() const;

private:
  void addCollective(Operation &op);
  void addKernel(Operation &op);
  double getKernelUs(Operation &op) const;
  int64_t getOuterBytes(Operation &op) const;

  const TransportPlan &plan;
  const FusionLegality &legality;
  const CostModel &model;
  const CommModel &comms;
  std::vector<TimedStep> steps;
  /// The step behind which an op's results are there.
  llvm::DenseMap<Operation *, unsigned> stepOf;
  struct Place {
    unsigned step = 0;
    int64_t reader = -1; ///< the first kernel that reads a result
    double addedUs = 0;  ///< to that kernel, by this collective
  };
  SmallVector<Place, 0> places;                ///< by collective of the plan
  llvm::DenseMap<unsigned, unsigned> numberOf; ///< step -> collective
};

} // namespace

StepEstimate::StepEstimate(Block &block, const TransportPlan &plan,
                           const FusionLegality &legality,
                           const CostModel &model, const CommModel &comms)
    : plan(plan), legality(legality), model(model), comms(comms) {
  for (Operation &op : block.without_terminator()) {
    if (isa<CommunicationOpInterface>(op))
      addCollective(op);
    else
      addKernel(op);
  }
  for (unsigned i = 0; i < plan.collectives.size(); ++i)
    update(i);
}

void StepEstimate::addCollective(Operation &op) {
  TimedStep step;
  step.isComm = true;
  step.stream = isRankReduction(&op) ? 1 : 2;
  for (Value operand : op.getOperands())
    if (auto found = stepOf.find(operand.getDefiningOp());
        found != stepOf.end())
      step.waits.push_back(found->second);
  stepOf[&op] = steps.size();
  if (places.size() < plan.collectives.size() &&
      plan.collectives[places.size()].op == &op) {
    numberOf[steps.size()] = places.size();
    places.push_back({static_cast<unsigned>(steps.size())});
  }
  steps.push_back(std::move(step));
}

void StepEstimate::addKernel(Operation &op) {
  TimedStep step;
  step.us = getKernelUs(op);
  std::optional<unsigned> last;
  for (Value operand : op.getOperands()) {
    auto found = stepOf.find(operand.getDefiningOp());
    if (found == stepOf.end())
      continue;
    last = std::max(last.value_or(0), found->second);
    if (steps[found->second].isComm)
      step.waits.push_back(found->second);
  }
  // A view is there when what it is of is.
  if (step.us == 0) {
    if (last)
      stepOf[&op] = *last;
    return;
  }
  for (unsigned wait : step.waits)
    if (auto number = numberOf.find(wait);
        number != numberOf.end() && places[number->second].reader < 0)
      places[number->second].reader = steps.size();
  step.slowdown = comms.getComm().slowdownCompute;
  stepOf[&op] = steps.size();
  steps.push_back(std::move(step));
}

/// Bytes that an op moves once its neighbours are fused with it: values between
/// elementwise ops stay in registers.
int64_t StepEstimate::getOuterBytes(Operation &op) const {
  auto isInner = [](Operation *other) {
    return other && getOpFamily(other) == OpFamily::Elementwise;
  };
  int64_t bytes = 0;
  for (Value operand : op.getOperands())
    if (!isInner(operand.getDefiningOp()))
      bytes += legality.getByteSize(operand);
  for (Value result : op.getResults())
    if (!llvm::all_of(result.getUsers(), isInner))
      bytes += legality.getByteSize(result);
  return bytes;
}

double StepEstimate::getKernelUs(Operation &op) const {
  switch (getOpFamily(&op)) {
  case OpFamily::Source:
  case OpFamily::View:
    return 0;
  case OpFamily::Elementwise:
    return 1e6 * getOuterBytes(op) / model.getDevice().memoryBandwidth;
  case OpFamily::Injective:
    return 0;
  case OpFamily::Outside:
    if (auto group = dyn_cast<GroupOp>(op))
      return model.getMicroseconds(
          computeKernelWork(group, legality, model.getDevice()));
    return 0;
  default:
    return model.getMicroseconds(computeKernelWork(
        {&op}, [](Operation *) { return true; }, legality, model.getDevice()));
  }
}

void StepEstimate::update(unsigned number) {
  const PlannedCollective &planned = plan.collectives[number];
  Place &place = places[number];
  CommGroup group = getCommGroup(cast<CommunicationOpInterface>(planned.op));
  CommCost cost =
      comms.predict(*getCommOp(planned.op), planned.bytes, group,
                    planned.usesPeer ? Transport::Peer : Transport::Nccl);
  TimedStep &step = steps[place.step];
  bool isDirect = planned.usesPeer && planned.isDirect;
  step.us = isDirect           ? planned.handshakeUs
            : planned.usesPeer ? planned.peerUs
                               : planned.ncclUs;
  step.link = cost.link;
  step.slowdownOfKernels = cost.slowdownCompute;
  step.slowdownOfComm = cost.slowdownComm;
  if (place.reader < 0)
    return;
  // Who reads the result reads the tensors of all ranks, and where one comes
  // over the link is done no sooner than it.
  TimedStep &reader = steps[place.reader];
  reader.us -= place.addedUs;
  place.addedUs = planned.usesPeer ? planned.sumUs : 0;
  if (isDirect)
    place.addedUs = std::max(0.0, planned.readUs - reader.us);
  reader.us += place.addedUs;
}

/// Behind all readers of direct moves ranks meet once more.
double StepEstimate::getUs() const {
  double releaseUs = 0;
  for (const PlannedCollective &planned : plan.collectives)
    if (planned.usesPeer && planned.isDirect)
      releaseUs = std::max(releaseUs, planned.handshakeUs);
  return simulate(steps, comms).stepUs + releaseUs;
}

/// Collectives that are tried the other way, one by one.
static constexpr unsigned kTried = 32;

/// By which share NCCL must make the step shorter, all over it or one
/// collective of it: its kernels keep multiprocessors, it holds hundreds of
/// megabytes, and predictions are no finer.
static constexpr double kNcclGain = 0.005;

/// Takes what makes the shortest step: all over NCCL, all that may be on copy
/// engines, and from the better of the two one after the other; then, of what
/// would be copied, those that are better read where they are.
static void choose(TransportPlan &plan, ArrayRef<unsigned> candidates,
                   StepEstimate &&estimate) {
  auto set = [&](unsigned number, bool usesPeer) {
    plan.collectives[number].usesPeer = usesPeer;
    estimate.update(number);
  };
  plan.ncclStepUs = estimate.getUs();
  for (unsigned number : candidates)
    set(number, true);
  plan.peerStepUs = plan.stepUs = estimate.getUs();
  if (plan.ncclStepUs < (1 - kNcclGain) * plan.peerStepUs) {
    for (unsigned number : candidates)
      set(number, false);
    plan.stepUs = plan.ncclStepUs;
  }
  // The largest ones matter most.
  SmallVector<unsigned> tried(candidates);
  llvm::stable_sort(tried, [&](unsigned a, unsigned b) {
    return plan.collectives[a].bytes > plan.collectives[b].bytes;
  });
  for (unsigned number : ArrayRef(tried).take_front(kTried)) {
    bool usesPeer = plan.collectives[number].usesPeer;
    set(number, !usesPeer);
    double enough = usesPeer ? (1 - kNcclGain) * plan.stepUs : plan.stepUs;
    if (double us = estimate.getUs(); us < enough)
      plan.stepUs = us;
    else
      set(number, usesPeer);
  }
  // The later its reader, the less there is to copy beside.
  for (unsigned number : llvm::reverse(candidates.take_back(kTried))) {
    PlannedCollective &planned = plan.collectives[number];
    if (!planned.usesPeer || !isReadInPlace(planned))
      continue;
    planned.isDirect = true;
    estimate.update(number);
    if (double us = estimate.getUs(); us < plan.stepUs) {
      plan.stepUs = us;
      continue;
    }
    planned.isDirect = false;
    estimate.update(number);
  }
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//

/// Whether a region of the block communicates: what runs in it must not follow
/// from values that look different on each rank (VerifyGraph's G2).
static bool hasCommunicatingRegion(Block &block) {
  for (Operation &op : block)
    for (Region &region : op.getRegions()) {
      // Runs always, and once.
      if (isa<AsyncOp>(op))
        continue;
      WalkResult walked = region.walk(
          [](CommunicationOpInterface) { return WalkResult::interrupt(); });
      if (walked.wasInterrupted())
        return true;
    }
  return false;
}

TransportPlan fusion::planTransports(Block &block, TransportChoice choice,
                                     int64_t memoryLimit,
                                     const FusionLegality &legality,
                                     const CostModel &model) {
  TransportPlan plan;
  CommModel comms(model.getDevice());
  bool isAuto = choice == TransportChoice::Auto;
  if (isAuto && llvm::none_of(comms.getComm().transports, [](auto &entry) {
        return entry.name == stringifyTransport(Transport::Peer);
      }))
    return plan;
  plan.isNamed = true;
  bool isRefused = hasCommunicatingRegion(block);
  RepeatingOps repeating = findRepeating(block);
  SmallVector<unsigned> candidates;
  for (Operation &op : block) {
    auto communication = dyn_cast<CommunicationOpInterface>(op);
    // Twice is once: whoever named a transport has decided.
    if (!communication || !getCommOp(&op) || op.hasAttr(kTransportAttr))
      continue;
    PlannedCollective &planned = plan.collectives.emplace_back();
    planned.op = &op;
    CommGroup group = getCommGroup(communication);
    planned.ranks = group.size;
    for (Value operand : op.getOperands())
      planned.bytes += legality.getByteSize(operand);
    if (isRankReduction(&op))
      planned.extraBytes =
          isa<AllReduceOp>(op)
              ? planned.bytes * (planned.ranks - 1)
              : planned.bytes / planned.ranks * (planned.ranks - 1);
    setTimes(planned, comms, model);
    if (choice == TransportChoice::Nccl)
      continue;
    if (isRankReduction(&op) && isRefused)
      planned.refusal = FusionRule::TransportOrder;
    else
      checkForm(planned, repeating);
    if (isAuto && !planned.refusal &&
        !comms.hasMeasured(group, Transport::Peer))
      planned.refusal = FusionRule::TransportLink;
    if (!planned.refusal)
      candidates.push_back(plan.collectives.size() - 1);
  }
  if (isAuto)
    choose(plan, candidates, StepEstimate(block, plan, legality, model, comms));
  else
    for (unsigned number : candidates) {
      PlannedCollective &planned = plan.collectives[number];
      planned.usesPeer = true;
      planned.isDirect =
          choice == TransportChoice::Direct && isRankReduction(planned.op);
    }
  if (isAuto)
    for (unsigned number : candidates)
      if (PlannedCollective &planned = plan.collectives[number];
          !planned.usesPeer)
        planned.refusal = FusionRule::TransportNccl;
  checkMemory(plan, block,
              memoryLimit ? memoryLimit : model.getDevice().memoryBytes,
              legality);
  return plan;
}
