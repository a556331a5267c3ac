// InputBuilder: BatchPlan to PreparedBatch. Checks every number of the plan, which may come from
// another process, so that nothing behind it reads or writes out of range. Buffers are recycled.
// One thread at a time.
#pragma once

#include <vector>

#include "exec/prepared_batch.h"
#include "kvstore/kv_store.h"

namespace sluice::exec {

struct InputLimits {
  int64_t tokens = 0;  // padding included
  int64_t sequences = 0;
  int64_t logits_rows = 0;
  int64_t slots = 0;      // sampler slots
  int64_t positions = 0;  // max model length
  int64_t vocab = 0;
};

class InputBuilder {
 public:
  InputBuilder(device::Device& device, const kvstore::KvStore& store, const InputLimits& limits)
      : device_(device), store_(store), limits_(limits) {}

  // `stream`: where the copies to the device go. kInvalidArgument names what is wrong with the
  // plan.
  Result<PreparedBatch> Build(batch::BatchPlan plan, device::Stream& stream);
  // Takes a batch's buffers for the next one.
  void Recycle(PreparedBatch&& batch);

 private:
  Status Check(const batch::BatchPlan& plan) const;
  Status CheckEntry(const batch::BatchPlan& plan, size_t index, int64_t next_token) const;
  Status CheckTables(const batch::BatchPlan& plan) const;
  Status TakeBuffers(PreparedBatch* batch);
  void Fill(PreparedBatch* batch) const;
  void FillGroup(const batch::BatchPlan& plan, int group, model::GroupInputs* inputs) const;
  int64_t BlocksMax(int group) const;
  size_t BytesMax() const;

  device::Device& device_;
  const kvstore::KvStore& store_;
  const InputLimits limits_;
  std::vector<PreparedBatch> spare_;
};

}  // namespace sluice::exec
