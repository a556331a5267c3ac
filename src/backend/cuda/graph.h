// A captured sequence of work, replayed by one call of the driver. Replayed on the stream that it
// was captured on, whose scratch memory it uses.
#pragma once

#include <vector>

#include "backend/cuda/stream.h"
#include "device/copy_list.h"
#include "device/graph.h"
#include "device/replay_signature.h"

namespace sluice::cuda {

class CudaGraph : public device::Graph {
 public:
  // Runs `body` once on `stream`, which records what it does. An error of the body ends the capture
  // and is returned; the stream can be used after it.
  static Result<std::unique_ptr<device::Graph>> Capture(CudaStream& stream,
                                                        const device::CaptureBody& body);
  ~CudaGraph() override;
  Status Replay(device::Stream& stream, const device::ReplayParams& params) override;

 private:
  CudaGraph(CudaStream* stream, CUgraphExec exec, uint64_t kernels)
      : stream_(stream), exec_(exec), kernels_(kernels) {}

  CudaStream* const stream_;
  const CUgraphExec exec_;
  const uint64_t kernels_;
  device::ReplaySignature signature_;
  std::vector<device::CopyItem> items_;  // kept, so that a replay allocates nothing
  std::vector<device::CopyRun> runs_;
};

}  // namespace sluice::cuda
