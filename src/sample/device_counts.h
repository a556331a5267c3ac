// DeviceCounts: how often the sequences with penalties have had each token, on the device, so that
// a step of theirs may be put on the stream before the one before it was read. A sampler's slot has
// the row of its number; slots beyond the last row have none, and their penalties come as edits.
// Where the device is the host, the ops read and write the same arrays, and nothing is copied. Step
// thread only.
#pragma once

#include <vector>

#include "ops/sampling.h"
#include "ops/token_counts.h"
#include "sample/slot_state.h"

namespace sluice::sample {

class DeviceCounts {
 public:
  // Rows that a step sets before it samples: those of slots that start, or whose step before
  // failed. Buffers are used again.
  class Sets {
   public:
    bool empty() const { return rows_.empty(); }
    void Clear();

   private:
    friend class DeviceCounts;
    std::vector<int32_t> rows_, words_;  // as ops::SetCounts takes them
    device::Buffer staging_;             // unused where the device reads host memory
  };

  // As many of `slots` as bytes_max holds rows for, but at least kRowsMin where there are as many.
  static constexpr int kRowsMin = 4;
  static int Rows(int64_t vocab, int slots, size_t bytes_max);
  // What Make takes for so many rows. A step that sets rows of more than kWordsMin ids in all makes
  // it grow.
  static size_t Bytes(int64_t vocab, int rows);
  static Result<DeviceCounts> Make(device::Device& device, int64_t vocab, int rows,
                                   std::vector<ops::BindRecord>* records);

  int rows() const { return static_cast<int>(counts_.dims[0]); }
  const ops::Tensor& tensor() const { return counts_; }

  // Adds the row of a slot. REQUIRES: slot < rows(); nothing is being drawn for it.
  void Add(int slot, const SlotState& state, Sets* sets);
  // Puts the sets on the stream; they are left alone until they are done.
  Status Set(device::Stream& stream, Sets* sets);

 private:
  // Ids of the sets of one step that have room from the start: 0.5 MiB.
  static constexpr int64_t kWordsMin = 1 << 16;

  device::Device* device_ = nullptr;
  ops::Bound<ops::SetCounts> set_;
  device::Buffer memory_, inputs_;  // the counts, and what set_ reads
  ops::Tensor counts_;              // I32 [rows, vocab], in memory_
  std::vector<uint32_t> tally_;     // [vocab], zeros between calls of Add
};

}  // namespace sluice::sample
