// GraphRunner: steps through captured graphs, one per bucket of sequences and tokens. Ops that
// graphs may not hold cut it into pieces and run between them. What changes from step to step lies
// in one buffer on the device, in a layout that depends on the bucket alone, and reaches it as one
// copy; buckets share that buffer. A bucket's first step runs eagerly, so that kernels are loaded
// and algorithms chosen, its second is captured, the others are replayed. A bucket that cannot be
// captured runs eagerly for good and says so once. Step thread only, but for what never changes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/replay_signature.h"
#include "exec/bucket_shape.h"
#include "ops/call_list.h"

namespace sluice::exec {

class GraphRunner {
 public:
  // The step of `bucket` put on the stream, everything between the copy in and the copy out: calls
  // of ops and nothing else, the same ones each time.
  using Body = std::function<Status(device::Stream&, int bucket)>;

  // `level`: kFull or kPiecewise, which leaves attention of all kinds out of graphs. `bytes`: of
  // each bucket's parameters, which lie at the beginning of `parameters` on the device; none where
  // its step reads what others were given.
  GraphRunner(device::Device& device, device::GraphSupport level, std::vector<BucketShape> shapes,
              std::span<const size_t> bytes, const device::View& parameters, Body body);

  const BucketShape& shape(int bucket) const { return buckets_[bucket].shape; }

  // Copies the parameters and runs the step. `source`: staging memory of the bucket's size that is
  // left alone until the step is done.
  Status Run(device::Stream& stream, int bucket, const device::View& source);
  // Copies the parameters alone, for a step that has to run eagerly.
  Status Upload(device::Stream& stream, int bucket, const device::View& source);

  // The buckets that were captured so far.
  std::vector<BucketShape> captured() const;
  // How many steps of a bucket were its first or second.
  int64_t cold_runs() const { return cold_runs_; }

 private:
  enum class State : uint8_t { kCold, kWarm, kCaptured, kRefused };
  struct Piece {
    std::unique_ptr<device::Graph> graph;
    std::vector<ops::CallList::Call> behind;  // which no graph may hold
  };
  struct Bucket {
    BucketShape shape;
    State state = State::kCold;
    std::vector<Piece> pieces;  // in order; the first one's graph is given the parameters
    device::ReplayParams params;
    device::ReplaySignature signature;  // holds for the steps that run eagerly too
  };
  Status SetSource(Bucket& bucket, const device::View& source);
  bool InGraph(const ops::CallList::Call& call) const;
  void Capture(device::Stream& stream, int index);
  Result<std::vector<Piece>> CapturePieces(device::Stream& stream, int index);
  static Status Replay(device::Stream& stream, const Bucket& bucket);

  device::Device& device_;
  const device::GraphSupport level_;
  const Body body_;
  std::vector<Bucket> buckets_;
  int64_t cold_runs_ = 0;
};

}  // namespace sluice::exec
