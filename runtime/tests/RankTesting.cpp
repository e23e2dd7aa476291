//===- RankTesting.cpp - Tests that run on several processes --------------===//
//
// The parent is the hub of a job whose ranks it forks. Every wait has a limit:
// a rank that hangs is a text, not a test that hangs.
//
//===----------------------------------------------------------------------===//
#include "RankTesting.h"
#include "Hub.h"
#include "Mesh.h"
#include "RankLink.h"

#include <csignal>
#include <cstdio>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fusion::rt;

Program test::meshProgram(std::vector<uint32_t> sizes,
                          std::vector<std::vector<uint32_t>> groups) {
  Program program;
  program.mesh.name = "m";
  for (size_t i = 0; i < sizes.size(); ++i)
    program.mesh.axes.emplace_back(std::string(1, char('a' + i)), sizes[i]);
  for (const std::vector<uint32_t> &axes : groups) {
    Command command;
    command.kind = CommandKind::Collective;
    command.collective.axes = axes;
    program.commands.push_back(std::move(command));
  }
  return program;
}

static std::string
runRank(const Program &program, uint32_t rank, uint32_t size, int socket,
        const test::MakeCommunicator &make,
        const std::function<std::string(Communicator &)> &body) {
  RankLink link(socket, "token", "the test", 0);
  Status status = link.join(
      {{"rank", std::to_string(rank)}, {"ranks", std::to_string(size)}}, 30);
  if (!status.ok())
    return status.message();
  auto communicator =
      make(rank, size, std::shared_ptr<Rendezvous>(&link, [](Rendezvous *) {}));
  if (!communicator)
    return "no communicator";
  status = communicator->connect(groupsOf(program, rank));
  std::string text = status.ok() ? body(*communicator) : status.message();
  // Nobody leaves while others may still read from it.
  Status result =
      text.empty() ? Status() : Status(Code::CheckFailed, text, "", 0);
  status = link.done(result);
  return status.ok() ? "" : status.message();
}

std::vector<std::string>
test::onRanks(const Program &program,
              const std::function<std::string(Communicator &)> &body) {
  auto make = [](uint32_t rank, uint32_t size,
                 std::shared_ptr<Rendezvous> rendezvous) {
    auto transports = openTransports("127.0.0.1");
    if (!transports)
      std::fprintf(stderr, "%s\n", transports.status().message().c_str());
    return transports ? makeHostCommunicator(rank, size, *transports,
                                             std::move(rendezvous), 10)
                      : nullptr;
  };
  return onRanks(program, make, body);
}

std::vector<std::string>
test::onRanks(const Program &program, const MakeCommunicator &make,
              const std::function<std::string(Communicator &)> &body,
              double limit) {
  uint32_t size = rankCount(program.mesh);
  std::vector<std::string> texts(size);
  std::vector<pid_t> children(size);
  Hub hub(size, "token");
  std::vector<int> ours;
  std::fflush(nullptr);
  for (uint32_t rank = 0; rank < size; ++rank) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return {"no socket"};
    children[rank] = fork();
    if (children[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int file : ours)
        close(file);
      close(ends[0]);
      std::string text = runRank(program, rank, size, ends[1], make, body);
      if (!text.empty())
        std::fprintf(stderr, "rank %u: %s\n", rank, text.c_str());
      _exit(text.empty() ? 0 : 1);
    }
    close(ends[1]);
    ours.push_back(ends[0]);
    hub.add(ends[0], int(rank));
  }
  double end = monotonicSeconds() + limit;
  bool finished = false;
  size_t left = size;
  while (left > 0 && monotonicSeconds() < end) {
    std::vector<pollfd> list;
    hub.fillPoll(list);
    poll(list.data(), nfds_t(list.size()), 20);
    hub.handle(list);
    if (!finished && hub.allDone()) {
      hub.finish();
      finished = true;
    }
    for (uint32_t rank = 0; rank < size; ++rank) {
      int status = 0;
      if (children[rank] <= 0 ||
          waitpid(children[rank], &status, WNOHANG) != children[rank])
        continue;
      children[rank] = 0;
      --left;
      if (status != 0) {
        texts[rank] = "ended with status " + std::to_string(status);
        hub.stop(Status(Code::PeerFailed, "another rank ended"));
      }
    }
  }
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (children[rank] > 0) {
      kill(children[rank], SIGKILL);
      waitpid(children[rank], nullptr, 0);
      texts[rank] = "hangs";
    }
    if (!hub.ranks[rank].result.ok())
      texts[rank] = hub.ranks[rank].result.message();
  }
  return texts;
}
