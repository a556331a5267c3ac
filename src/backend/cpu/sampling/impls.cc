#include "backend/cpu/sampling/impls.h"

#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/sampling.h"

namespace sluice::cpu {
namespace {

// The reference's rows, shared out over the threads; each thread has a row of the workspace.
Status Run(device::Stream& stream, const ops::Sample::Desc& desc, const ops::Sample::Args& args) {
  const int64_t width = 2 * desc.vocab;
  AsCpu(stream).pool().ParallelFor(
      static_cast<int64_t>(args.rows.size()), [&](int64_t row, int thread) {
        float* workspace = args.workspace.ptr<float>() + thread * args.workspace.strides[0];
        ops::SampleOneRow(desc, args, row, {workspace, static_cast<size_t>(width)});
      });
  return OkStatus();
}

}  // namespace

void RegisterSampling(ops::OpTable& table) {
  table.Add<ops::Sample>({"any_f32_sample", ops::RefSampleSupports, Run});
  table.Add<ops::Sample>({"ref_sample", ops::RefSampleSupports, ops::RefSample});
}

}  // namespace sluice::cpu
