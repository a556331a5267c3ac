// InputBuilder: BatchPlan to PreparedBatch. Checks every number of the plan, which may come from
// another process, so that nothing behind it reads or writes out of range, and that it goes on from
// what the device was told. Buffers are recycled: once batches have come back, Build allocates
// nothing. Step thread only.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/bucket_shape.h"
#include "exec/prepared_batch.h"
#include "exec/slot_tables.h"

namespace sluice::exec {

struct InputLimits {
  int64_t tokens = 0;  // padding included
  int64_t sequences = 0;
  int64_t logits_rows = 0;
  int64_t slots = 0;      // sampler slots
  int64_t positions = 0;  // max model length
  int64_t vocab = 0;
  int32_t token_types = 0;  // of the model; 0: tokens have none
  int32_t guesses = 0;      // behind an entry; 0: plans ask for none
  bool trees = false;       // drafts may be trees
  bool draws = false;       // guesses are drawn by StepInputs::draft_rows, which the caller fills
  size_t behind = 0;        // bytes of staging behind a step's inputs that are the caller's
};

// Of the largest step, which tells every table whole.
InputShape LargestShape(const InputLimits& limits, std::span<const batch::KvGroup> groups);

class InputBuilder {
 public:
  InputBuilder(device::Device& device, std::span<const batch::KvGroup> groups,
               const InputLimits& limits)
      : device_(device),
        groups_(groups.begin(), groups.end()),
        limits_(limits),
        tables_(groups, limits.slots) {}

  // Takes the content of *plan and leaves the buffers of an earlier plan in it, to be filled anew.
  // kInvalidArgument names what is wrong with the plan, which is then left as it was. Batches are
  // launched in the order in which they were built; one that fails or is dropped must be forgotten.
  Result<PreparedBatch> Build(batch::BatchPlan* plan);
  // From now on plans that fit a bucket are laid out for it, those with at most `query_max` tokens
  // of a sequence if they can for one that is no chunk's. Chunks come behind the others, in the
  // order of ChunkShapes; the others in that of BucketShapes. Call before the first Build.
  void UseBuckets(std::vector<BucketShape> buckets, int query_max);
  // Of a bucket, with the widest block tables and room for some news of them.
  InputShape ShapeOf(const BucketShape& bucket) const;
  // The batch came to nothing, or nobody knows what it did: what it told is to be told again.
  void Forget(const PreparedBatch& batch) { tables_.Forget(batch.plan); }
  // These rows of a batch, whose masks were late, drew nothing.
  void ForgetDrawn(const PreparedBatch& batch, std::span<const int32_t> rows) {
    tables_.ForgetDrawn(batch.plan, rows);
  }
  // What the batch drew has been read. To be called in the order of their steps.
  void Settle(const PreparedBatch& batch, const batch::StepResult& result) {
    tables_.Settle(batch.plan, result);
  }
  // Nothing counts that was told so far.
  void ForgetAll() { tables_.ForgetAll(); }
  // Takes a batch's buffers for a later one.
  void Recycle(PreparedBatch&& batch) { spare_.push_back(std::move(batch)); }

 private:
  Status Check(const batch::BatchPlan& plan);
  // These six are false when *error says what is wrong.
  bool CheckEntry(const batch::BatchPlan& plan, size_t index, int64_t next_token,
                  Status* error) const;
  bool CheckTokens(const batch::BatchPlan& plan, size_t index, Status* error) const;
  bool CheckRows(const batch::BatchPlan& plan, size_t index, Status* error) const;
  bool CheckTree(const batch::BatchPlan& plan, size_t index, Status* error) const;
  bool CheckGuesses(const batch::BatchPlan& plan, size_t index, Status* error) const;
  bool CheckTable(const batch::BatchPlan& plan, size_t group, Status* error) const;
  Status CheckStart(const batch::SlotStart& start) const;
  Status CheckCopies(const batch::BatchPlan& plan) const;
  Status TakeBuffers(PreparedBatch* batch);
  // The bucket that a plan is laid out for, if it tells no more than that has room for. -1: none.
  int DecodeBucket(const batch::BatchPlan& plan) const;
  int ChunkBucket(const batch::BatchPlan& plan) const;
  // Sets bucket and overfull of a batch that has its plan.
  void ChooseBucket(PreparedBatch* batch) const;
  void SetShape(PreparedBatch* batch) const;
  void Fill(PreparedBatch* batch);
  void FillTypes(const PreparedBatch& batch);
  void FillPaths(const PreparedBatch& batch);
  void FillDrafts(const PreparedBatch& batch);

  device::Device& device_;
  const std::vector<batch::KvGroup> groups_;
  const InputLimits limits_;
  SlotTables tables_;
  // Scratch of Build.
  std::vector<bool> taken_slots_;
  StepInputs inputs_;
  std::string why_;
  // Of buckets; set once.
  std::vector<BucketShape> buckets_;
  size_t first_chunk_ = 0;    // of buckets_
  int bucket_query_max_ = 0;  // tokens of a sequence
  std::vector<InputShape> bucket_shapes_;
  std::vector<PreparedBatch> spare_;
};

}  // namespace sluice::exec
