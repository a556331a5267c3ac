#include "exec/graph_runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace sluice::exec {

std::vector<int> GraphRunner::BucketSizes(int largest) {
  std::vector<int> sizes;
  for (int size = 1; size < largest; size += size < 8     ? size
                                             : size < 32  ? 8
                                             : size < 64  ? 16
                                             : size < 256 ? 32
                                                          : 64) {
    sizes.push_back(size);
  }
  sizes.push_back(largest);
  return sizes;
}

Result<std::unique_ptr<GraphRunner>> GraphRunner::Make(device::Device& device,
                                                       std::vector<int> sizes,
                                                       std::vector<size_t> bytes, Body body) {
  CHECK(!sizes.empty() && (bytes.empty() || sizes.size() == bytes.size()), sizes.size(),
        " buckets");
  std::unique_ptr<GraphRunner> runner(new GraphRunner(device, std::move(body)));
  if (!bytes.empty()) {
    SLUICE_ASSIGN_OR_RETURN(runner->parameters_,
                            device.Allocate(bytes.back(), device::MemoryKind::kDevice));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    Bucket& bucket = runner->buckets_.emplace_back();
    bucket.size = sizes[i];
    if (bytes.empty()) continue;
    device::View destination = runner->parameters_.view();
    destination.bytes = bytes[i];
    bucket.params.values.push_back({"inputs", {}, destination});
  }
  runner->sizes_ = std::move(sizes);
  return runner;
}

int GraphRunner::BucketFor(int64_t sequences) const {
  const auto found = std::lower_bound(sizes_.begin(), sizes_.end(), sequences);
  return found == sizes_.end() ? -1 : static_cast<int>(found - sizes_.begin());
}

Status GraphRunner::SetSource(Bucket& bucket, const device::View& source) {
  if (!bucket.params.values.empty()) bucket.params.values[0].source = source;
  return bucket.signature.Check(bucket.params);
}

Status GraphRunner::Upload(device::Stream& stream, int index, const device::View& source) {
  Bucket& bucket = buckets_[index];
  SLUICE_RETURN_IF_ERROR(SetSource(bucket, source));
  if (bucket.params.values.empty()) return OkStatus();
  const device::CopyItem item{bucket.params.values[0].destination, source};
  return device_.Copy(stream, {&item, 1});
}

void GraphRunner::Capture(device::Stream& stream, int index) {
  Bucket& bucket = buckets_[index];
  auto graph = device_.Capture(stream, nullptr, [this, index](device::Stream& recording) {
    return body_(recording, index);
  });
  if (graph.ok()) {
    bucket.graph = std::move(graph).value();
    bucket.state = State::kCaptured;
    return;
  }
  bucket.state = State::kRefused;
  LogWarning("steps of ", bucket.size,
             " sequences run without a graph: ", graph.status().message());
}

Status GraphRunner::Run(device::Stream& stream, int index, const device::View& source) {
  Bucket& bucket = buckets_[index];
  SLUICE_RETURN_IF_ERROR(SetSource(bucket, source));
  if (bucket.state == State::kWarm) Capture(stream, index);
  if (bucket.state == State::kCaptured) return bucket.graph->Replay(stream, bucket.params);
  SLUICE_RETURN_IF_ERROR(Upload(stream, index, source));
  SLUICE_RETURN_IF_ERROR(body_(stream, index));
  if (bucket.state == State::kCold) bucket.state = State::kWarm;
  return OkStatus();
}

std::vector<int> GraphRunner::captured() const {
  std::vector<int> sizes;
  for (const Bucket& bucket : buckets_) {
    if (bucket.state == State::kCaptured) sizes.push_back(bucket.size);
  }
  return sizes;
}

}  // namespace sluice::exec
