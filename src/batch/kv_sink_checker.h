// KvSinkChecker: passes calls on to another sink and refuses those that come in a wrong order, so
// that an executor's defect shows at the call that breaks the rule. Step thread only; does not own
// the sink behind it, which may be null.
#pragma once

#include "batch/kv_sink.h"

namespace sluice::batch {

class KvSinkChecker : public KvSink {
 public:
  // Every forward writes the layers 0 .. layers - 1.
  KvSinkChecker(int layers, KvSink* behind) : layers_(layers), behind_(behind) {}

  // kFailedPrecondition while a forward is open.
  Status Begin(const BatchPlan& plan) override;
  // kFailedPrecondition outside a forward or when `layer` is not the one after the last.
  Status LayerWritten(int layer, int group, EventHandle event) override;
  // kFailedPrecondition outside a forward or before the last layer; the forward is then still open.
  Status Finish() override;
  // Outside a forward it does nothing.
  void Abort() override;

  bool open() const { return open_; }

 private:
  const int layers_;
  KvSink* const behind_;
  bool open_ = false;
  int next_layer_ = 0;
};

}  // namespace sluice::batch
