//===- OutputFiles.cpp - Where results are, and what is expected ----------===//
//
// See OutputFiles.h. A folder outlives the run that wrote it, and the next one
// may have other ranks: what is left of the first must not pass for a result.
//
//===----------------------------------------------------------------------===//
#include "OutputFiles.h"

#include "Shards.h"
#include "Text.h"

#include <cstdio>
#include <unistd.h>

using namespace fusion::rt;

std::string fusion::rt::outputFile(const std::string &tensor) {
  std::string result;
  for (size_t i = 0; i < tensor.size(); ++i) {
    uint8_t c = uint8_t(tensor[i]);
    bool plain =
        c > 0x20 && c != '/' && c != '%' && c != 0x7f && !(i == 0 && c == '.');
    char buffer[4];
    std::snprintf(buffer, sizeof(buffer), "%%%02X", c);
    result += plain ? std::string(1, char(c)) : std::string(buffer);
  }
  return result + ".npy";
}

static std::string rankFolder(const std::string &directory, uint32_t rank) {
  return directory + "/rank" + std::to_string(rank);
}

std::string fusion::rt::rankFolder(const std::string &directory,
                                   const RankContext *rank) {
  return rank ? ::rankFolder(directory, rank->rank) : directory;
}

static bool exists(const std::string &path) {
  return access(path.c_str(), F_OK) == 0;
}

Status fusion::rt::checkExpected(const Program &program,
                                 const std::string &directory,
                                 const RankContext *rank) {
  if (directory.empty() || !rank)
    return {};
  for (const Port &port : program.outputs) {
    std::string name = "/" + outputFile(port.tensor.name);
    std::string whole = directory + name;
    // One beyond the last: of a run of more ranks.
    for (uint32_t number = 0; number <= rank->size; ++number) {
      std::string own = ::rankFolder(directory, number) + name;
      if (!exists(own))
        continue;
      if (exists(whole))
        return Status(Code::Usage, "'" + escape(own) + "' and '" +
                                       escape(whole) +
                                       "': both say what is expected; remove "
                                       "the folders of ranks, or the other "
                                       "files, from --check");
      if (number == rank->size)
        return Status(Code::Usage,
                      "'" + escape(own) + "': is of a run of more than " +
                          std::to_string(rank->size) +
                          " ranks; give --check the outputs of as many");
    }
  }
  return {};
}

Expected<Tensor> fusion::rt::readExpected(const Program &program,
                                          const Port &port,
                                          const std::string &directory,
                                          const RankContext *rank) {
  std::string name = "/" + outputFile(port.tensor.name);
  if (!rank)
    return readNpyFile(directory + name);
  std::string own = rankFolder(directory, rank) + name;
  if (exists(own))
    return readNpyFile(own);
  auto whole = readNpyFile(directory + name);
  if (!whole)
    return whole.status();
  auto shard = cutShard(program.mesh, port, *whole, rank->rank);
  if (!shard)
    return Status(Code::CheckFailed, "output " + shard.status().message());
  return shard;
}
