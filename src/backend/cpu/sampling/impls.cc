#include "backend/cpu/sampling/impls.h"

#include "backend/cpu/kernel_support.h"
#include "backend/cpu/sampling/kernels.h"
#include "backend/cpu/sampling/sample_row.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/sampling.h"
#include "ops/token_counts.h"

namespace sluice::cpu {
namespace {

// Rows are shared out over the threads; each thread has a part of the scratch memory.
template <class OneRow>
Status ForEachRow(device::Stream& stream, const ops::Sample::Desc& desc,
                  const ops::Sample::Args& args, const OneRow& one_row) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  CpuStream& cpu = AsCpu(stream);
  const size_t width = static_cast<size_t>(2 * desc.vocab);
  const size_t bytes = static_cast<size_t>(cpu.pool().threads()) * width * sizeof(float);
  auto* const workspace = reinterpret_cast<float*>(cpu.Scratch(bytes));
  if (workspace == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("sample: no memory for ", bytes, " bytes of sorted logits"));
  }
  cpu.pool().ParallelFor(args.rows.dims[0], [&](int64_t row, int thread) {
    one_row(row, std::span<float>(workspace + thread * width, width));
  });
  return OkStatus();
}

Status RunAny(device::Stream& stream, const ops::Sample::Desc& desc,
              const ops::Sample::Args& args) {
  return ForEachRow(stream, desc, args, [&](int64_t row, std::span<float> workspace) {
    ops::SampleOneRow(desc, args, row, workspace);
  });
}

template <const SamplingKernels& kernels>
Status Run(device::Stream& stream, const ops::Sample::Desc& desc, const ops::Sample::Args& args) {
  return ForEachRow(stream, desc, args, [&](int64_t row, std::span<float> workspace) {
    SampleRowBy(kernels, desc, args, row, workspace);
  });
}

template <Isa isa>
ops::Support Supports(const ops::Sample::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsa(isa, facts);
  return support.ok ? ops::RefSampleSupports(desc, facts) : support;
}

}  // namespace

void RegisterSampling(ops::OpTable& table) {
  table.Add<ops::Sample>({"avx512_f32_sample", &Supports<Isa::kAvx512>,
                          &Run<kAvx512SamplingKernels>, ops::Arithmetic::kF32});
  table.Add<ops::Sample>({"avx2_f32_sample", &Supports<Isa::kAvx2>, &Run<kAvx2SamplingKernels>,
                          ops::Arithmetic::kF32});
  table.Add<ops::Sample>({"any_f32_sample", ops::RefSampleSupports, RunAny, ops::Arithmetic::kF32});
  table.Add<ops::Sample>({.name = "ref_sample",
                          .supports = ops::RefSampleSupports,
                          .run = ops::RefSample,
                          .slow = &ops::PlainLoops<ops::Sample>});
  // A word for each token of a prompt once, and one for each that is drawn: nothing to gain.
  table.Add<ops::SetCounts>({"ref_set_counts", &ops::RefSetCountsSupports, &ops::RefSetCounts});
  table.Add<ops::ResolveRows>(
      {"ref_resolve_rows", &ops::RefResolveRowsSupports, &ops::RefResolveRows});
  table.Add<ops::KeepDrawn>({"ref_keep_drawn", &ops::RefKeepDrawnSupports, &ops::RefKeepDrawn});
}

}  // namespace sluice::cpu
