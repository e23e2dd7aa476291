//===- Timeline.cpp - Streams that share a device and its links -----------===//
//
// A fluid simulation: between two events (a step starts or ends) every active
// step goes on at one rate. Linear in the steps, times the number of streams.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CommModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace fusion;

llvm::StringRef fusion::describeCause(ExposureCause cause) {
  switch (cause) {
  case ExposureCause::OnComputeStream:
    return "a command of the compute stream";
  case ExposureCause::NothingLeft:
    return "nothing is left to compute";
  case ExposureCause::Queued:
    return "it started behind other collectives";
  case ExposureCause::Shared:
    return "it shares its link";
  case ExposureCause::NothingToHide:
    return "it started when its operands were ready";
  }
  return "";
}

namespace {

class Simulation {
public:
  Simulation(llvm::ArrayRef<TimedStep> steps, const CommModel &model);
  Timeline run();

private:
  static constexpr int64_t kNone = -1;

  struct Stream {
    std::vector<unsigned> steps;
    size_t next = 0;        ///< the first that has not started
    int64_t active = kNone; ///< running
    double left = 0;        ///< of the active one, microseconds alone
    double rate = 1;
  };

  bool isReady(unsigned step) const;
  /// Starts what can start, and ends what takes no time.
  void startSteps();
  void finish(Stream &stream);
  void setRates();
  /// Records that nothing is computed until `end`.
  void expose(double end);
  ExposureCause findCause(unsigned comm) const;

  llvm::ArrayRef<TimedStep> steps;
  const CommModel &model;
  std::vector<Stream> streams;
  std::vector<bool> done;
  Timeline result;
  double now = 0;
};

} // namespace

Simulation::Simulation(llvm::ArrayRef<TimedStep> steps, const CommModel &model)
    : steps(steps), model(model), done(steps.size(), false) {
  streams.resize(1);
  for (auto [i, step] : llvm::enumerate(steps)) {
    if (step.stream >= streams.size())
      streams.resize(step.stream + 1);
    streams[step.stream].steps.push_back(i);
    (step.isComm ? result.commUs : result.computeUs) += step.us;
  }
  result.spans.resize(steps.size());
}

bool Simulation::isReady(unsigned step) const {
  return llvm::all_of(steps[step].waits, [&](unsigned other) {
    return other >= step || done[other];
  });
}

void Simulation::finish(Stream &stream) {
  done[stream.active] = true;
  result.spans[stream.active].endUs = now;
  stream.active = kNone;
}

void Simulation::startSteps() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (Stream &stream : streams) {
      if (stream.active != kNone || stream.next == stream.steps.size() ||
          !isReady(stream.steps[stream.next]))
        continue;
      stream.active = stream.steps[stream.next++];
      stream.left = steps[stream.active].us;
      result.spans[stream.active].beginUs = now;
      moved = true;
      if (stream.left <= 0)
        finish(stream);
    }
  }
}

void Simulation::setRates() {
  auto kernels =
      static_cast<double>(llvm::count_if(streams, [&](const Stream &stream) {
        return stream.active != kNone && !steps[stream.active].isComm;
      }));
  bool computes = kernels > 0;
  // What collectives cost a kernel: the most, where several run.
  bool communicates = false, isOwn = false;
  double slowdown = 0;
  for (const Stream &stream : streams) {
    if (stream.active == kNone || !steps[stream.active].isComm)
      continue;
    communicates = true;
    isOwn |= steps[stream.active].slowdownOfKernels < 0;
    slowdown = std::max(slowdown, steps[stream.active].slowdownOfKernels);
  }
  // Kernels of all streams, and collectives on the wires that kernels use.
  double kernelShares = std::max(kernels, 1.0);
  for (Stream &stream : streams) {
    if (stream.active == kNone || !steps[stream.active].isComm)
      continue;
    unsigned link = steps[stream.active].link;
    double shares = llvm::count_if(streams, [&](const Stream &other) {
      return other.active != kNone && steps[other.active].isComm &&
             model.areShared(link, steps[other.active].link);
    });
    if (model.isSharedWithCompute(link)) {
      shares += computes;
      kernelShares += 1;
    }
    double own = steps[stream.active].slowdownOfComm;
    if (own < 0)
      own = model.getComm().slowdownComm;
    stream.rate = 1 / (shares * (1 + (computes ? own : 0)));
  }
  for (Stream &stream : streams)
    if (stream.active != kNone && !steps[stream.active].isComm)
      stream.rate =
          1 / (kernelShares *
               (!communicates
                    ? 1
                    : 1 + std::max(slowdown,
                                   isOwn ? steps[stream.active].slowdown : 0)));
}

ExposureCause Simulation::findCause(unsigned comm) const {
  const TimedStep &step = steps[comm];
  if (streams[step.stream].active != int64_t(comm))
    return ExposureCause::Queued;
  double ready = 0;
  for (unsigned other : step.waits)
    if (other < comm)
      ready = std::max(ready, result.spans[other].endUs);
  if (result.spans[comm].beginUs > ready * (1 + 1e-9))
    return ExposureCause::Queued;
  bool isShared = llvm::any_of(streams, [&](const Stream &other) {
    return other.active != kNone && other.active != int64_t(comm) &&
           steps[other.active].isComm &&
           model.areShared(step.link, steps[other.active].link);
  });
  return isShared ? ExposureCause::Shared : ExposureCause::NothingToHide;
}

void Simulation::expose(double end) {
  const Stream &main = streams.front();
  Exposure exposure;
  exposure.beginUs = now;
  exposure.endUs = end;
  // A collective that runs, for want of a better one.
  int64_t running = kNone;
  for (const Stream &stream : streams)
    if (stream.active != kNone && steps[stream.active].isComm) {
      running = stream.active;
      break;
    }
  assert(running != kNone && "something runs, and no kernel does");
  exposure.comm = running;
  if (main.active != kNone) {
    exposure.comm = exposure.waiter = main.active;
    exposure.cause = ExposureCause::OnComputeStream;
  } else if (main.next < main.steps.size()) {
    exposure.waiter = main.steps[main.next];
    // Of what it waits for, the first that is a collective, or waits for one.
    for (unsigned other : steps[exposure.waiter].waits)
      if (!done[other]) {
        if (steps[other].isComm)
          exposure.comm = other;
        break;
      }
    exposure.cause = findCause(exposure.comm);
  }
  result.exposedUs += end - now;
  if (!result.exposures.empty()) {
    Exposure &last = result.exposures.back();
    if (last.endUs == now && last.cause == exposure.cause &&
        last.comm == exposure.comm && last.waiter == exposure.waiter) {
      last.endUs = end;
      return;
    }
  }
  result.exposures.push_back(exposure);
}

Timeline Simulation::run() {
  while (true) {
    startSteps();
    setRates();
    double after = INFINITY;
    for (const Stream &stream : streams)
      if (stream.active != kNone)
        after = std::min(after, stream.left / stream.rate);
    if (after == INFINITY)
      break;
    bool computes = llvm::any_of(streams, [&](const Stream &stream) {
      return stream.active != kNone && !steps[stream.active].isComm;
    });
    if (!computes)
      expose(now + after);
    double end = now + after;
    for (Stream &stream : streams)
      if (stream.active != kNone)
        stream.left -= after * stream.rate;
    now = end;
    for (Stream &stream : streams)
      if (stream.active != kNone &&
          stream.left <= 1e-9 * (1 + steps[stream.active].us))
        finish(stream);
  }
  result.stepUs = now;
  return std::move(result);
}

Timeline fusion::simulate(llvm::ArrayRef<TimedStep> steps,
                          const CommModel &model) {
  return Simulation(steps, model).run();
}

void Timeline::print(llvm::raw_ostream &os, llvm::ArrayRef<TimedStep> steps,
                     unsigned most) const {
  os << llvm::format("step %.1f us: computation %.1f, communication %.1f, "
                     "exposed %.1f (%.1f %%)\n",
                     stepUs, computeUs, commUs, exposedUs,
                     stepUs > 0 ? 100 * exposedUs / stepUs : 0.0);
  std::vector<const Exposure *> order;
  for (const Exposure &exposure : exposures)
    order.push_back(&exposure);
  std::stable_sort(order.begin(), order.end(),
                   [](const Exposure *a, const Exposure *b) {
                     return a->endUs - a->beginUs > b->endUs - b->beginUs;
                   });
  double rest = 0;
  for (auto [i, exposure] : llvm::enumerate(order)) {
    double us = exposure->endUs - exposure->beginUs;
    if (i >= most) {
      rest += us;
      continue;
    }
    os << llvm::format("  exposed %.1f us at %.1f: ", us, exposure->beginUs);
    if (exposure->waiter >= 0 && unsigned(exposure->waiter) != exposure->comm)
      os << steps[exposure->waiter].name << " waits for ";
    os << steps[exposure->comm].name << ": " << describeCause(exposure->cause)
       << '\n';
  }
  if (order.size() > most)
    os << llvm::format("  exposed %.1f us in %u shorter intervals\n", rest,
                       unsigned(order.size() - most));
}
