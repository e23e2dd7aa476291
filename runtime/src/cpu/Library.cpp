//===- Library.cpp - Contractions and pools through oneDNN ----------------===//
//
// Activations keep the layout the module declares; constant weights take
// whatever layout the chosen implementation likes best. No post-ops: oneDNN
// adds a sum before the bias or even before the products, depending on the
// implementation it chose, so the executor adds the addend itself afterwards.
//
//===----------------------------------------------------------------------===//
#include "Library.h"
#include "Checked.h"
#include "Text.h"

#include <algorithm>

using namespace fusion::rt;
using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

static constexpr auto kF32 = memory::data_type::f32;

Library::Library() : cpu(dnnl::engine::kind::cpu, 0) { reserveStreams(1); }

void Library::reserveStreams(size_t count) {
  while (streams.size() < count)
    streams.emplace_back(cpu);
}

static Dims evaluateAll(const std::vector<Affine> &shape, int64_t batch) {
  Dims dims;
  for (Affine dim : shape)
    dims.push_back(*evaluate(dim, batch)); // verified with the module
  return dims;
}

static Dims minusOne(const std::vector<int64_t> &values) {
  Dims result;
  for (int64_t value : values)
    result.push_back(value - 1);
  return result;
}

/// The layout of activations [N, C, spatial...].
static memory::desc activation(const Dims &dims, bool channelsLast) {
  static const Tag planar[] = {Tag::ncw, Tag::nchw, Tag::ncdhw};
  static const Tag last[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  return memory::desc(dims, kF32,
                      (channelsLast ? last : planar)[dims.size() - 3]);
}

static Dims denseStrides(const Dims &dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

namespace {

/// The memory descriptors of a call at concrete sizes.
struct Spec {
  memory::desc input, plainWeights, weights, bias, output;
};

} // namespace

/// Conv weights [O, C/g, k...] or, transposed, [C, O/g, k...] as oneDNN wants
/// to see them: [g, O/g, C/g, k...], without g if there is one group.
static memory::desc convWeights(Dims dims, int64_t groups, bool transposed) {
  Dims full = {groups, dims[0] / groups};
  full.insert(full.end(), dims.begin() + 1, dims.end());
  Dims strides = denseStrides(full);
  if (transposed) {
    std::swap(full[1], full[2]);
    std::swap(strides[1], strides[2]);
  }
  if (groups == 1) {
    full.erase(full.begin());
    strides.erase(strides.begin());
  }
  return memory::desc(full, kF32, strides);
}

static Spec convSpec(const LibraryCall &call, int64_t batch, int64_t rows) {
  Dims input = evaluateAll(call.inputShape, batch);
  Dims output = evaluateAll(call.outputShape, batch);
  if (rows >= 0)
    input[0] = output[0] = rows;
  Spec spec;
  spec.input = activation(input, call.channelsLast);
  spec.output = activation(output, call.channelsLast);
  if (call.op == LibraryOp::AvgPool)
    return spec;
  spec.plainWeights =
      convWeights(evaluateAll(call.weightShape, batch), call.groups,
                  call.op == LibraryOp::ConvTranspose);
  spec.weights = memory::desc(spec.plainWeights.dims(), kF32, Tag::any);
  if (call.hasBias)
    spec.bias = memory::desc({output[1]}, kF32, Tag::x);
  return spec;
}

/// A matmul operand as [batch..., rows, columns] of rank `rank`; transposed
/// operands differ only in their strides.
static memory::desc matrix(Dims dims, bool transpose, size_t rank) {
  Dims strides = denseStrides(dims);
  size_t n = dims.size();
  if (transpose) {
    std::swap(dims[n - 1], dims[n - 2]);
    std::swap(strides[n - 1], strides[n - 2]);
  }
  int64_t outer = n > 2 ? strides[0] * dims[0]
                        : std::max(strides[0] * dims[0], strides[1] * dims[1]);
  while (dims.size() < rank) {
    dims.insert(dims.begin(), 1);
    strides.insert(strides.begin(), outer);
  }
  return memory::desc(dims, kF32, strides);
}

static Spec matMulSpec(const LibraryCall &call, int64_t batch, int64_t rows,
                       bool packWeights) {
  Dims lhs = evaluateAll(call.inputShape, batch);
  Dims rhs = evaluateAll(call.weightShape, batch);
  Dims output = evaluateAll(call.outputShape, batch);
  if (rows >= 0) {
    if (lhs.size() == output.size() && lhs[0] == output[0])
      lhs[0] = rows;
    if (rhs.size() == output.size() && rhs[0] == output[0])
      rhs[0] = rows;
    output[0] = rows;
  }
  // One matrix on the right: all rows on the left are one matrix too.
  bool flat = std::all_of(rhs.begin(), rhs.end() - 2,
                          [](int64_t size) { return size == 1; });
  if (flat && !call.transposeLhs && output.size() > 2 &&
      lhs.size() == output.size()) {
    int64_t m = 1;
    for (size_t i = 0; i + 1 < lhs.size(); ++i)
      m *= lhs[i];
    lhs = {m, lhs.back()};
    output = {m, output.back()};
    rhs = {rhs[rhs.size() - 2], rhs.back()};
  }
  size_t rank = output.size();
  Spec spec;
  spec.input = matrix(lhs, call.transposeLhs, rank);
  spec.plainWeights = matrix(rhs, call.transposeRhs, rank);
  spec.weights = packWeights && rank == 2
                     ? memory::desc(spec.plainWeights.dims(), kF32, Tag::any)
                     : spec.plainWeights;
  spec.output = matrix(output, false, rank);
  if (call.hasBias) {
    Dims dims(rank, 1);
    dims.back() = output.back();
    spec.bias = memory::desc(dims, kF32, denseStrides(dims));
  }
  return spec;
}

template <typename Primitive, typename... Args>
static void make(PreparedCall &to, const dnnl::engine &engine,
                 const dnnl::primitive_attr &attr, memory::desc &weights,
                 memory::desc &scratchpad, Args &&...args) {
  typename Primitive::desc description(std::forward<Args>(args)...);
  typename Primitive::primitive_desc chosen(description, attr, engine);
  weights = chosen.query_md(dnnl::query::weights_md);
  scratchpad = chosen.scratchpad_desc();
  to.primitive = Primitive(chosen);
}

dnnl::memory Library::packWeights(const memory::desc &from,
                                  const memory::desc &to, const void *data) {
  auto [begin, end] = cache.equal_range(data);
  for (auto it = begin; it != end; ++it)
    if (it->second.from == from && it->second.to == to)
      return it->second.packed;
  memory target(to, cpu);
  memory source(from, cpu, const_cast<void *>(data));
  dnnl::reorder(source, target).execute(streams[0], source, target);
  streams[0].wait();
  packed += to.get_size();
  cache.emplace(data, PackedWeights{from, to, target});
  return target;
}

Expected<PreparedCall> Library::prepare(const LibraryCall &call,
                                        const std::string &name, int64_t batch,
                                        int64_t rows,
                                        const void *constantWeights) {
  auto refuse = [&](const std::string &why) {
    return Status(Code::Rejected,
                  "command '" + escape(name) + "': oneDNN refuses it (" + why +
                      "); compile with --no-library or another target",
                  name);
  };
  if (call.dtype != DType::F32)
    return refuse(std::string("element type ") + dtypeName(call.dtype));
  // oneDNN's kernels index a dimension with 32 bits.
  for (auto *shape : {&call.inputShape, &call.weightShape, &call.outputShape})
    for (Affine dim : *shape)
      if (*evaluate(dim, batch) > INT32_MAX)
        return refuse("a dimension exceeds 2^31 - 1");
  try {
    using dnnl::algorithm;
    using dnnl::prop_kind;
    bool isMatMul = call.op == LibraryOp::MatMul;
    Spec spec = isMatMul
                    ? matMulSpec(call, batch, rows, constantWeights != nullptr)
                    : convSpec(call, batch, rows);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
    PreparedCall result;
    memory::desc weights, scratchpad;
    auto makeConv = [&](auto tag, algorithm kind) {
      using Primitive = decltype(tag);
      if (call.hasBias)
        make<Primitive>(result, cpu, attr, weights, scratchpad,
                        prop_kind::forward_inference, kind, spec.input,
                        spec.weights, spec.bias, spec.output, call.strides,
                        minusOne(call.dilations), call.padLow, call.padHigh);
      else
        make<Primitive>(result, cpu, attr, weights, scratchpad,
                        prop_kind::forward_inference, kind, spec.input,
                        spec.weights, spec.output, call.strides,
                        minusOne(call.dilations), call.padLow, call.padHigh);
    };
    switch (call.op) {
    case LibraryOp::Conv:
      makeConv(dnnl::convolution_forward(), algorithm::convolution_direct);
      break;
    case LibraryOp::ConvTranspose:
      makeConv(dnnl::deconvolution_forward(), algorithm::deconvolution_direct);
      break;
    case LibraryOp::MatMul:
      if (call.hasBias)
        make<dnnl::matmul>(result, cpu, attr, weights, scratchpad, spec.input,
                           spec.weights, spec.bias, spec.output);
      else
        make<dnnl::matmul>(result, cpu, attr, weights, scratchpad, spec.input,
                           spec.weights, spec.output);
      break;
    case LibraryOp::Attention:
    case LibraryOp::AttentionGrad:
      return refuse("it has no attention");
    case LibraryOp::AvgPool:
      make<dnnl::pooling_forward>(
          result, cpu, attr, weights, scratchpad, prop_kind::forward_inference,
          call.countIncludePad ? algorithm::pooling_avg_include_padding
                               : algorithm::pooling_avg_exclude_padding,
          spec.input, spec.output, call.strides, call.window, call.padLow,
          call.padHigh);
      break;
    }

    result.input = memory(spec.input, cpu, nullptr);
    result.output = memory(spec.output, cpu, nullptr);
    auto argument = [&](int id, const memory &value) {
      result.arguments.push_back({id, value.get()});
    };
    argument(DNNL_ARG_SRC, result.input);
    if (call.op != LibraryOp::AvgPool) {
      if (constantWeights && weights == spec.plainWeights) {
        // Nothing to pack: the library reads the constants where they are.
        result.weights =
            memory(weights, cpu, const_cast<void *>(constantWeights));
      } else if (constantWeights) {
        result.weights =
            packWeights(spec.plainWeights, weights, constantWeights);
      } else if (weights == spec.plainWeights) {
        result.weights = memory(weights, cpu, nullptr);
        result.plainWeights = result.weights;
      } else {
        result.plainWeights = memory(spec.plainWeights, cpu, nullptr);
        result.weights = memory(weights, cpu);
        packed += weights.get_size();
        result.reorder = dnnl::reorder(result.plainWeights, result.weights);
      }
      argument(DNNL_ARG_WEIGHTS, result.weights);
    }
    if (call.hasBias) {
      result.bias = memory(spec.bias, cpu, nullptr);
      argument(DNNL_ARG_BIAS, result.bias);
    }
    argument(DNNL_ARG_DST, result.output);
    if (scratchpad.get_size() != 0) {
      result.scratchpad = memory(scratchpad, cpu, nullptr);
      argument(DNNL_ARG_SCRATCHPAD, result.scratchpad);
    }
    return result;
  } catch (const dnnl::error &error) {
    if (error.status == dnnl_out_of_memory)
      return Status(Code::Resources, "oneDNN is out of memory", name);
    return refuse(error.what());
  }
}
