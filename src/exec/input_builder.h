// InputBuilder: BatchPlan to PreparedBatch. Checks every number of the plan, which may come from
// another process, so that nothing behind it reads or writes out of range. Buffers are recycled:
// once batches have come back, Build allocates nothing. Build is for one thread at a time; Recycle
// may run on another.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "exec/bucket_shape.h"
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

// The most that the inputs of one step take.
size_t InputBytes(const InputLimits& limits, std::span<const batch::KvGroup> groups);

// The arrays of a step, in the order in which they lie in a buffer, each aligned to
// device::kAlignment.
struct InputShape {
  int64_t tokens = 0, sequences = 0, rows = 0;
  std::vector<int64_t> table_widths;  // by group
};
// Points *inputs into `view`, which is large enough, and returns the bytes taken. A view without
// data gives the bytes alone.
size_t CarveInputs(const device::View& view, const InputShape& shape, model::DeviceBatch* inputs);

class InputBuilder {
 public:
  InputBuilder(device::Device& device, const kvstore::KvStore& store, const InputLimits& limits)
      : device_(device), store_(store), limits_(limits) {}

  // Takes the content of *plan and leaves the buffers of an earlier plan in it, to be filled anew.
  // `stream`: where the copies to the device go. kInvalidArgument names what is wrong with the
  // plan, which is then left as it was.
  Result<PreparedBatch> Build(batch::BatchPlan* plan, device::Stream& stream);
  // From now on plans that fit a bucket are laid out for it: at most `query_max` tokens of a
  // sequence, and no more logits rows than the bucket has tokens. By bucket: its shape, in
  // ascending order of sequences and then tokens, and what the model reads on the device; `bytes`:
  // of staging for the largest, the sampler's part included. Call before the first Build.
  void UseBuckets(std::vector<BucketShape> buckets, int query_max,
                  std::vector<model::DeviceBatch> inputs, size_t bytes);
  // Of a bucket, with the widest block tables.
  InputShape ShapeOf(const BucketShape& bucket) const;
  // Takes a batch's buffers for a later one.
  void Recycle(PreparedBatch&& batch);

 private:
  Status Check(const batch::BatchPlan& plan);
  // These three are false when *error says what is wrong.
  bool CheckEntry(const batch::BatchPlan& plan, size_t index, int64_t next_token,
                  Status* error) const;
  bool CheckRows(const batch::BatchPlan& plan, size_t index, Status* error) const;
  bool CheckTable(const batch::BatchPlan& plan, size_t group, Status* error) const;
  Status CheckStart(const batch::SlotStart& start) const;
  Status CheckCopies(const batch::BatchPlan& plan) const;
  Status TakeBuffers(PreparedBatch* batch);
  // The bucket for a plan, or -1.
  int BucketOf(const batch::BatchPlan& plan) const;
  void Fill(PreparedBatch* batch);
  void FillGroup(const batch::BatchPlan& plan, int group, bool padded,
                 model::GroupInputs* inputs) const;

  device::Device& device_;
  const kvstore::KvStore& store_;
  const InputLimits limits_;
  // Scratch of Build.
  std::vector<bool> taken_slots_;
  model::DeviceBatch host_inputs_;
  InputShape shape_;
  // Of buckets; set once.
  std::vector<BucketShape> buckets_;
  int bucket_query_max_ = 0;  // tokens of a sequence
  std::vector<InputShape> bucket_shapes_;
  std::vector<model::DeviceBatch> bucket_inputs_;
  size_t bucket_bytes_ = 0;
  std::mutex mutex_;
  std::vector<PreparedBatch> spare_;  // guarded by mutex_
};

}  // namespace sluice::exec
