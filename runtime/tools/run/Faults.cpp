//===- Faults.cpp - Failures on purpose -----------------------------------===//
#include "Faults.h"
#include "Checked.h"
#include "RankLink.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <unistd.h>

using namespace fusion::rt;

const char *fusion::rt::faultsText() {
  return "kill, stop, segv, abort, throw, exit, skip, hang, cut, slow, link, "
         "fail, "
         "lost, count, async, deaf, start-hang, load-hang, load-fail, "
         "end-kill, end-hang, exit-linger, "
         "module, schedule, runtime, device, ranks, rank";
}

bool fusion::rt::parseFault(const std::string &text, Fault &fault) {
  char *end = nullptr;
  size_t first = text.find(':');
  if (first == std::string::npos || first == 0)
    return false;
  fault.rank = uint32_t(std::strtoul(text.c_str(), &end, 10));
  if (text.compare(0, first, "all") == 0)
    fault.rank = Fault::kAll;
  else if (*end != ':' || end != text.c_str() + first)
    return false;
  fault.kind = text.substr(first + 1);
  size_t colon = fault.kind.find(':');
  if (colon != std::string::npos) {
    fault.number = std::strtoull(&fault.kind[colon + 1], &end, 10);
    if (*end || fault.number == 0)
      return false;
    fault.kind.resize(colon);
  }
  std::string all = std::string(" ") + faultsText() + ",";
  return !fault.kind.empty() &&
         all.find(" " + fault.kind + ",") != std::string::npos;
}

[[noreturn]] static void hang() {
  while (true)
    pause();
}

/// Faults that end or stop a process wherever it is.
static void strike(const std::string &kind, RankLink *link) {
  if (kind == "kill")
    raise(SIGKILL);
  if (kind == "stop")
    raise(SIGSTOP);
  if (kind == "segv") {
    std::signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (kind == "abort")
    std::abort();
  if (kind == "throw")
    throw std::runtime_error("a fault was injected");
  if (kind == "exit")
    _exit(0);
  if (kind == "hang")
    hang();
  if (kind == "cut" && link)
    link->cut();
  // As a process whose memory takes long to give back.
  if (kind == "linger" && link) {
    link->cut();
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
}

void fusion::rt::injectAt(Stage stage, const std::vector<Fault> &faults,
                          uint32_t rank, RankLink *link) {
  for (const Fault &fault : faults) {
    if (fault.rank != rank && fault.rank != Fault::kAll)
      continue;
    const char *prefix = stage == Stage::Start  ? "start-"
                         : stage == Stage::Load ? "load-"
                         : stage == Stage::End  ? "end-"
                                                : "exit-";
    size_t length = std::strlen(prefix);
    if (fault.kind.compare(0, length, prefix) == 0)
      strike(fault.kind.substr(length), link);
  }
}

bool fusion::rt::isDeaf(const std::vector<Fault> &faults, uint32_t rank) {
  for (const Fault &fault : faults)
    if ((fault.rank == rank || fault.rank == Fault::kAll) &&
        fault.kind == "deaf")
      return true;
  return false;
}

void fusion::rt::injectIdentity(const std::vector<Fault> &faults, uint32_t rank,
                                Identity &identity) {
  for (const Fault &fault : faults)
    for (auto &[key, value] : identity)
      if (fault.kind == key && (fault.rank == rank || key == "device"))
        value = key == "rank" || key == "ranks" ? std::to_string(fault.number)
                                                : "injected";
}

namespace {

class FaultyCommunicator final : public Communicator {
public:
  FaultyCommunicator(std::vector<Fault> faults,
                     std::shared_ptr<Communicator> inner, RankLink *link)
      : faults(std::move(faults)), inner(std::move(inner)), link(link) {}

  uint32_t rank() const override { return inner->rank(); }
  uint32_t size() const override { return inner->size(); }
  Counts counts() const override { return inner->counts(); }
  Status connect(const std::vector<Group> &groups) override {
    for (const Fault &fault : faults)
      if (fault.kind == "load-fail")
        return Status(Code::Environment,
                      "the communicator did not start (injected)");
    return inner->connect(groups);
  }

  Status run(const CollectiveRun &run) override {
    uint64_t number = ++done;
    for (const Fault &fault : faults) {
      if (fault.kind == "slow")
        usleep(useconds_t(fault.number * 1000));
      if (fault.number != number)
        continue;
      if (fault.kind == "skip")
        return {};
      if (fault.kind == "fail")
        return Status(Code::Environment, "the library failed (injected)");
      if (fault.kind == "lost")
        return Status(Code::PeerFailed, "a remote error (injected)");
      if (fault.kind == "async") {
        (void)link->report(Status(Code::Environment,
                                  "an error beside a collective (injected)"));
        hang();
      }
      if (fault.kind == "count") {
        CollectiveRun other = run;
        for (PartBuffer &part : other.parts)
          if (part.shape.empty())
            part.shape = {0};
          else if (part.shape[0] > 0)
            --part.shape[0];
        return inner->run(other);
      }
      strike(fault.kind, link);
    }
    double began = monotonicSeconds();
    Status status = inner->run(run);
    // A network of so many megabytes a second, which takes no CPU.
    for (const Fault &fault : faults)
      if (fault.kind == "link")
        if (double left = began + bytesOf(run) * 1e-6 / double(fault.number) -
                          monotonicSeconds();
            left > 0)
          usleep(useconds_t(left * 1e6));
    return status;
  }

private:
  static double bytesOf(const CollectiveRun &run) {
    double sum = 0;
    for (const PartBuffer &part : run.parts) {
      double size = double(elementSize(part.dtype));
      for (int64_t dim : part.shape)
        size *= double(dim);
      sum += size;
    }
    return sum;
  }

  std::vector<Fault> faults;
  std::shared_ptr<Communicator> inner;
  RankLink *link;
  std::atomic<uint64_t> done{0};
};

} // namespace

namespace {

class FaultyDeviceCommunicator final : public DeviceCommunicator {
public:
  FaultyDeviceCommunicator(std::vector<Fault> faults,
                           std::shared_ptr<DeviceCommunicator> inner,
                           RankLink *link)
      : faults(std::move(faults)), inner(std::move(inner)), link(link) {}

  uint32_t rank() const override { return inner->rank(); }
  uint32_t size() const override { return inner->size(); }
  uint64_t bytes() const override { return inner->bytes(); }
  Status poll() override { return inner->poll(); }
  void abort() override { inner->abort(); }
  std::vector<Counts> counts() const override { return inner->counts(); }
  std::vector<std::string> notes() const override { return inner->notes(); }
  Status connect(const DeviceSetup &setup) override {
    for (const Fault &fault : faults)
      if (fault.kind == "load-fail")
        return Status(Code::Environment,
                      "the communicator did not start (injected)");
    return inner->connect(setup);
  }
  Status enqueue(const CollectiveRun &run, cuda::CUstream stream) override {
    uint64_t number = ++done;
    for (const Fault &fault : faults) {
      if (fault.number != number)
        continue;
      if (fault.kind == "fail")
        return Status(Code::Environment, "the library failed (injected)");
      if (fault.kind == "lost")
        return Status(Code::PeerFailed, "a remote error (injected)");
      strike(fault.kind, link);
    }
    return inner->enqueue(run, stream);
  }

  const char *directSource(const CollectiveRun &run, size_t part,
                           uint64_t offset, uint64_t size) const override {
    return inner->directSource(run, part, offset, size);
  }

private:
  std::vector<Fault> faults;
  std::shared_ptr<DeviceCommunicator> inner;
  RankLink *link;
  uint64_t done = 0;
};

/// `communicator`, as `Faulty` makes it if its rank has faults.
template <typename Faulty, typename Kind>
std::shared_ptr<Kind> withFaults(const std::vector<Fault> &faults,
                                 std::shared_ptr<Kind> communicator,
                                 RankLink *link) {
  std::vector<Fault> own;
  for (const Fault &fault : faults)
    if (fault.rank == communicator->rank() || fault.rank == Fault::kAll)
      own.push_back(fault);
  if (own.empty())
    return communicator;
  return std::make_shared<Faulty>(std::move(own), std::move(communicator),
                                  link);
}

} // namespace

std::shared_ptr<Communicator>
fusion::rt::injectFaults(const std::vector<Fault> &faults,
                         std::shared_ptr<Communicator> communicator,
                         RankLink *link) {
  return withFaults<FaultyCommunicator>(faults, std::move(communicator), link);
}

std::shared_ptr<DeviceCommunicator>
fusion::rt::injectFaults(const std::vector<Fault> &faults,
                         std::shared_ptr<DeviceCommunicator> communicator,
                         RankLink *link) {
  return withFaults<FaultyDeviceCommunicator>(faults, std::move(communicator),
                                              link);
}
