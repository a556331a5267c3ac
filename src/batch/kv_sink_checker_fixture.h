// For tests. KvSinkChecker: passes calls on to another sink and refuses those that come in a wrong
// order, so that an executor's defect shows at the call that breaks the rule. One thread; does not
// own the sink behind it, which may be null.
#pragma once

#include <string>
#include <utility>

#include "base/str_cat.h"
#include "batch/kv_sink.h"

namespace sluice::batch {

class KvSinkChecker : public KvSink {
 public:
  // Every forward writes the layers 0 .. layers - 1.
  KvSinkChecker(int layers, KvSink* behind) : layers_(layers), behind_(behind) {}

  // kFailedPrecondition while a forward is open.
  Status Begin(const BatchPlan& plan) override {
    if (open_) return WrongOrder("KvSink::Begin was called before the last forward was finished.");
    if (behind_ != nullptr) SLUICE_RETURN_IF_ERROR(behind_->Begin(plan));
    open_ = true;
    next_layer_ = 0;
    return OkStatus();
  }

  // kFailedPrecondition outside a forward or when `layer` is not the one after the last.
  Status LayerWritten(int layer, int group, EventHandle event) override {
    if (!open_) return WrongOrder("KvSink::LayerWritten was called outside a forward.");
    if (layer != next_layer_ || layer >= layers_) {
      return WrongOrder(StrCat("KvSink::LayerWritten was called for layer ", layer, " of ", layers_,
                               " where layer ", next_layer_, " is due."));
    }
    if (behind_ != nullptr) SLUICE_RETURN_IF_ERROR(behind_->LayerWritten(layer, group, event));
    ++next_layer_;
    return OkStatus();
  }

  // kFailedPrecondition outside a forward or before the last layer; the forward is then still open.
  Status Finish() override {
    if (!open_) return WrongOrder("KvSink::Finish was called outside a forward.");
    if (next_layer_ != layers_) {
      return WrongOrder(
          StrCat("KvSink::Finish was called after ", next_layer_, " of ", layers_, " layers."));
    }
    open_ = false;
    return behind_ != nullptr ? behind_->Finish() : OkStatus();
  }

  // Outside a forward it does nothing.
  void Abort() override {
    if (!open_) return;
    open_ = false;
    if (behind_ != nullptr) behind_->Abort();
  }

  bool open() const { return open_; }

 private:
  static Status WrongOrder(std::string message) {
    return {StatusCode::kFailedPrecondition, std::move(message)};
  }

  const int layers_;
  KvSink* const behind_;
  bool open_ = false;
  int next_layer_ = 0;
};

}  // namespace sluice::batch
