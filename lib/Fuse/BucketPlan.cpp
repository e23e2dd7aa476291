//===- BucketPlan.cpp - Which gradients share a reduction -----------------===//
//
// Reductions are taken in the order in which their operands are computed and
// added to the open bucket of their key while sizes, readers and time allow.
// Time: the collectives of all keys share one stream. A member is added if the
// last collective would not end later by more than a collective less saves of
// what computation loses beside it.
//
// Sizes, with G bytes of gradients produced at r bytes a microsecond, latency a
// and b microseconds a byte: computation is the bottleneck if b G is less than
// it takes; then a bucket of sqrt(contention a G / b) bytes balances latencies
// that slow the computation against what the last bucket exposes, else
// sqrt(a G r) does; never less than a / (1/r - b), below which the queue grows.
// Multiples of that are tried on the same model.
//
//===----------------------------------------------------------------------===//
#include "BucketPlan.h"
#include "fusion/IR/TensorData.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace fusion;

/// Of a bucket, where the device's file tells nothing of communication.
static constexpr int64_t kDefaultBucketBytes = 25 << 20;

/// Multiples of the closed form's size that are tried, and what share of the
/// cost a larger one must come below.
static constexpr int64_t kMaxTargetFactor = 16;
static constexpr double kNoticeable = 0.999;

/// Of one gradient, whatever size is asked for.
static constexpr int64_t kMaxParts = 1024;

/// Parts of a tensor and members of a bucket start at multiples of this.
static constexpr int64_t kAlignment = 64;

namespace {

/// The reductions of one group of ranks, kind and element type.
struct KeyInfo {
  explicit KeyInfo(CollectiveCost cost) : cost(cost) {}

  CollectiveCost cost;
  int64_t bytes = 0;
  int64_t target = 0;
  /// Bytes of reductions that were not looked at yet.
  int64_t rest = 0;
  unsigned numBuckets = 0; ///< closed ones, of tensors
  int open = -1;
  bool isKnown = false; ///< whether a bucket was opened
};

class BucketPlanner {
public:
  BucketPlanner(Block &block, const BucketLimits &limits,
                const FusionLegality &legality, const CostModel &model)
      : block(block), limits(limits), legality(legality), model(model),
        comm(model.getDevice()), contention(comm.getComm().slowdownCompute) {}

  BucketPlan run();

private:
  void numberOps();
  void findPaths();
  void collect();
  void joinSums();
  void addReduction(Operation *op, unsigned segmentStart);
  unsigned findKey(Operation *op, unsigned segmentStart);
  void chooseTargets();
  void splitLarge();
  void computeSuffixes();
  void assign(unsigned index);
  bool fits(unsigned index, GradientBucket &bucket, BucketRefusal &refusal);
  void close(KeyInfo &key);
  void finish();
  void planWithTargets();
  double getCostUs() const;

  Block &block;
  const BucketLimits &limits;
  const FusionLegality &legality;
  const CostModel &model;
  CommModel comm;
  double contention;
  BucketPlan plan;
  llvm::DenseMap<Operation *, unsigned> numberOf;
  /// When op number n ends if all ran one after the other.
  SmallVector<double, 0> clockUs;
  /// By number: a reduction of a tensor is computed from the op's results.
  SmallVector<bool, 0> feeds;
  /// By number: first op of the stretch without barriers that it stands in.
  llvm::MapVector<
      std::tuple<OperationName, Attribute, Type, Attribute, unsigned>, unsigned>
      keys;
  SmallVector<KeyInfo, 0> keyInfo;
  /// By reduction: transfer of it and all later ones, bytes of these, and the
  /// earliest moment at which the last can end for what is ready from it on.
  SmallVector<double, 0> restUs, endUs;
  SmallVector<int64_t, 0> restBytes;
  double freeUs = 0; ///< when the stream of collectives is
};

} // namespace

/// A reduction of one tensor over ranks that is in no bucket yet.
static bool isCandidate(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp>(op) && op->getNumOperands() == 1 &&
         !op->hasAttr(kBucketAttr);
}

static RankedTensorType getInputType(Operation *op) {
  return cast<RankedTensorType>(op->getOperand(0).getType());
}

/// Whether it is one, or was before it went into a bucket.
static bool reducesTensors(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp>(op) &&
         llvm::any_of(op->getOperandTypes(), [](Type type) {
           return cast<RankedTensorType>(type).getRank() > 0;
         });
}

/// Whether a bucket holds more than numbers, such as a loss.
static bool hasTensor(const BucketPlan &plan, const GradientBucket &bucket) {
  return llvm::any_of(bucket.members, [&](unsigned member) {
    return getInputType(plan.reductions[member].op).getRank() > 0;
  });
}

void BucketPlanner::numberOps() {
  clockUs.push_back(0);
  double now = 0;
  const DeviceModel &device = model.getDevice();
  auto escapes = [](Operation *) { return true; };
  for (Operation &op : block) {
    plan.ops.push_back(&op);
    numberOf[&op] = plan.ops.size();
    OpFamily family = getOpFamily(&op);
    if (auto group = dyn_cast<GroupOp>(op))
      now += model.getMicroseconds(computeKernelWork(group, legality, device));
    else if (family != OpFamily::Source && family != OpFamily::View &&
             family != OpFamily::Outside)
      now += model.getMicroseconds(
          computeKernelWork({&op}, escapes, legality, device));
    clockUs.push_back(now);
  }
}

void BucketPlanner::findPaths() {
  feeds.assign(plan.ops.size() + 1, false);
  for (unsigned number = plan.ops.size(); number > 0; --number) {
    auto leads = [&](Operation *user) {
      user = block.findAncestorOpInBlock(*user);
      if (!user)
        return false;
      return feeds[numberOf.lookup(user)] || reducesTensors(user);
    };
    feeds[number] = llvm::any_of(plan.ops[number - 1]->getUsers(), leads);
  }
}

unsigned BucketPlanner::findKey(Operation *op, unsigned segmentStart) {
  RankedTensorType type = getInputType(op);
  auto [it, isNew] = keys.try_emplace({op->getName(), op->getAttrDictionary(),
                                       type.getElementType(),
                                       type.getEncoding(), segmentStart},
                                      keyInfo.size());
  if (isNew)
    keyInfo.emplace_back(CollectiveCost(op, comm));
  return it->second;
}

void BucketPlanner::addReduction(Operation *op, unsigned segmentStart) {
  if (!getInputType(op).hasStaticShape()) {
    plan.refusals.push_back({op, FusionRule::BucketShape});
    return;
  }
  bool isOnPath = false;
  unsigned last = plan.ops.size();
  GradientReduction reduction{op};
  // A reader that is a reduction itself may move up to what it reads.
  reduction.reader = last;
  for (Operation *user : op->getUsers()) {
    user = block.findAncestorOpInBlock(*user);
    if (!user)
      continue;
    // From its results another reduction follows: the sums of tensors that are
    // split over ranks, which computation waits for.
    isOnPath |= !isCandidate(user) && !reducesTensors(user) &&
                feeds[numberOf.lookup(user)];
    unsigned at = numberOf.lookup(isCandidate(user) ? op : user);
    reduction.reader = std::min(reduction.reader, at);
  }
  Operation *producer = op->getOperand(0).getDefiningOp();
  reduction.ready =
      std::max(producer ? numberOf.lookup(producer) : 0, segmentStart);
  reduction.readyUs = clockUs[reduction.ready];
  reduction.bytes = legality.getByteSize(op->getOperand(0));
  reduction.key = findKey(op, segmentStart);
  if (isOnPath) {
    plan.sums.push_back(reduction);
    return;
  }
  keyInfo[reduction.key].bytes += reduction.bytes;
  plan.reductions.push_back(reduction);
}

/// Computation waits for these: they go together where the first would still be
/// on its way when the next one is ready.
void BucketPlanner::joinSums() {
  for (unsigned i = 0; i < plan.sums.size(); ++i) {
    const GradientReduction &sum = plan.sums[i];
    GradientBucket *open =
        plan.sumBuckets.empty() ? nullptr : &plan.sumBuckets.back();
    if (!open || open->key != sum.key || open->reader <= sum.ready ||
        sum.readyUs >
            open->readyUs + keyInfo[sum.key].cost.getUs(open->bytes)) {
      open = &plan.sumBuckets.emplace_back();
      open->key = sum.key;
      open->reader = sum.reader;
    }
    open->members.push_back(i);
    open->bytes += sum.bytes;
    open->place = sum.ready;
    open->reader = std::min(open->reader, sum.reader);
    open->readyUs = sum.readyUs;
  }
  llvm::erase_if(plan.sumBuckets, [&](const GradientBucket &bucket) {
    if (bucket.members.size() > 1)
      return false;
    plan.refusals.push_back(
        {plan.sums[bucket.members.front()].op, FusionRule::BucketPath});
    return true;
  });
}

void BucketPlanner::collect() {
  unsigned segmentStart = 0;
  for (auto [i, op] : llvm::enumerate(plan.ops)) {
    if (isScheduleBarrier(op))
      segmentStart = i + 1;
    else if (isCandidate(op))
      addReduction(op, segmentStart);
  }
  for (auto *list : {&plan.reductions, &plan.sums})
    llvm::sort(*list, [&](auto &a, auto &b) {
      return std::pair(a.ready, numberOf.lookup(a.op)) <
             std::pair(b.ready, numberOf.lookup(b.op));
    });
  joinSums();
  if (!plan.reductions.empty())
    plan.computeUs = plan.reductions.back().readyUs;
}

void BucketPlanner::chooseTargets() {
  bool isKnown = model.getDevice().comm.has_value();
  double window = plan.reductions.empty()
                      ? 0
                      : plan.computeUs - plan.reductions.front().readyUs;
  for (KeyInfo &key : keyInfo) {
    key.target =
        limits.bucketBytes > 0 ? limits.bucketBytes : kDefaultBucketBytes;
    if (limits.bucketBytes > 0 || !isKnown || key.cost.usPerByte <= 0 ||
        window <= 0)
      continue;
    double bytes = static_cast<double>(key.bytes), rate = bytes / window;
    const CollectiveCost &cost = key.cost;
    double best = bytes * cost.usPerByte < window
                      ? std::max(std::sqrt(contention * cost.latencyUs * bytes /
                                           cost.usPerByte),
                                 cost.latencyUs / (1 / rate - cost.usPerByte))
                      : std::sqrt(cost.latencyUs * bytes * rate);
    // More than all of it is one bucket.
    best = std::max(best, static_cast<double>(limits.firstBytes));
    key.target = static_cast<int64_t>(
        std::clamp(best, double(kAlignment), std::max(bytes, 64.0)));
  }
}

/// Replaces gradients above the size of a bucket by their parts.
void BucketPlanner::splitLarge() {
  SmallVector<GradientReduction, 0> whole;
  std::swap(whole, plan.reductions);
  for (const GradientReduction &reduction : whole) {
    int64_t target = keyInfo[reduction.key].target;
    if (reduction.bytes <= target) {
      plan.reductions.push_back(reduction);
      continue;
    }
    RankedTensorType type = getInputType(reduction.op);
    int64_t width = getElementBytes(type.getElementType());
    int64_t step = kAlignment / std::gcd(kAlignment, width);
    int64_t parts =
        std::min<int64_t>(llvm::divideCeil(reduction.bytes, target), kMaxParts);
    int64_t each =
        llvm::alignTo(llvm::divideCeil(type.getNumElements(), parts), step);
    // Ranks keep parts of a scattered tensor, which cuts would take apart.
    if (!isa<AllReduceOp>(reduction.op) || each >= type.getNumElements()) {
      plan.reductions.push_back(reduction);
      plan.refusals.push_back({reduction.op, FusionRule::BucketShape, nullptr,
                               reduction.bytes, target});
      continue;
    }
    for (int64_t begin = 0; begin < type.getNumElements(); begin += each) {
      GradientReduction part = reduction;
      part.begin = begin;
      part.end = std::min(begin + each, type.getNumElements());
      part.bytes = (part.end - begin) * width;
      plan.reductions.push_back(part);
    }
  }
}

void BucketPlanner::computeSuffixes() {
  size_t count = plan.reductions.size();
  restUs.assign(count + 1, 0);
  endUs.assign(count + 1, 0);
  restBytes.assign(count + 1, 0);
  for (size_t i = count; i-- > 0;) {
    const GradientReduction &reduction = plan.reductions[i];
    const CollectiveCost &cost = keyInfo[reduction.key].cost;
    double ownUs = cost.getUs(reduction.bytes);
    restUs[i] = restUs[i + 1] + cost.usPerByte * reduction.bytes;
    restBytes[i] = restBytes[i + 1] + reduction.bytes;
    endUs[i] =
        std::max(endUs[i + 1], reduction.readyUs + ownUs + restUs[i + 1]);
    keyInfo[reduction.key].rest += reduction.bytes;
  }
}

bool BucketPlanner::fits(unsigned index, GradientBucket &bucket,
                         BucketRefusal &refusal) {
  const GradientReduction &reduction = plan.reductions[index];
  KeyInfo &key = keyInfo[reduction.key];
  refusal = {reduction.op, FusionRule::BucketReader,
             plan.reductions[bucket.members.back()].op};
  // Read before: the bucket would come too late for that.
  if (bucket.reader <= reduction.ready)
    return false;
  // Doubles from the first one on, and halves what is left at the end.
  double grown =
      std::ldexp(static_cast<double>(std::max<int64_t>(limits.firstBytes, 1)),
                 std::min(key.numBuckets, 60u));
  int64_t size =
      std::min(static_cast<int64_t>(std::min(grown, 1e18)), key.target);
  if (limits.tailBytes > 0)
    size = std::min(size,
                    std::max(limits.tailBytes, (key.rest + bucket.bytes) / 2));
  if (bucket.bytes > size - reduction.bytes) {
    refusal.rule = FusionRule::BucketBytes;
    refusal.value = bucket.bytes + reduction.bytes;
    refusal.limit = size;
    return false;
  }
  const CollectiveCost &cost = key.cost;
  double rest =
      restUs[index + 1] +
      cost.latencyUs * std::ceil(static_cast<double>(restBytes[index + 1]) /
                                 static_cast<double>(key.target));
  double first = std::max(freeUs, bucket.readyUs) + cost.getUs(bucket.bytes);
  double apart =
      std::max(endUs[index + 1], std::max(first, reduction.readyUs) +
                                     cost.getUs(reduction.bytes) + rest);
  double joined = std::max(
      endUs[index + 1], std::max(freeUs, reduction.readyUs) +
                            cost.getUs(bucket.bytes + reduction.bytes) + rest);
  double gain = contention * cost.latencyUs;
  if (joined > apart + gain) {
    refusal.rule = FusionRule::BucketDelay;
    refusal.value = std::llround(1000 * (joined - apart));
    refusal.limit = std::llround(1000 * gain);
    return false;
  }
  return true;
}

void BucketPlanner::close(KeyInfo &key) {
  GradientBucket &bucket = plan.buckets[key.open];
  freeUs = std::max(freeUs, bucket.readyUs) + key.cost.getUs(bucket.bytes);
  key.open = -1;
  key.numBuckets += hasTensor(plan, bucket);
}

void BucketPlanner::assign(unsigned index) {
  const GradientReduction &reduction = plan.reductions[index];
  KeyInfo &key = keyInfo[reduction.key];
  if (key.open >= 0) {
    BucketRefusal refusal;
    if (!fits(index, plan.buckets[key.open], refusal)) {
      close(key);
      plan.refusals.push_back(refusal);
    }
  }
  if (key.open < 0) {
    if (!key.isKnown && index > 0)
      plan.refusals.push_back(
          {reduction.op, FusionRule::BucketKey, plan.reductions[index - 1].op});
    key.isKnown = true;
    key.open = plan.buckets.size();
    GradientBucket &bucket = plan.buckets.emplace_back();
    bucket.key = reduction.key;
    bucket.reader = reduction.reader;
  }
  GradientBucket &bucket = plan.buckets[key.open];
  bucket.members.push_back(index);
  bucket.bytes += reduction.bytes;
  bucket.place = reduction.ready;
  bucket.reader = std::min(bucket.reader, reduction.reader);
  bucket.readyUs = reduction.readyUs;
  key.rest -= reduction.bytes;
}

/// Orders the buckets and says when each runs.
void BucketPlanner::finish() {
  llvm::sort(plan.buckets, [](auto &a, auto &b) {
    return a.members.back() < b.members.back();
  });
  int64_t number = 0;
  for (Operation *op : plan.ops)
    if (auto known = op->getAttrOfType<IntegerAttr>(kBucketAttr))
      number = std::max(number, known.getInt() + 1);
  for (GradientBucket &bucket : plan.sumBuckets)
    bucket.number = number++;
  double now = 0;
  for (GradientBucket &bucket : plan.buckets) {
    if (hasTensor(plan, bucket))
      bucket.number = number++;
    bucket.startUs = std::max(now, bucket.readyUs);
    now = bucket.endUs =
        bucket.startUs + keyInfo[bucket.key].cost.getUs(bucket.bytes);
    bucket.exposedUs =
        std::max(0.0, bucket.endUs - std::max(bucket.startUs, plan.computeUs));
  }
  for (const KeyInfo &key : keyInfo)
    plan.targetBytes.push_back(key.target);
}

/// Plans with the targets of the keys.
void BucketPlanner::planWithTargets() {
  freeUs = 0;
  splitLarge();
  computeSuffixes();
  for (unsigned i = 0; i < plan.reductions.size(); ++i)
    assign(i);
  finish();
}

/// What communication costs: computation slowed beside it, and what follows it.
double BucketPlanner::getCostUs() const {
  double cost = 0;
  for (const GradientBucket &bucket : plan.buckets)
    cost += contention * (bucket.endUs - bucket.startUs);
  if (!plan.buckets.empty())
    cost += std::max(0.0, plan.buckets.back().endUs - plan.computeUs);
  return cost;
}

BucketPlan BucketPlanner::run() {
  numberOps();
  findPaths();
  collect();
  chooseTargets();
  // The closed form has the last bucket as large as all. As the last ones are
  // small, larger ones before may be better: a few are tried.
  BucketPlan unplanned = plan, best;
  SmallVector<KeyInfo, 0> unplannedKeys = keyInfo;
  double bestUs = INFINITY;
  bool isOpen = limits.bucketBytes <= 0 && model.getDevice().comm.has_value();
  for (int64_t factor = 1; factor <= (isOpen ? kMaxTargetFactor : 1);
       factor *= 2) {
    plan = unplanned;
    keyInfo = unplannedKeys;
    for (KeyInfo &key : keyInfo)
      key.target = std::max(key.target, key.target > key.bytes / factor
                                            ? key.bytes
                                            : key.target * factor);
    planWithTargets();
    if (double us = getCostUs(); us < kNoticeable * bestUs) {
      bestUs = us;
      best = plan;
    }
  }
  return best;
}

BucketPlan fusion::planBuckets(Block &block, const BucketLimits &limits,
                               const FusionLegality &legality,
                               const CostModel &model) {
  return BucketPlanner(block, limits, legality, model).run();
}

void BucketPlan::print(llvm::raw_ostream &os) const {
  for (const GradientBucket &bucket : buckets)
    os << "bucket of " << bucket.members.size() << " reductions, "
       << bucket.bytes << " bytes, behind op " << bucket.place << '\n';
  for (const BucketRefusal &refusal : refusals)
    os << getFusionRuleInfo(refusal.rule).id << ": " << *refusal.op << '\n';
}
