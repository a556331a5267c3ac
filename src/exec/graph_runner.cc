#include "exec/graph_runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "ops/attention.h"
#include "ops/index_scores.h"
#include "ops/latent_attention.h"
#include "ops/recurrent.h"

namespace sluice::exec {

GraphRunner::GraphRunner(device::Device& device, device::GraphSupport level,
                         std::vector<BucketShape> shapes, std::span<const size_t> bytes,
                         const device::View& parameters, Body body)
    : device_(device), level_(level), body_(std::move(body)) {
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

// Attention of all kinds: what reads the lengths of sequences.
bool GraphRunner::InGraph(const ops::CallList::Call& call) const {
  if (call.graphs != device::GraphSupport::kFull) return false;
  return level_ == device::GraphSupport::kFull ||
         (call.op != ops::Attention::kName && call.op != ops::LatentAttention::kName &&
          call.op != ops::IndexScores::kName && call.op != ops::ShortConv::kName &&
          call.op != ops::GatedDelta::kName && call.op != ops::Ssd::kName &&
          call.op != ops::SelectiveScan::kName);
}

Result<std::vector<GraphRunner::Piece>> GraphRunner::CapturePieces(device::Stream& stream,
                                                                   int index) {
  ops::CallList list;
  SLUICE_RETURN_IF_ERROR(body_(list, index));
  const auto in_graph = [this](const ops::CallList::Call& call) { return InGraph(call); };
  std::vector<Piece> pieces;
  auto at = list.calls().begin();
  do {
    const auto end = std::find_if_not(at, list.calls().end(), in_graph);
    const auto next = std::find_if(end, list.calls().end(), in_graph);
    SLUICE_ASSIGN_OR_RETURN(
        auto graph, device_.Capture(stream, nullptr, [&](device::Stream& recording) -> Status {
          for (auto call = at; call != end; ++call) {
            SLUICE_RETURN_IF_ERROR(call->make(recording));
          }
          return OkStatus();
        }));
    pieces.push_back({std::move(graph), {end, next}});
    at = next;
  } while (at != list.calls().end());
  return pieces;
}

void GraphRunner::Capture(device::Stream& stream, int index) {
  Bucket& bucket = buckets_[index];
  auto pieces = CapturePieces(stream, index);
  if (pieces.ok()) {
    bucket.pieces = *std::move(pieces);
    bucket.state = State::kCaptured;
    return;
  }
  bucket.state = State::kRefused;
  LogWarning("steps of ", bucket.shape.sequences, " sequences and ", bucket.shape.tokens,
             " tokens run without a graph: ", pieces.status().message());
}

Status GraphRunner::Replay(device::Stream& stream, const Bucket& bucket) {
  const device::ReplayParams none;
  const device::ReplayParams* given = &bucket.params;
  for (const Piece& piece : bucket.pieces) {
    SLUICE_RETURN_IF_ERROR(piece.graph->Replay(stream, *given));
    for (const ops::CallList::Call& call : piece.behind) {
      SLUICE_RETURN_IF_ERROR(call.make(stream));
    }
    given = &none;
  }
  return OkStatus();
}

Status GraphRunner::Run(device::Stream& stream, int index, const device::View& source) {
  Bucket& bucket = buckets_[index];
  SLUICE_RETURN_IF_ERROR(SetSource(bucket, source));
  cold_runs_ += bucket.state == State::kCold || bucket.state == State::kWarm ? 1 : 0;
  if (bucket.state == State::kWarm) Capture(stream, index);
  if (bucket.state == State::kCaptured) return Replay(stream, bucket);
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
