//===- Communicator.cpp - What all communicators share --------------------===//
#include "Communicator.h"
#include "Checked.h"
#include "Mesh.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>

using namespace fusion::rt;

const char *fusion::rt::collectiveName(CollectiveOp op) {
  static const char *const names[] = {
      "all_reduce",           "all_gather",
      "reduce_scatter",       "all_to_all",
      "collective_broadcast", "collective_permute",
      "axis_index",           "release"};
  return names[uint8_t(op)];
}

std::vector<Group> fusion::rt::groupsOf(const Program &program, uint32_t rank) {
  std::vector<Group> groups;
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, size_t> known;
  for (const Command &command : program.commands) {
    if (command.kind != CommandKind::Collective ||
        command.collective.op == CollectiveOp::AxisIndex)
      continue;
    const std::vector<uint32_t> &axes = command.collective.axes;
    if (!known.try_emplace({command.stream, axes}, groups.size()).second)
      continue;
    Group group;
    group.axes = axes;
    group.stream = command.stream;
    group.ranks = groupOf(program.mesh, axes, rank);
    group.position = positionOn(program.mesh, axes, rank);
    group.name = std::to_string(groups.size()) + "." +
                 std::to_string(
                     *std::min_element(group.ranks.begin(), group.ranks.end()));
    groups.push_back(std::move(group));
  }
  return groups;
}

size_t fusion::rt::groupIndex(const std::vector<Group> &groups,
                              const Command &command) {
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i].stream == command.stream &&
        groups[i].axes == command.collective.axes)
      return i;
  return groups.size();
}

/// The folder of the program or library that this code is in.
static std::string ownFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&ownFolder), &info) || !info.dli_fname)
    return {};
  std::string path = info.dli_fname;
  if (path.find('/') == std::string::npos)
    path = "/proc/self/exe";
  char *real = realpath(path.c_str(), nullptr);
  if (!real)
    return {};
  path = real;
  free(real);
  return path.substr(0, path.rfind('/'));
}

Expected<std::shared_ptr<TransportFactory>>
fusion::rt::openTransports(const std::string &address) {
  const char *name = "libfusion-gloo.so";
  std::string folder = ownFolder(), reason;
  void *library = nullptr;
  for (const char *place : {"/../lib/", "/"}) {
    if (folder.empty())
      break;
    library = dlopen((folder + place + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library)
      break;
    // A library that is there and lacks Gloo says more than one that is not.
    std::string text = dlerror();
    if (reason.empty() || text.find("libgloo") != std::string::npos)
      reason = text;
  }
  if (!library)
    return Status(Code::Environment, "ranks need " + std::string(name) +
                                         " and Gloo, beside this "
                                         "program: " +
                                         reason +
                                         "; install the package 'libgloo0'");
  auto *make = reinterpret_cast<MakeTransportFactory *>(
      dlsym(library, kMakeTransportFactory));
  char error[512] = "it has another version";
  TransportFactory *factory =
      make ? make(address.c_str(), error, sizeof(error)) : nullptr;
  if (!factory)
    return Status(Code::Environment, std::string(name) + ": " + error);
  return std::shared_ptr<TransportFactory>(factory);
}

namespace {

class NullCommunicator final : public Communicator {
public:
  NullCommunicator(uint32_t rank, uint32_t size) : ownRank(rank), ranks(size) {}
  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const std::vector<Group> &list) override {
    groups = list;
    return {};
  }
  Status run(const CollectiveRun &run) override;
  Counts counts() const override { return {done, 0}; }

private:
  uint32_t ownRank, ranks;
  std::vector<Group> groups;
  std::atomic<uint64_t> done{0};
};

} // namespace

Status NullCommunicator::run(const CollectiveRun &run) {
  ++done;
  size_t members = groups[run.group].ranks.size();
  for (const PartBuffer &part : run.parts) {
    if (part.output == part.input)
      continue;
    uint64_t size = elementSize(part.dtype);
    for (int64_t dim : part.shape)
      size *= uint64_t(dim);
    if (run.call->op == CollectiveOp::AllGather)
      size *= members;
    if (run.call->op == CollectiveOp::ReduceScatter)
      size /= members;
    std::memset(part.output, 0, size);
  }
  return {};
}

std::unique_ptr<Communicator> fusion::rt::makeNullCommunicator(uint32_t rank,
                                                               uint32_t size) {
  return std::make_unique<NullCommunicator>(rank, size);
}
