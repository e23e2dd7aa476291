//===- Spatial.h - Tensors of images in either layout -----------*- C++ -*-===//
//
// Convolutions and pools work on 1 to 3 spatial dimensions in two layouts. Both
// are seen here as [N, C, D, H, W]: missing spatial dimensions have size 1,
// window 1 and stride 1 in front.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_REFERENCE_SPATIAL_H
#define FUSION_LIB_REFERENCE_SPATIAL_H

#include "OpRules.h"

#include <array>

namespace fusion::reference {

using Spatial = std::array<int64_t, 3>;

/// The last entries of `values`, with `missing` in front.
inline Spatial toSpatial(llvm::ArrayRef<int64_t> values, int64_t missing) {
  Spatial result = {missing, missing, missing};
  for (size_t i = 0; i < values.size(); ++i)
    result[3 - values.size() + i] = values[i];
  return result;
}

/// Batch, channels and spatial sizes of a tensor of images, and the position of
/// an element in it.
struct Images {
  int64_t batch, channels;
  Spatial size;
  Layout layout;

  Images(llvm::ArrayRef<int64_t> shape, Layout layout)
      : batch(shape[0]),
        channels(layout == Layout::NCHW ? shape[1] : shape.back()),
        size(toSpatial(layout == Layout::NCHW ? shape.drop_front(2)
                                              : shape.drop_front().drop_back(),
                       1)),
        layout(layout) {}

  bool contains(const Spatial &at) const {
    for (int dim = 0; dim < 3; ++dim)
      if (at[dim] < 0 || at[dim] >= size[dim])
        return false;
    return true;
  }

  int64_t offsetOf(int64_t n, int64_t channel, const Spatial &at) const {
    int64_t pixel = (at[0] * size[1] + at[1]) * size[2] + at[2];
    int64_t pixels = size[0] * size[1] * size[2];
    if (layout == Layout::NCHW)
      return (n * channels + channel) * pixels + pixel;
    return (n * pixels + pixel) * channels + channel;
  }
};

/// Shape of images in `layout` with the given spatial sizes, of which there are
/// 1 to 3.
inline Shape makeImageShape(int64_t batch, int64_t channels,
                            llvm::ArrayRef<int64_t> spatial, Layout layout) {
  Shape shape = {batch};
  if (layout == Layout::NCHW)
    shape.push_back(channels);
  shape.append(spatial.begin(), spatial.end());
  if (layout == Layout::NHWC)
    shape.push_back(channels);
  return shape;
}

/// How a window moves over the images; pads before the first element.
struct Window {
  Spatial size, strides, padLow, padHigh, dilations;

  /// Element of the input that element `inside` of the window at output
  /// position `at` lies on; outside of the input when it is padding.
  Spatial position(const Spatial &at, const Spatial &inside) const {
    Spatial result;
    for (int dim = 0; dim < 3; ++dim)
      result[dim] =
          at[dim] * strides[dim] - padLow[dim] + inside[dim] * dilations[dim];
    return result;
  }
};

/// floor((in + low + high - dilation * (window - 1) - 1) / stride) + 1 in each
/// spatial dimension.
inline Shape getWindowedSizes(llvm::ArrayRef<int64_t> in,
                              llvm::ArrayRef<int64_t> window,
                              llvm::ArrayRef<int64_t> strides,
                              llvm::ArrayRef<int64_t> padLow,
                              llvm::ArrayRef<int64_t> padHigh,
                              llvm::ArrayRef<int64_t> dilations) {
  Shape sizes;
  for (size_t i = 0; i < in.size(); ++i)
    sizes.push_back(
        (in[i] + padLow[i] + padHigh[i] - dilations[i] * (window[i] - 1) - 1) /
            strides[i] +
        1);
  return sizes;
}

/// Calls `body` with each position of a box.
template <typename Body> void forEachPosition(const Spatial &size, Body body) {
  for (int64_t d = 0; d < size[0]; ++d)
    for (int64_t h = 0; h < size[1]; ++h)
      for (int64_t w = 0; w < size[2]; ++w)
        body(Spatial{d, h, w});
}

/// The spatial sizes of a shape in `layout`.
inline llvm::ArrayRef<int64_t> getSpatialSizes(llvm::ArrayRef<int64_t> shape,
                                               Layout layout) {
  return layout == Layout::NCHW ? shape.drop_front(2)
                                : shape.drop_front().drop_back();
}

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_SPATIAL_H
