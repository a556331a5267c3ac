#include "exec/graph_runner.h"

#include "base/check.h"
#include "base/log.h"

namespace sluice::exec {

GraphRunner::GraphRunner(device::Device& device, std::vector<BucketShape> shapes,
                         std::span<const size_t> bytes, const device::View& parameters, Body body)
    : device_(device), body_(std::move(body)) {
  CHECK(!shapes.empty() && (bytes.empty() || shapes.size() == bytes.size()), shapes.size(),
        " buckets");
  for (size_t i = 0; i < shapes.size(); ++i) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.shape = shapes[i];
    if (bytes.empty()) continue;
    device::View destination = parameters;
    destination.bytes = bytes[i];
    bucket.params.values.push_back({"inputs", {}, destination});
  }
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
  LogWarning("steps of ", bucket.shape.sequences, " sequences and ", bucket.shape.tokens,
             " tokens run without a graph: ", graph.status().message());
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

std::vector<BucketShape> GraphRunner::captured() const {
  std::vector<BucketShape> shapes;
  for (const Bucket& bucket : buckets_) {
    if (bucket.state == State::kCaptured) shapes.push_back(bucket.shape);
  }
  return shapes;
}

}  // namespace sluice::exec
