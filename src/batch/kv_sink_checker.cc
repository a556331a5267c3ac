#include "batch/kv_sink_checker.h"

#include "base/str_cat.h"

namespace sluice::batch {
namespace {

Status WrongOrder(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}

}  // namespace

Status KvSinkChecker::Begin(const BatchPlan& plan) {
  if (open_) return WrongOrder("KvSink::Begin was called before the last forward was finished.");
  if (behind_ != nullptr) SLUICE_RETURN_IF_ERROR(behind_->Begin(plan));
  open_ = true;
  next_layer_ = 0;
  return OkStatus();
}

Status KvSinkChecker::LayerWritten(int layer, int group, EventHandle event) {
  if (!open_) return WrongOrder("KvSink::LayerWritten was called outside a forward.");
  if (layer != next_layer_ || layer >= layers_) {
    return WrongOrder(StrCat("KvSink::LayerWritten was called for layer ", layer, " of ", layers_,
                             " where layer ", next_layer_, " is due."));
  }
  if (behind_ != nullptr) SLUICE_RETURN_IF_ERROR(behind_->LayerWritten(layer, group, event));
  ++next_layer_;
  return OkStatus();
}

Status KvSinkChecker::Finish() {
  if (!open_) return WrongOrder("KvSink::Finish was called outside a forward.");
  if (next_layer_ != layers_) {
    return WrongOrder(
        StrCat("KvSink::Finish was called after ", next_layer_, " of ", layers_, " layers."));
  }
  open_ = false;
  return behind_ != nullptr ? behind_->Finish() : OkStatus();
}

void KvSinkChecker::Abort() {
  if (!open_) return;
  open_ = false;
  if (behind_ != nullptr) behind_->Abort();
}

}  // namespace sluice::batch
