#include "backend/cpu/streams/impls.h"

#include "backend/cpu/kernel_support.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/streams/kernels.h"
#include "ops/streams.h"

namespace sluice::cpu {
namespace {

using ops::CorrectStreams;
using ops::LevelStreams;
using ops::PredictStreams;

template <class Op, Isa isa,
          ops::Support (*Reference)(const typename Op::Desc&, const device::DeviceFacts&)>
ops::Support Supports(const typename Op::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? Reference(desc, facts) : support;
}

void Run(device::Stream& stream, const StreamsCall& call, int64_t rows,
         void (*kernel)(const StreamsCall&, int64_t, int64_t)) {
  ForRows(AsCpu(stream), rows, 2 * call.count * call.width,
          [&](int64_t begin, int64_t end) { kernel(call, begin, end); });
}

template <const StreamsKernels& kernels>
Status RunPredict(device::Stream& stream, const PredictStreams::Desc& desc,
                  const PredictStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const StreamsCall call = {.streams = args.streams.ptr<float>(),
                            .other = desc.add ? args.added.ptr<float>() : nullptr,
                            .routes = args.routes.ptr<float>(),
                            .coefficients = args.coefficients.ptr<float>(),
                            .out = args.out.ptr<float>(),
                            .streams_stride = args.streams.strides[0],
                            .other_stride = args.added.strides[0],
                            .routes_stride = args.routes.strides[0],
                            .coefficients_stride = args.coefficients.strides[0],
                            .out_stride = args.out.strides[0],
                            .width = desc.width,
                            .count = desc.streams};
  Run(stream, call, args.streams.dims[0], kernels.predict);
  return OkStatus();
}

template <const StreamsKernels& kernels>
Status RunCorrect(device::Stream& stream, const CorrectStreams::Desc& desc,
                  const CorrectStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const StreamsCall call = {.streams = args.streams.ptr<float>(),
                            .other = args.x.ptr<float>(),
                            .routes = args.routes.ptr<float>(),
                            .coefficients = args.coefficients.ptr<float>(),
                            .scale = desc.scaled ? args.scale.ptr<float>() : nullptr,
                            .out = args.out.ptr<float>(),
                            .streams_stride = args.streams.strides[0],
                            .other_stride = args.x.strides[0],
                            .routes_stride = args.routes.strides[0],
                            .coefficients_stride = args.coefficients.strides[0],
                            .out_stride = args.out.strides[0],
                            .width = desc.width,
                            .count = desc.streams};
  Run(stream, call, args.streams.dims[0], kernels.correct);
  return OkStatus();
}

template <const StreamsKernels& kernels>
Status RunLevel(device::Stream& stream, const LevelStreams::Desc& desc,
                const LevelStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const StreamsCall call = {.streams = args.streams.ptr<float>(),
                            .out = desc.mean ? args.out.ptr<float>() : nullptr,
                            .streams_stride = args.streams.strides[0],
                            .out_stride = args.out.strides[0],
                            .width = desc.width,
                            .count = desc.streams};
  Run(stream, call, args.streams.dims[0], kernels.level);
  return OkStatus();
}

}  // namespace

void RegisterStreams(ops::OpTable& table) {
  table.Add<PredictStreams>(
      {"avx512_f32_predict_streams",
       &Supports<PredictStreams, Isa::kAvx512, &ops::RefPredictStreamsSupports>,
       &RunPredict<kAvx512StreamsKernels>, ops::Arithmetic::kF32});
  table.Add<PredictStreams>({"avx2_f32_predict_streams",
                             &Supports<PredictStreams, Isa::kAvx2, &ops::RefPredictStreamsSupports>,
                             &RunPredict<kAvx2StreamsKernels>, ops::Arithmetic::kF32});
  table.Add<PredictStreams>({.name = "ref_predict_streams",
                             .supports = &ops::RefPredictStreamsSupports,
                             .run = &ops::RefPredictStreams,
                             .slow = &ops::PlainLoops<PredictStreams>});

  table.Add<CorrectStreams>(
      {"avx512_f32_correct_streams",
       &Supports<CorrectStreams, Isa::kAvx512, &ops::RefCorrectStreamsSupports>,
       &RunCorrect<kAvx512StreamsKernels>, ops::Arithmetic::kF32});
  table.Add<CorrectStreams>({"avx2_f32_correct_streams",
                             &Supports<CorrectStreams, Isa::kAvx2, &ops::RefCorrectStreamsSupports>,
                             &RunCorrect<kAvx2StreamsKernels>, ops::Arithmetic::kF32});
  table.Add<CorrectStreams>({.name = "ref_correct_streams",
                             .supports = &ops::RefCorrectStreamsSupports,
                             .run = &ops::RefCorrectStreams,
                             .slow = &ops::PlainLoops<CorrectStreams>});

  table.Add<LevelStreams>({"avx512_f32_level_streams",
                           &Supports<LevelStreams, Isa::kAvx512, &ops::RefLevelStreamsSupports>,
                           &RunLevel<kAvx512StreamsKernels>, ops::Arithmetic::kF32});
  table.Add<LevelStreams>({"avx2_f32_level_streams",
                           &Supports<LevelStreams, Isa::kAvx2, &ops::RefLevelStreamsSupports>,
                           &RunLevel<kAvx2StreamsKernels>, ops::Arithmetic::kF32});
  table.Add<LevelStreams>({.name = "ref_level_streams",
                           .supports = &ops::RefLevelStreamsSupports,
                           .run = &ops::RefLevelStreams,
                           .slow = &ops::PlainLoops<LevelStreams>});
}

}  // namespace sluice::cpu
