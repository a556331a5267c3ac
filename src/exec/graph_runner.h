// GraphRunner: decode and verify steps through captured graphs, one per bucket of sequences and
// tokens. What changes from step to step lies in one buffer on the device, in a layout that depends
// on the bucket alone, and reaches it as one copy; buckets share that buffer. A bucket's first step
// runs eagerly, so that kernels are loaded and algorithms chosen, its second is captured, the
// others are replayed. A bucket that cannot be captured runs eagerly for good and says so once.
// Step thread only, but for BucketFor and what never changes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/replay_signature.h"
#include "exec/bucket_shape.h"

namespace sluice::exec {

class GraphRunner {
 public:
  // The step of `bucket` put on the stream: everything between the copy in and the copy out.
  using Body = std::function<Status(device::Stream&, int bucket)>;

  // `bytes`: of each bucket's parameters, which lie at the beginning of `parameters` on the device;
  // none where its step reads what others were given.
  GraphRunner(device::Device& device, std::vector<BucketShape> shapes,
              std::span<const size_t> bytes, const device::View& parameters, Body body);

  const BucketShape& shape(int bucket) const { return buckets_[bucket].shape; }

  // Copies the parameters and runs the step. `source`: staging memory of the bucket's size that is
  // left alone until the step is done.
  Status Run(device::Stream& stream, int bucket, const device::View& source);
  // Copies the parameters alone, for a step that has to run eagerly.
  Status Upload(device::Stream& stream, int bucket, const device::View& source);

  // The buckets that were captured so far.
  std::vector<BucketShape> captured() const;

 private:
  enum class State : uint8_t { kCold, kWarm, kCaptured, kRefused };
  struct Bucket {
    BucketShape shape;
    State state = State::kCold;
    std::unique_ptr<device::Graph> graph;
    device::ReplayParams params;
    device::ReplaySignature signature;  // holds for the steps that run eagerly too
  };
  Status SetSource(Bucket& bucket, const device::View& source);
  void Capture(device::Stream& stream, int index);

  device::Device& device_;
  const Body body_;
  std::vector<Bucket> buckets_;
};

}  // namespace sluice::exec
