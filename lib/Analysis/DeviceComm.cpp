//===- DeviceComm.cpp - The `comm` block of a device file -----------------===//
//
// See DeviceComm in DeviceModel.h.
//
//===----------------------------------------------------------------------===//
#include "DeviceReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <tuple>

using namespace llvm;
using namespace fusion;

Expected<const json::Object *> DeviceReader::getObject(const json::Value &value,
                                                       StringRef path) const {
  if (const json::Object *object = value.getAsObject())
    return object;
  return fail(path, "bad value of '" + path + "', device file, give an object");
}

Error DeviceReader::readProtocol(const json::Object &object, StringRef prefix,
                                 CommProtocol &protocol) const {
  for (auto [key, field, scale, mayBeZero] :
       {std::tuple("base_us", &CommProtocol::baseUs, 1.0, true),
        std::tuple("alpha_us", &CommProtocol::alphaUs, 1.0, true),
        std::tuple("beta_gbs", &CommProtocol::bandwidth, 1e9, false)}) {
    // A link's own base may be left out.
    if (StringRef(key) == "base_us" && !object.get(key))
      continue;
    Expected<double> number = getNumber(object, prefix, key, mayBeZero);
    if (!number)
      return number.takeError();
    protocol.*field = *number * scale;
  }
  return Error::success();
}

Error DeviceReader::readCommLink(const json::Object &object, StringRef prefix,
                                 CommLink &link) const {
  if (Error error = checkKeys(object, prefix, {"name", "alpha_us", "beta_gbs"},
                              {"devices", "base_us", "protocols", "send_gbs",
                               "shared_with", "units"}))
    return error;
  Expected<std::string> name = getText(object, prefix, "name");
  if (!name)
    return name.takeError();
  link.name = *name;
  if (object.get("devices")) {
    Expected<int64_t> devices = getWhole(object, prefix, "devices", 0);
    if (!devices)
      return devices.takeError();
    link.devices = *devices;
  }
  if (object.get("units")) {
    Expected<int64_t> units = getWhole(object, prefix, "units", 0, 1024);
    if (!units)
      return units.takeError();
    link.units = *units;
  }
  if (object.get("send_gbs")) {
    Expected<double> number =
        getNumber(object, prefix, "send_gbs", /*mayBeZero=*/false);
    if (!number)
      return number.takeError();
    link.sendBandwidth = *number * 1e9;
  }
  if (Error error = readProtocol(object, prefix, link.protocols.emplace_back()))
    return error;
  for (StringRef list : {"protocols", "shared_with"}) {
    std::string path = getPath(prefix, list);
    const json::Value *value = object.get(list);
    if (!value)
      continue;
    const json::Array *array = value->getAsArray();
    if (!array)
      return fail(path,
                  "bad value of '" + path + "', device file, give a list");
    for (auto [i, element] : enumerate(*array)) {
      std::string place = path + "." + std::to_string(i);
      if (list == "shared_with") {
        std::optional<StringRef> text = element.getAsString();
        if (!text)
          return fail(place, "bad value of '" + place +
                                 "', device file, name a link, or compute");
        link.sharedWith.push_back(text->str());
        continue;
      }
      Expected<const json::Object *> entry = getObject(element, place);
      if (!entry)
        return entry.takeError();
      if (Error error = checkKeys(**entry, place, {"alpha_us", "beta_gbs"},
                                  {"base_us", "only"}))
        return error;
      CommProtocol &protocol = link.protocols.emplace_back();
      if (Error error = readProtocol(**entry, place, protocol))
        return error;
      protocol.isForSums = (*entry)->getString("only") == "all_reduce";
      if ((*entry)->get("only") && !protocol.isForSums)
        return fail(place + ".only", "bad value of '" + place +
                                         ".only', device file, it may be: "
                                         "all_reduce");
    }
  }
  return Error::success();
}

static constexpr StringRef kCommOps[] = {
    "all_reduce", "reduce_scatter",       "all_gather",
    "all_to_all", "collective_broadcast", "collective_permute"};
static_assert(std::size(kCommOps) == kNumCommOps);

StringRef fusion::stringifyCommOp(CommOp op) {
  return kCommOps[static_cast<unsigned>(op)];
}

/// Two lists of one length, the first ascending.
Error DeviceReader::readCommTable(const json::Object &ops, StringRef prefix,
                                  StringRef op, CommTable &table) const {
  std::string path = getPath(prefix, op);
  const json::Object *object = ops.getObject(op);
  if (!object)
    return fail(path,
                "bad value of '" + path + "', device file, give an object");
  if (Error error = checkKeys(*object, path, {"bytes", "us"}))
    return error;
  for (auto [key, list] :
       {std::pair("bytes", &table.bytes), std::pair("us", &table.us)}) {
    std::string place = getPath(path, key);
    const json::Array *array = object->getArray(key);
    if (!array || array->empty())
      return fail(place,
                  "bad value of '" + place + "', device file, give a list");
    for (auto [i, element] : enumerate(*array)) {
      std::optional<double> number = element.getAsNumber();
      if (StringRef(key) == "bytes") {
        Expected<int64_t> bytes =
            getWhole(number, place + "." + std::to_string(i), 1, kMost);
        if (!bytes)
          return bytes.takeError();
      } else if (!number || !(*number > 0) || *number > 1e30)
        return fail(place, "bad number in '" + place +
                               "', device file, give numbers above 0");
      list->push_back(*number);
    }
  }
  if (table.bytes.size() != table.us.size())
    return fail(path, "'bytes' and 'us' of '" + path +
                          "' differ in length, device file, give one time for "
                          "each size");
  for (size_t i = 1; i < table.bytes.size(); ++i)
    if (table.bytes[i] <= table.bytes[i - 1])
      return fail(path, "sizes in '" + path +
                            ".bytes' do not grow, device file, sort them");
  return Error::success();
}

Error DeviceReader::readTransport(const json::Object &object, StringRef prefix,
                                  CommTransport &transport) const {
  if (Error error = checkKeys(
          object, prefix, {"name", "link", "ranks", "ops"},
          {"slowdown_compute", "slowdown_comm", "part_us", "queued_us"}))
    return error;
  for (auto [key, text] : {std::pair("name", &transport.name),
                           std::pair("link", &transport.link)}) {
    Expected<std::string> value = getText(object, prefix, key);
    if (!value)
      return value.takeError();
    *text = *value;
  }
  if (transport.name != "nccl" && transport.name != "peer" &&
      transport.name != "direct")
    return fail(getPath(prefix, "name"),
                "bad value of '" + getPath(prefix, "name") +
                    "', device file, it may be: nccl, peer, direct");
  Expected<int64_t> ranks = getWhole(object, prefix, "ranks", 2, 1024);
  if (!ranks)
    return ranks.takeError();
  transport.ranks = *ranks;
  for (auto [key, field] :
       {std::pair("slowdown_compute", &CommTransport::slowdownCompute),
        std::pair("slowdown_comm", &CommTransport::slowdownComm),
        std::pair("part_us", &CommTransport::partUs),
        std::pair("queued_us", &CommTransport::queuedUs)}) {
    if (!object.get(key))
      continue;
    Expected<double> number = getNumber(object, prefix, key, true);
    if (!number)
      return number.takeError();
    transport.*field = *number;
  }
  std::string path = getPath(prefix, "ops");
  const json::Object *ops = object.getObject("ops");
  if (!ops)
    return fail(path,
                "bad value of '" + path + "', device file, give an object");
  if (Error error = checkKeys(*ops, path, {}, kCommOps))
    return error;
  for (auto [i, op] : enumerate(kCommOps))
    if (ops->get(op))
      if (Error error = readCommTable(*ops, path, op, transport.tables[i]))
        return error;
  return Error::success();
}

Error DeviceReader::readTransports(const json::Object &object,
                                   DeviceComm &comm) const {
  std::string path = getPath(kComm, "transports");
  if (!object.get("transports"))
    return Error::success();
  const json::Array *array = object.getArray("transports");
  if (!array)
    return fail(path, "bad value of '" + path + "', device file, give a list");
  llvm::StringSet<> seen;
  for (auto [i, element] : enumerate(*array)) {
    std::string place = path + "." + std::to_string(i);
    Expected<const json::Object *> entry = getObject(element, place);
    if (!entry)
      return entry.takeError();
    CommTransport &transport = comm.transports.emplace_back();
    if (Error error = readTransport(**entry, place, transport))
      return error;
    if (none_of(comm.links, [&](const CommLink &link) {
          return link.name == transport.link;
        }))
      return fail(getPath(place, "link"),
                  "'" + transport.link +
                      "' is no link, device file, name a link of 'comm'");
    if (!seen.insert(transport.name + "/" + transport.link).second)
      return fail(place, "'" + transport.name + "' on '" + transport.link +
                             "' stands twice in '" + path +
                             "', device file, keep one");
  }
  return Error::success();
}

Error DeviceReader::readComm(const json::Object &root,
                             DeviceModel &device) const {
  const json::Value *value = root.get(kComm);
  if (!value)
    return Error::success();
  Expected<const json::Object *> object = getObject(*value, kComm);
  if (!object)
    return object.takeError();
  if (Error error = checkKeys(**object, kComm,
                              {"links", "slowdown_compute", "slowdown_comm"},
                              {"units", "memory_traffic", "transports"}))
    return error;
  DeviceComm comm;
  for (auto [key, target] :
       {std::pair("slowdown_compute", &comm.slowdownCompute),
        std::pair("slowdown_comm", &comm.slowdownComm),
        std::pair("memory_traffic", &comm.memoryTraffic)}) {
    if (!(*object)->get(key))
      continue;
    Expected<double> number = getNumber(**object, kComm, key, true);
    if (!number)
      return number.takeError();
    *target = *number;
  }
  if ((*object)->get("units")) {
    Expected<int64_t> units = getWhole(**object, kComm, "units", 0);
    if (!units)
      return units.takeError();
    if (*units >= device.units)
      return fail("comm.units", "bad value of 'comm.units', device file, give "
                                "less than the device's units");
    comm.units = *units;
  }
  const json::Array *links = (*object)->getArray("links");
  if (!links || links->empty())
    return fail("comm.links",
                "bad value of 'comm.links', device file, give a list of links");
  llvm::StringSet<> names;
  for (auto [i, element] : enumerate(*links)) {
    std::string place = "comm.links." + std::to_string(i);
    Expected<const json::Object *> link = getObject(element, place);
    if (!link)
      return link.takeError();
    if (Error error = readCommLink(**link, place, comm.links.emplace_back()))
      return error;
    if (comm.links.back().units > 0 && comm.links.back().units >= device.units)
      return fail(getPath(place, "units"),
                  "bad value of '" + getPath(place, "units") +
                      "', device file, give less than the device's units");
    if (!names.insert(comm.links.back().name).second)
      return fail(place, "name '" + comm.links.back().name +
                             "' stands twice in 'comm.links', device file, "
                             "rename one");
  }
  for (auto [i, link] : enumerate(comm.links))
    for (const std::string &other : link.sharedWith)
      if (other != "compute" && !names.contains(other))
        return fail("comm.links." + std::to_string(i) + ".shared_with",
                    "'" + other +
                        "' in 'shared_with' is no link, device file, "
                        "name a link of 'comm', or compute");
  if (Error error = readTransports(**object, comm))
    return error;
  device.comm = std::move(comm);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static void printProtocol(const CommProtocol &protocol, json::OStream &out) {
  out.attribute("base_us", protocol.baseUs);
  out.attribute("alpha_us", protocol.alphaUs);
  out.attribute("beta_gbs", protocol.bandwidth / 1e9);
  if (protocol.isForSums)
    out.attribute("only", "all_reduce");
}

static void printTransport(const CommTransport &transport, json::OStream &out) {
  out.attribute("name", transport.name);
  out.attribute("link", transport.link);
  out.attribute("ranks", transport.ranks);
  if (transport.slowdownCompute >= 0)
    out.attribute("slowdown_compute", transport.slowdownCompute);
  if (transport.slowdownComm >= 0)
    out.attribute("slowdown_comm", transport.slowdownComm);
  if (transport.partUs > 0)
    out.attribute("part_us", transport.partUs);
  if (transport.queuedUs > 0)
    out.attribute("queued_us", transport.queuedUs);
  out.attributeObject("ops", [&] {
    for (auto [op, table] : llvm::zip_equal(kCommOps, transport.tables)) {
      if (table.bytes.empty())
        continue;
      out.attributeObject(op, [&] {
        out.attributeArray("bytes", [&] {
          for (double bytes : table.bytes)
            out.value(bytes);
        });
        out.attributeArray("us", [&] {
          for (double us : table.us)
            out.value(us);
        });
      });
    }
  });
}

void fusion::printComm(const DeviceComm &comm, json::OStream &out) {
  out.attribute("slowdown_compute", comm.slowdownCompute);
  out.attribute("slowdown_comm", comm.slowdownComm);
  out.attribute("units", comm.units);
  out.attribute("memory_traffic", comm.memoryTraffic);
  out.attributeArray("links", [&] {
    for (const CommLink &link : comm.links)
      out.object([&] {
        out.attribute("name", link.name);
        out.attribute("devices", link.devices);
        printProtocol(link.protocols.front(), out);
        out.attributeArray("protocols", [&] {
          for (const CommProtocol &protocol : drop_begin(link.protocols))
            out.object([&] { printProtocol(protocol, out); });
        });
        out.attributeArray("shared_with", [&] {
          for (const std::string &other : link.sharedWith)
            out.value(other);
        });
        if (link.units > 0)
          out.attribute("units", link.units);
        if (link.sendBandwidth > 0)
          out.attribute("send_gbs", link.sendBandwidth / 1e9);
      });
  });
  if (comm.transports.empty())
    return;
  out.attributeArray("transports", [&] {
    for (const CommTransport &transport : comm.transports)
      out.object([&] { printTransport(transport, out); });
  });
}
