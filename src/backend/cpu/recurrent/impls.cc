#include "backend/cpu/recurrent/impls.h"

#include "backend/cpu/kernel_support.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/recurrent/kernels.h"
#include "ops/recurrent.h"

namespace sluice::cpu {
namespace {

using ops::GatedDelta;
using ops::SelectiveScan;
using ops::ShortConv;
using ops::Ssd;

// Where a sequence's state lies; `first`: of its numbers that are used.
StateRun RunOf(const ops::StateStep& step, const ops::Tensor& state, int64_t first) {
  float* const states = state.ptr<float>() + first;
  return {.begin = step.begin,
          .tokens = step.tokens,
          .read = step.read < 0 ? nullptr : states + step.read,
          .write = states + step.write};
}

// The rows of sequences that have query tokens but no block.
template <class Desc, class Args>
void ZeroSkippedRows(const Desc& desc, const Args& args) {
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    ops::ForEachStateStep(desc, args, s, [&](const ops::StateStep& step) {
      for (int64_t t = step.begin; step.write < 0 && t < step.begin + step.tokens; ++t)
        std::fill_n(args.out.template ptr<float>() + t * args.out.strides[0], args.out.dims[1],
                    0.0f);
    });
  }
}

// Calls body(task) for all tasks, on this thread alone when there is little to do.
template <class Body>
void ForTasks(CpuStream& stream, int64_t tasks, int64_t elements, const Body& body) {
  if (elements < kParallelElements) {
    for (int64_t task = 0; task < tasks; ++task) body(task);
    return;
  }
  stream.pool().ParallelFor(tasks, [&](int64_t task, int) { body(task); });
}

template <Isa isa>
ops::Support ShortConvSupports(const ShortConv::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefShortConvSupports(desc, facts) : support;
}

template <const RecurrentKernels& kernels>
Status RunShortConv(device::Stream& stream, const ShortConv::Desc& desc,
                    const ShortConv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  ZeroSkippedRows(desc, args);
  const ShortConvCall call = {.x = args.x.ptr<float>(),
                              .weight = args.weight.ptr<float>(),
                              .bias = desc.bias ? args.bias.ptr<float>() : nullptr,
                              .out = args.out.ptr<float>(),
                              .x_stride = args.x.strides[0],
                              .out_stride = args.out.strides[0],
                              .weight_stride = args.weight.strides[0],
                              .channels = desc.channels,
                              .kernel = desc.kernel,
                              .gated = desc.gated};
  // A task has some channels of all sequences, so that their weights are put in order once.
  const int64_t tasks = (desc.channels + kConvChannels - 1) / kConvChannels;
  ForTasks(AsCpu(stream), tasks, 4 * args.x.dims[0] * desc.channels, [&](int64_t task) {
    const int64_t first = task * kConvChannels;
    const int count = static_cast<int>(std::min<int64_t>(kConvChannels, desc.channels - first));
    alignas(64) float taps[kConvKernelMax * kConvChannels] = {};
    for (int c = 0; c < count; ++c) {
      for (int j = 0; j < desc.kernel; ++j)
        taps[j * kConvChannels + c] = call.weight[(first + c) * call.weight_stride + j];
    }
    for (int64_t s = 0; s < args.context.dims[0]; ++s) {
      ops::ForEachStateStep(desc, args, s, [&](const ops::StateStep& step) {
        if (step.write >= 0)
          kernels.short_conv(call, taps, RunOf(step, args.state, 0), first, count);
      });
    }
  });
  return OkStatus();
}

template <Isa isa>
ops::Support GatedDeltaSupports(const GatedDelta::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.k_head_dim > kDeltaKeyDimMax)
    return ops::Support::No(
        StrCat("k_head_dim is ", desc.k_head_dim, ", the limit is ", kDeltaKeyDimMax));
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefGatedDeltaSupports(desc, facts) : support;
}

// Parts that the columns of each head are cut into: more than one where there are few heads for the
// threads. Columns don't meet, so this changes no bit.
int64_t SlicesOf(int64_t heads, int64_t column_blocks, int threads) {
  const int64_t wanted = (kPartsPerThread * threads + heads - 1) / std::max<int64_t>(heads, 1);
  return threads == 1 ? 1 : std::clamp<int64_t>(wanted, 1, column_blocks);
}

// Calls body(step, head, first, end) for parts of the columns of each head of each sequence, which
// may run at the same time. `columns`: a part is a multiple of so many.
template <class Desc, class Args, class Body>
void ForHeads(CpuStream& stream, const Desc& desc, const Args& args, int columns,
              const Body& body) {
  const int64_t heads = args.context.dims[0] * desc.v_heads;
  const int64_t column_blocks = (desc.v_head_dim + columns - 1) / columns;
  const int64_t slices = SlicesOf(heads, column_blocks, stream.pool().threads());
  ForTasks(stream, heads * slices, args.out.dims[0] * desc.numbers(), [&](int64_t task) {
    const int64_t s = task / slices / desc.v_heads;
    const Share share = ShareOf(column_blocks, task % slices, slices);
    const int64_t end = std::min<int64_t>(share.end * columns, desc.v_head_dim);
    ops::ForEachStateStep(desc, args, s, [&](const ops::StateStep& step) {
      if (step.write >= 0)
        body(step, static_cast<int>(task / slices % desc.v_heads),
             static_cast<int>(share.begin * columns), static_cast<int>(end));
    });
  });
}

template <const RecurrentKernels& kernels>
Status RunGatedDelta(device::Stream& stream, const GatedDelta::Desc& desc,
                     const GatedDelta::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  ZeroSkippedRows(desc, args);
  const DeltaCall call = {.qkv = args.qkv.ptr<float>(),
                          .ba = args.ba.ptr<float>(),
                          .dt_bias = args.dt_bias.ptr<float>(),
                          .a_log = args.a_log.ptr<float>(),
                          .out = args.out.ptr<float>(),
                          .qkv_stride = args.qkv.strides[0],
                          .ba_stride = args.ba.strides[0],
                          .out_stride = args.out.strides[0],
                          .k_heads = desc.k_heads,
                          .v_heads = desc.v_heads,
                          .k_head_dim = desc.k_head_dim,
                          .v_head_dim = desc.v_head_dim};
  const int64_t numbers = int64_t{desc.k_head_dim} * desc.v_head_dim;
  ForHeads(AsCpu(stream), desc, args, kDeltaColumns,
           [&](const ops::StateStep& step, int head, int first, int end) {
             kernels.gated_delta(call, RunOf(step, args.state, head * numbers), head, first, end);
           });
  return OkStatus();
}

template <Isa isa>
ops::Support SsdSupports(const Ssd::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefSsdSupports(desc, facts) : support;
}

template <const RecurrentKernels& kernels>
Status RunSsd(device::Stream& stream, const Ssd::Desc& desc, const Ssd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  ZeroSkippedRows(desc, args);
  const SsdCall call = {.vkq = args.vkq.ptr<float>(),
                        .dt = desc.steps ? args.dt.ptr<float>() : nullptr,
                        .dt_bias = desc.steps ? args.dt_bias.ptr<float>() : nullptr,
                        .a = args.a.ptr<float>(),
                        .skip = desc.skip ? args.skip.ptr<float>() : nullptr,
                        .out = args.out.ptr<float>(),
                        .vkq_stride = args.vkq.strides[0],
                        .dt_stride = desc.steps ? args.dt.strides[0] : 0,
                        .out_stride = args.out.strides[0],
                        .dt_scale = desc.dt_scale,
                        .k_heads = desc.k_heads,
                        .v_heads = desc.v_heads,
                        .k_head_dim = desc.k_head_dim,
                        .v_head_dim = desc.v_head_dim};
  const int64_t numbers = int64_t{desc.k_head_dim} * desc.v_head_dim;
  ForHeads(AsCpu(stream), desc, args, kSsdColumns,
           [&](const ops::StateStep& step, int head, int first, int end) {
             kernels.ssd(call, RunOf(step, args.state, head * numbers), head, first, end);
           });
  return OkStatus();
}

template <Isa isa>
ops::Support SelectiveScanSupports(const SelectiveScan::Desc& desc,
                                   const device::DeviceFacts& facts) {
  if (desc.state_size > kScanStateMax)
    return ops::Support::No(
        StrCat("state_size is ", desc.state_size, ", the limit is ", kScanStateMax));
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefSelectiveScanSupports(desc, facts) : support;
}

template <const RecurrentKernels& kernels>
Status RunSelectiveScan(device::Stream& stream, const SelectiveScan::Desc& desc,
                        const SelectiveScan::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  ZeroSkippedRows(desc, args);
  const ScanCall call = {.x = args.x.ptr<float>(),
                         .dt = args.dt.ptr<float>(),
                         .bc = args.bc.ptr<float>(),
                         .dt_bias = args.dt_bias.ptr<float>(),
                         .skip = args.skip.ptr<float>(),
                         .out = args.out.ptr<float>(),
                         .x_stride = args.x.strides[0],
                         .dt_stride = args.dt.strides[0],
                         .bc_stride = args.bc.strides[0],
                         .out_stride = args.out.strides[0],
                         .channels = desc.channels,
                         .state_size = desc.state_size};
  const float* rates = args.a.ptr<float>();
  const int64_t rate_stride = args.a.strides[0];
  // A task has some channels of all sequences, so that their rates are put in order once.
  const int64_t tasks = (desc.channels + kScanChannels - 1) / kScanChannels;
  ForTasks(AsCpu(stream), tasks, args.x.dims[0] * desc.numbers(), [&](int64_t task) {
    const int64_t first = task * kScanChannels;
    const int count = static_cast<int>(std::min<int64_t>(kScanChannels, desc.channels - first));
    alignas(64) float ordered[kScanStateMax * kScanChannels] = {};
    for (int c = 0; c < count; ++c) {
      for (int i = 0; i < desc.state_size; ++i)
        ordered[i * kScanChannels + c] = rates[(first + c) * rate_stride + i];
    }
    for (int64_t s = 0; s < args.context.dims[0]; ++s) {
      ops::ForEachStateStep(desc, args, s, [&](const ops::StateStep& step) {
        if (step.write >= 0)
          kernels.selective_scan(call, ordered, RunOf(step, args.state, 0), first, count);
      });
    }
  });
  return OkStatus();
}

}  // namespace

void RegisterRecurrent(ops::OpTable& table) {
  table.Add<ShortConv>({"avx512_f32_short_conv", &ShortConvSupports<Isa::kAvx512>,
                        &RunShortConv<kAvx512RecurrentKernels>, ops::Arithmetic::kF32});
  table.Add<ShortConv>({"avx2_f32_short_conv", &ShortConvSupports<Isa::kAvx2>,
                        &RunShortConv<kAvx2RecurrentKernels>, ops::Arithmetic::kF32});
  table.Add<ShortConv>({.name = "ref_short_conv",
                        .supports = &ops::RefShortConvSupports,
                        .run = &ops::RefShortConv,
                        .slow = &ops::PlainLoops<ShortConv>});

  table.Add<GatedDelta>({"avx512_f32_gated_delta", &GatedDeltaSupports<Isa::kAvx512>,
                         &RunGatedDelta<kAvx512RecurrentKernels>, ops::Arithmetic::kF32});
  table.Add<GatedDelta>({"avx2_f32_gated_delta", &GatedDeltaSupports<Isa::kAvx2>,
                         &RunGatedDelta<kAvx2RecurrentKernels>, ops::Arithmetic::kF32});
  table.Add<GatedDelta>({.name = "ref_gated_delta",
                         .supports = &ops::RefGatedDeltaSupports,
                         .run = &ops::RefGatedDelta,
                         .slow = &ops::PlainLoops<GatedDelta>});

  table.Add<Ssd>({"avx512_f32_ssd", &SsdSupports<Isa::kAvx512>, &RunSsd<kAvx512RecurrentKernels>,
                  ops::Arithmetic::kF32});
  table.Add<Ssd>({"avx2_f32_ssd", &SsdSupports<Isa::kAvx2>, &RunSsd<kAvx2RecurrentKernels>,
                  ops::Arithmetic::kF32});
  table.Add<Ssd>({.name = "ref_ssd",
                  .supports = &ops::RefSsdSupports,
                  .run = &ops::RefSsd,
                  .slow = &ops::PlainLoops<Ssd>});

  table.Add<SelectiveScan>({"avx512_f32_selective_scan", &SelectiveScanSupports<Isa::kAvx512>,
                            &RunSelectiveScan<kAvx512RecurrentKernels>, ops::Arithmetic::kF32});
  table.Add<SelectiveScan>({"avx2_f32_selective_scan", &SelectiveScanSupports<Isa::kAvx2>,
                            &RunSelectiveScan<kAvx2RecurrentKernels>, ops::Arithmetic::kF32});
  table.Add<SelectiveScan>({.name = "ref_selective_scan",
                            .supports = &ops::RefSelectiveScanSupports,
                            .run = &ops::RefSelectiveScan,
                            .slow = &ops::PlainLoops<SelectiveScan>});
}

}  // namespace sluice::cpu
