#include "backend/xpu/streams/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/streams.h"

namespace sluice::xpu {
namespace {

using ops::CorrectStreams;
using ops::LevelStreams;
using ops::PredictStreams;

constexpr const char* kProgram = "streams/any_f32_streams";

template <class Op, ops::Support (*Reference)(const typename Op::Desc&, const device::DeviceFacts&)>
ops::Support Supports(const typename Op::Desc& desc, const device::DeviceFacts& facts) {
  if (ops::ResidualDType(desc.activation) != desc.activation)
    return ops::Support::No(StrCat("sums in F32 beside ", Name(desc.activation), " activations"));
  return Reference(desc, facts);
}

// What the program is compiled with; each kernel reads one of the last three.
std::string Options(int items, DType activation, int streams, bool add, bool scaled, bool mean) {
  return StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements, " -D ACT=", ClName(activation),
                " -D STREAMS=", streams, " -D ADD=", add ? 1 : 0, " -D SCALED=", scaled ? 1 : 0,
                " -D MEAN=", mean ? 1 : 0);
}

Status RunPredict(device::Stream& stream, const PredictStreams::Desc& desc,
                  const PredictStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.streams.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_predict_streams"},
                Options(items, desc.activation, desc.streams, desc.add, false, false), shape,
                args.streams.data, RowStride(args.streams), args.added.data, RowStride(args.added),
                args.routes.data, RowStride(args.routes), args.coefficients.data,
                RowStride(args.coefficients), args.out.data, RowStride(args.out),
                static_cast<int32_t>(desc.width));
}

Status RunCorrect(device::Stream& stream, const CorrectStreams::Desc& desc,
                  const CorrectStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.streams.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_correct_streams"},
                Options(items, desc.activation, desc.streams, false, desc.scaled, false), shape,
                args.streams.data, RowStride(args.streams), args.x.data, RowStride(args.x),
                args.routes.data, RowStride(args.routes), args.coefficients.data,
                RowStride(args.coefficients), args.scale.data, args.out.data, RowStride(args.out),
                static_cast<int32_t>(desc.width));
}

Status RunLevel(device::Stream& stream, const LevelStreams::Desc& desc,
                const LevelStreams::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  LaunchShape shape{{static_cast<size_t>(args.streams.dims[0]), 1, 1}, static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_level_streams"},
                Options(items, desc.activation, desc.streams, false, false, desc.mean), shape,
                args.streams.data, RowStride(args.streams), args.out.data, RowStride(args.out),
                static_cast<int32_t>(desc.width), ops::kMeanSquareMin);
}

}  // namespace

void RegisterStreams(ops::OpTable& table) {
  table.Add<PredictStreams>({"any_f32_predict_streams",
                             &Supports<PredictStreams, &ops::RefPredictStreamsSupports>,
                             &RunPredict, ops::Arithmetic::kF32});
  table.Add<CorrectStreams>({"any_f32_correct_streams",
                             &Supports<CorrectStreams, &ops::RefCorrectStreamsSupports>,
                             &RunCorrect, ops::Arithmetic::kF32});
  table.Add<LevelStreams>({"any_f32_level_streams",
                           &Supports<LevelStreams, &ops::RefLevelStreamsSupports>, &RunLevel,
                           ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
