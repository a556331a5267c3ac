// KvStore: the bytes of the KV cache. A group of layers has one pool
//   [kernel_blocks][layers][K, V], each K and V of [kv_heads, kernel_block_tokens, head_dim], or
//   of [kv_heads, states, head_dim] in a group of states,
// so that a block is one piece of memory for all its layers: it is copied and moved as a whole, and
// a short sequence touches few pages. K and V of a format with scales (F8_E4M3, I8) are each
// followed by theirs, F32 [kv_heads, kernel_block_tokens]. In every kernel block K, V and scales
// begin at multiples of 16 bytes, and end there too. Cache block b is the kernel blocks [b * ratio,
// (b + 1) * ratio). Which block belongs to whom is blocks/'s affair. Step thread only; the Device
// must outlive it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "batch/kv_group.h"
#include "batch/plan.h"
#include "device/device.h"

namespace sluice::kvstore {

// Of one cache block, all layers of the group, K and V and their scales.
size_t BlockBytes(const batch::KvGroup& group);

class KvStore {
 public:
  // Where a layer's KV is: K, V and scales of the first kernel block begin at the views' data,
  // those of the next `stride` bytes further. The views end with the last block; one without data
  // is not there.
  struct Layer {
    int group = -1;
    size_t stride = 0;
    device::View k, v, k_scale, v_scale;
  };

  // kInvalidArgument when groups overlap, skip a layer or a size is not positive; kOutOfMemory when
  // the device has not the room.
  static Result<std::unique_ptr<KvStore>> Make(device::Device& device,
                                               std::vector<batch::KvGroup> groups);

  // REQUIRES: 0 <= index < layer_count().
  const Layer& layer(int index) const;
  int layer_count() const { return static_cast<int>(layers_.size()); }
  const std::vector<batch::KvGroup>& groups() const { return groups_; }
  size_t bytes() const;

  // What stands in `count` cache blocks of a group, from `first` on, is of no use any more: see
  // Device::GiveBack. REQUIRES: they are blocks of the group.
  void GiveBack(int32_t group, int32_t first, int32_t count);

  // Copies whole blocks in all layers of their groups, in order on `stream`. Ids out of range are
  // errors and nothing is copied.
  Status Copy(device::Stream& stream, std::span<const batch::BlockCopy> copies);

 private:
  KvStore(device::Device& device, std::vector<batch::KvGroup> groups)
      : device_(device), groups_(std::move(groups)) {}

  device::Device& device_;
  const std::vector<batch::KvGroup> groups_;
  std::vector<device::Buffer> pools_;  // by group
  std::vector<Layer> layers_;
  std::vector<device::CopyItem> items_;  // reused by Copy
};

}  // namespace sluice::kvstore
