#include <algorithm>
#include <array>
#include <cmath>

#include "ops/element.h"
#include "ops/reference_support.h"
#include "ops/streams.h"

namespace sluice::ops {
namespace {

template <class Desc>
Support Check(const Desc& desc) {
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (desc.streams < 2 || desc.streams > kStreamsMax)
    return Support::No(StrCat(desc.streams, " streams; 2 to ", kStreamsMax, " are supported"));
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  return Support::Yes();
}

// mix(row) of token `t`.
double Mix(const Tensor& coefficients, const Tensor& routes, int64_t t, int64_t row) {
  double sum = 0.0;
  for (int64_t k = 0; k < routes.dims[1]; ++k) {
    sum += double{LoadElement(DType::kF32, RowData(coefficients, row), k)} *
           std::tanh(double{LoadElement(DType::kF32, RowData(routes, t), k)});
  }
  return sum;
}

}  // namespace

Support RefPredictStreamsSupports(const PredictStreams::Desc& desc, const device::DeviceFacts&) {
  return Check(desc);
}

Status RefPredictStreams(device::Stream&, const PredictStreams::Desc& desc,
                         const PredictStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const DType type = args.streams.dtype;
  for (int64_t t = 0; t < args.streams.dims[0]; ++t) {
    std::byte* row = RowData(args.streams, t);
    for (int64_t at = 0; at < desc.width; ++at) {
      std::array<double, kStreamsMax> before = {};
      for (int j = 0; j < desc.streams; ++j) {
        before[j] = LoadElement(type, row, j * desc.width + at);
        if (desc.add && j > 0)
          before[j] += double{LoadElement(desc.activation, RowData(args.added, t), at)};
      }
      for (int i = 0; i < desc.streams; ++i) {
        double sum = before[i];
        for (int j = 0; j < desc.streams; ++j)
          sum += before[j] * Mix(args.coefficients, args.routes, t, i * desc.streams + j);
        StoreElement(type, row, i * desc.width + at, static_cast<float>(sum));
      }
      StoreElement(type, RowData(args.out, t), at, LoadElement(type, row, at));
    }
  }
  return OkStatus();
}

Support RefCorrectStreamsSupports(const CorrectStreams::Desc& desc, const device::DeviceFacts&) {
  return Check(desc);
}

Status RefCorrectStreams(device::Stream&, const CorrectStreams::Desc& desc,
                         const CorrectStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const DType type = args.streams.dtype;
  for (int64_t t = 0; t < args.streams.dims[0]; ++t) {
    std::byte* row = RowData(args.streams, t);
    for (int64_t at = 0; at < desc.width; ++at) {
      const double change =
          double{LoadElement(type, RowData(args.x, t), at)} - double{LoadElement(type, row, at)};
      for (int i = 0; i < desc.streams; ++i) {
        const int64_t index = i * desc.width + at;
        const double sum = LoadElement(type, row, index) +
                           change * (1.0 + Mix(args.coefficients, args.routes, t, i));
        StoreElement(type, row, index, static_cast<float>(sum));
      }
      const float scale = desc.scaled ? args.scale.ptr<float>()[at] : 1.0f;
      StoreElement(desc.activation, RowData(args.out, t), at, LoadElement(type, row, at) * scale);
    }
  }
  return OkStatus();
}

Support RefLevelStreamsSupports(const LevelStreams::Desc& desc, const device::DeviceFacts&) {
  return Check(desc);
}

Status RefLevelStreams(device::Stream&, const LevelStreams::Desc& desc,
                       const LevelStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const DType type = args.streams.dtype;
  for (int64_t t = 0; t < args.streams.dims[0]; ++t) {
    std::byte* row = RowData(args.streams, t);
    std::array<double, kStreamsMax> factors = {1.0};
    double first = 0.0;
    for (int i = 0; i < desc.streams; ++i) {
      double squares = 0.0;
      for (int64_t at = 0; at < desc.width; ++at) {
        const double value = LoadElement(type, row, i * desc.width + at);
        squares += value * value;
      }
      const double mean = squares / static_cast<double>(desc.width);
      if (i == 0) first = mean;
      if (i > 0) factors[i] = std::sqrt(first) / std::sqrt(std::max(mean, double{kMeanSquareMin}));
    }
    for (int64_t at = 0; at < desc.width; ++at) {
      double sum = 0.0;
      for (int i = 0; i < desc.streams; ++i) {
        const int64_t index = i * desc.width + at;
        const double value = LoadElement(type, row, index) * factors[i];
        sum += value;
        if (!desc.mean && i > 0) StoreElement(type, row, index, static_cast<float>(value));
      }
      if (desc.mean)
        StoreElement(type, RowData(args.out, t), at, static_cast<float>(sum / desc.streams));
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
