#include "backend/cuda/streams/impls.h"

#include "backend/cuda/by_type.h"
#include "backend/cuda/streams/params.h"
#include "ops/streams.h"

namespace sluice::cuda {
namespace {

using ops::CorrectStreams;
using ops::LevelStreams;
using ops::PredictStreams;

static_assert(kStreamsMost == ops::kStreamsMax);

constexpr KernelByType kPredict =
    SLUICE_KERNEL_BY_TYPE("any_f32_streams", "any_f32_predict_streams");
constexpr KernelByType kCorrect =
    SLUICE_KERNEL_BY_TYPE("any_f32_streams", "any_f32_correct_streams");
constexpr KernelByType kLevel = SLUICE_KERNEL_BY_TYPE("any_f32_streams", "any_f32_level_streams");

// A block has some numbers of one token.
LaunchShape ShapeFor(const StreamsParams& params) {
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(params.tokens);
  shape.grid[1] = BlocksFor(params.width, kStreamsThreads);
  shape.block[0] = kStreamsThreads;
  return shape;
}

// What ops that mix streams have alike.
template <class Op>
StreamsParams MixParams(const typename Op::Desc& desc, const typename Op::Args& args) {
  return {.streams = args.streams.data,
          .routes = args.routes.template ptr<float>(),
          .coefficients = args.coefficients.template ptr<float>(),
          .out = args.out.data,
          .streams_stride = args.streams.strides[0],
          .routes_stride = args.routes.strides[0],
          .coefficients_stride = args.coefficients.strides[0],
          .out_stride = args.out.strides[0],
          .tokens = args.streams.dims[0],
          .width = desc.width,
          .count = desc.streams};
}

Status RunPredict(device::Stream& stream, const PredictStreams::Desc& desc,
                  const PredictStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  StreamsParams params = MixParams<PredictStreams>(desc, args);
  params.other = desc.add ? args.added.data : nullptr;
  params.other_stride = args.added.strides[0];
  return Launch(stream, kPredict(desc.activation), ShapeFor(params), params);
}

Status RunCorrect(device::Stream& stream, const CorrectStreams::Desc& desc,
                  const CorrectStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  StreamsParams params = MixParams<CorrectStreams>(desc, args);
  params.other = args.x.data;
  params.other_stride = args.x.strides[0];
  params.scale = desc.scaled ? args.scale.ptr<float>() : nullptr;
  return Launch(stream, kCorrect(desc.activation), ShapeFor(params), params);
}

Status RunLevel(device::Stream& stream, const LevelStreams::Desc& desc,
                const LevelStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const StreamsParams params = {.streams = args.streams.data,
                                .out = desc.mean ? args.out.data : nullptr,
                                .streams_stride = args.streams.strides[0],
                                .out_stride = args.out.strides[0],
                                .tokens = args.streams.dims[0],
                                .width = desc.width,
                                .count = desc.streams,
                                .mean_square_min = ops::kMeanSquareMin};
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(params.tokens);
  shape.block[0] = kStreamsThreads;
  return Launch(stream, kLevel(desc.activation), shape, params);
}

}  // namespace

void RegisterStreams(ops::OpTable& table) {
  table.Add<PredictStreams>({"any_f32_predict_streams", &ops::RefPredictStreamsSupports,
                             &RunPredict, ops::Arithmetic::kF32});
  table.Add<CorrectStreams>({"any_f32_correct_streams", &ops::RefCorrectStreamsSupports,
                             &RunCorrect, ops::Arithmetic::kF32});
  table.Add<LevelStreams>(
      {"any_f32_level_streams", &ops::RefLevelStreamsSupports, &RunLevel, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
