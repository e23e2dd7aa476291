//===- fusion_rt.cpp - C ABI of the Fusion runtime ------------------------===//
//
// Translates between the C objects and the C++ ones and stops every exception.
// An error that can't even be allocated is the one static out-of-memory error.
//
//===----------------------------------------------------------------------===//
#include "fusion-rt/fusion_rt.h"
#include "Checked.h"
#include "Session.h"
#include "Text.h"
#include "Trust.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

using namespace fusion::rt;

static_assert(sizeof(long) == 8, "the ABI's long holds a 64-bit size");

struct fusion_rt_error {
  Status status;
};

struct fusion_rt_module {
  std::shared_ptr<LoadedModule> loaded;
  std::vector<std::vector<fusion_rt_dim>> shapes;
  std::vector<fusion_rt_tensor> inputs, outputs;
};

struct fusion_rt_session {
  std::shared_ptr<LoadedModule> loaded;
  std::unique_ptr<Session> session;
  double lastSeconds = 0;
  std::vector<std::string> notes; ///< as last asked for
};

namespace {

/// Returned when there is no memory for a real error; never freed.
fusion_rt_error &outOfMemory() {
  static fusion_rt_error error{Status(Code::Resources, "out of memory")};
  return error;
}
// Made while the library is loaded, when there still is memory.
[[maybe_unused]] fusion_rt_error &madeEarly = outOfMemory();

fusion_rt_error *wrap(const Status &status) {
  if (status.ok())
    return nullptr;
  try {
    return new fusion_rt_error{status};
  } catch (const std::bad_alloc &) {
    return &outOfMemory();
  }
}

/// Runs `body`, which returns a Status, and turns whatever happens into an
/// error object.
template <typename Body> fusion_rt_error *guard(Body body) {
  try {
    return wrap(body());
  } catch (const std::bad_alloc &) {
    return &outOfMemory();
  } catch (const std::exception &error) {
    try {
      return wrap(Status(Code::Internal, error.what()));
    } catch (const std::bad_alloc &) {
      return &outOfMemory();
    }
  }
}

Status missing(const char *what) {
  return Status(Code::Usage, std::string(what) + " is NULL");
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

void describe(const std::vector<Port> &ports, fusion_rt_module &module,
              std::vector<fusion_rt_tensor> &tensors) {
  for (const Port &port : ports) {
    std::vector<fusion_rt_dim> shape;
    for (Affine dim : port.tensor.shape)
      shape.push_back({long(dim.scale), long(dim.base)});
    module.shapes.push_back(std::move(shape));
    tensors.push_back({port.tensor.name.c_str(),
                       fusion_rt_dtype(port.tensor.dtype),
                       module.shapes.back().size(), module.shapes.back().data(),
                       port.donatedTo});
  }
}

std::unique_ptr<fusion_rt_module>
makeModule(std::shared_ptr<LoadedModule> loaded) {
  auto module = std::make_unique<fusion_rt_module>();
  module->loaded = std::move(loaded);
  const Program &program = module->loaded->view.module.program;
  describe(program.inputs, *module, module->inputs);
  describe(program.outputs, *module, module->outputs);
  return module;
}

Status checkSizes(const std::vector<Port> &ports, const void *const *buffers,
                  const size_t *sizes, int64_t batch, const char *what) {
  if (!ports.empty() && (!buffers || !sizes))
    return missing(what);
  for (size_t i = 0; i < ports.size(); ++i) {
    auto bytes = byteCount(ports[i].tensor.shape, ports[i].tensor.dtype, batch);
    if (!bytes || *bytes != sizes[i])
      return Status(Code::Usage,
                    std::string(what) + " '" + escape(ports[i].tensor.name) +
                        "': expected " +
                        (bytes ? std::to_string(*bytes) : "unknown") +
                        " bytes at batch " + std::to_string(batch) + ", got " +
                        std::to_string(sizes[i]));
  }
  return {};
}

} // namespace

const char *fusion_rt_version(void) { return FUSION_VERSION; }
int fusion_rt_abi_version(void) { return FUSION_RT_ABI_VERSION; }
const char *fusion_rt_build_id(void) { return buildId(); }

fusion_rt_code fusion_rt_error_code(const fusion_rt_error *error) {
  return error ? fusion_rt_code(error->status.code()) : FUSION_RT_OK;
}
const char *fusion_rt_error_message(const fusion_rt_error *error) {
  return error ? error->status.message().c_str() : "";
}
const char *fusion_rt_error_op(const fusion_rt_error *error) {
  return error ? error->status.op().c_str() : "";
}
int fusion_rt_error_rank(const fusion_rt_error *error) {
  return error ? error->status.rank() : -1;
}
void fusion_rt_error_destroy(fusion_rt_error *error) {
  if (error != &outOfMemory())
    delete error;
}

fusion_rt_error *fusion_rt_module_load_file(const char *path,
                                            fusion_rt_module **module) {
  return guard([&]() -> Status {
    if (!path || !module)
      return missing(path ? "module" : "path");
    *module = nullptr;
    auto loaded = loadModuleFile(path);
    if (!loaded)
      return loaded.status();
    *module = makeModule(std::move(*loaded)).release();
    return {};
  });
}

namespace {
/// A loaded module together with the bytes it views.
struct OwnedBytes {
  explicit OwnedBytes(void *memory) : memory(memory, std::free) {}
  std::unique_ptr<void, void (*)(void *)> memory;
  std::shared_ptr<LoadedModule> loaded;
};
} // namespace

fusion_rt_error *fusion_rt_module_load_memory(const void *data, size_t size,
                                              fusion_rt_module **module) {
  return guard([&]() -> Status {
    if (!data || !module)
      return missing(data ? "module" : "data");
    *module = nullptr;
    auto rounded = checkedAlign(size, 64);
    void *memory = rounded
                       ? std::aligned_alloc(64, std::max<size_t>(*rounded, 64))
                       : nullptr;
    if (!memory)
      return Status(Code::Resources, "out of memory for a copy of the module");
    auto owned = std::make_shared<OwnedBytes>(memory);
    std::memcpy(memory, data, size);
    auto loaded = loadModuleMemory(memory, size);
    if (!loaded)
      return loaded.status();
    owned->loaded = std::move(*loaded);
    // The bytes live as long as anybody uses the module.
    *module =
        makeModule(std::shared_ptr<LoadedModule>(owned, owned->loaded.get()))
            .release();
    return {};
  });
}

void fusion_rt_module_destroy(fusion_rt_module *module) { delete module; }

const char *fusion_rt_module_name(const fusion_rt_module *module) {
  return module->loaded->view.module.program.name.c_str();
}

void fusion_rt_module_batch_range(const fusion_rt_module *module, long *minimum,
                                  long *maximum) {
  const Program &program = module->loaded->view.module.program;
  if (minimum)
    *minimum = program.minBatch;
  if (maximum)
    *maximum = program.maxBatch;
}

size_t fusion_rt_module_input_count(const fusion_rt_module *module) {
  return module->inputs.size();
}
size_t fusion_rt_module_output_count(const fusion_rt_module *module) {
  return module->outputs.size();
}
const fusion_rt_tensor *fusion_rt_module_input(const fusion_rt_module *module,
                                               size_t index) {
  return index < module->inputs.size() ? &module->inputs[index] : nullptr;
}
const fusion_rt_tensor *fusion_rt_module_output(const fusion_rt_module *module,
                                                size_t index) {
  return index < module->outputs.size() ? &module->outputs[index] : nullptr;
}

fusion_rt_error *
fusion_rt_session_create(fusion_rt_module *module,
                         const fusion_rt_session_options *given,
                         fusion_rt_session **session) {
  return guard([&]() -> Status {
    if (!module || !session)
      return missing(module ? "session" : "module");
    *session = nullptr;
    SessionOptions options;
    std::string trust = "own";
    if (given) {
      // A caller of an earlier version of this ABI knows fewer options.
      if (given->struct_size != sizeof(fusion_rt_session_options) &&
          given->struct_size != offsetof(fusion_rt_session_options, device) &&
          given->struct_size != offsetof(fusion_rt_session_options, timeout) &&
          given->struct_size != offsetof(fusion_rt_session_options, autotune))
        return Status(Code::Usage, "session options of another ABI version");
      if (given->backend)
        options.backend = given->backend;
      if (given->trust)
        trust = given->trust;
      options.threads = given->threads;
      options.memoryLimit = given->memory_limit;
      if (given->struct_size > offsetof(fusion_rt_session_options, device))
        options.device = given->device;
      if (given->struct_size > offsetof(fusion_rt_session_options, timeout) &&
          given->timeout != 0)
        options.timeout = std::max(given->timeout, 0.0);
      if (given->struct_size > offsetof(fusion_rt_session_options, autotune))
        options.autotune = given->autotune != 0;
    }
    if (options.backend != "null" &&
        !module->loaded->view.module.kernels.empty())
      FUSION_RT_TRY(checkTrust(*module->loaded, trust));
    auto made = std::make_unique<fusion_rt_session>();
    auto created = Session::create(module->loaded, options);
    if (!created)
      return created.status();
    made->loaded = module->loaded;
    made->session = std::move(*created);
    *session = made.release();
    return {};
  });
}

void fusion_rt_session_destroy(fusion_rt_session *session) { delete session; }

fusion_rt_error *fusion_rt_session_prepare(fusion_rt_session *session,
                                           long batch) {
  return guard([&]() -> Status {
    if (!session)
      return missing("session");
    return session->session->prepare(batch);
  });
}

fusion_rt_error *fusion_rt_session_run(fusion_rt_session *session, long batch,
                                       const void *const *inputs,
                                       const size_t *input_sizes,
                                       void *const *outputs,
                                       const size_t *output_sizes) {
  return guard([&]() -> Status {
    if (!session)
      return missing("session");
    const Program &program = session->session->module().program;
    FUSION_RT_TRY(
        checkSizes(program.inputs, inputs, input_sizes, batch, "input"));
    FUSION_RT_TRY(
        checkSizes(program.outputs, outputs, output_sizes, batch, "output"));
    double start = now();
    FUSION_RT_TRY(session->session->run(batch, inputs, outputs));
    session->lastSeconds = now() - start;
    return {};
  });
}

fusion_rt_error *
fusion_rt_session_enqueue(fusion_rt_session *session, long batch,
                          const void *const *inputs, const size_t *input_sizes,
                          void *const *outputs, const size_t *output_sizes,
                          void *stream) {
  return guard([&]() -> Status {
    if (!session)
      return missing("session");
    const Program &program = session->session->module().program;
    FUSION_RT_TRY(
        checkSizes(program.inputs, inputs, input_sizes, batch, "input"));
    FUSION_RT_TRY(
        checkSizes(program.outputs, outputs, output_sizes, batch, "output"));
    return session->session->enqueue(batch, inputs, outputs, stream);
  });
}

double fusion_rt_session_last_seconds(const fusion_rt_session *session) {
  return session->lastSeconds;
}

void fusion_rt_session_counters(const fusion_rt_session *session,
                                fusion_rt_counters *counters) {
  Counters c = session->session->executor().counters();
  *counters = {c.runs,    c.launches, c.tails,     c.calls,       c.copies,
               c.records, c.waits,    c.bytesRead, c.bytesWritten};
}

const char *fusion_rt_session_note(fusion_rt_session *session, size_t index) {
  session->notes = session->session->executor().notes();
  return index < session->notes.size() ? session->notes[index].c_str()
                                       : nullptr;
}

void fusion_rt_session_memory(const fusion_rt_session *session,
                              fusion_rt_memory *memory) {
  MemoryUse use = session->session->executor().memory();
  *memory = {use.arena, use.packed, use.scratchpad,
             session->session->stagingBytes()};
}
