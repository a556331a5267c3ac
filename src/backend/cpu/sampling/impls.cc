#include "backend/cpu/sampling/impls.h"

#include "backend/cpu/kernel_support.h"
#include "backend/cpu/sampling/kernels.h"
#include "backend/cpu/sampling/sample_row.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/sampling.h"

namespace sluice::cpu {
namespace {

// Rows are shared out over the threads; each thread has a row of the workspace.
template <class OneRow>
Status ForEachRow(device::Stream& stream, const ops::Sample::Desc& desc,
                  const ops::Sample::Args& args, const OneRow& one_row) {
  const int64_t width = 2 * desc.vocab;
  AsCpu(stream).pool().ParallelFor(
      static_cast<int64_t>(args.rows.size()), [&](int64_t row, int thread) {
        float* workspace = args.workspace.ptr<float>() + thread * args.workspace.strides[0];
        one_row(row, std::span<float>(workspace, static_cast<size_t>(width)));
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
  table.Add<ops::Sample>(
      {"avx512_f32_sample", &Supports<Isa::kAvx512>, &Run<kAvx512SamplingKernels>});
  table.Add<ops::Sample>({"avx2_f32_sample", &Supports<Isa::kAvx2>, &Run<kAvx2SamplingKernels>});
  table.Add<ops::Sample>({"any_f32_sample", ops::RefSampleSupports, RunAny});
  table.Add<ops::Sample>({"ref_sample", ops::RefSampleSupports, ops::RefSample});
}

}  // namespace sluice::cpu
