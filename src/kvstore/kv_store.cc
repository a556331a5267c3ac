#include "kvstore/kv_store.h"

#include "base/check.h"
#include "device/part.h"

namespace sluice::kvstore {
namespace {

Status CheckGroup(const batch::KvGroup& group, size_t index) {
  if (group.kv_heads <= 0 || group.k_head_dim <= 0 || group.v_head_dim < 0 ||
      group.kernel_block_tokens <= 0 || group.num_blocks <= 0) {
    return InvalidArgument(StrCat("layer group ", index, " has a size that is not positive"));
  }
  if (group.block_tokens <= 0 || group.block_tokens % group.kernel_block_tokens != 0) {
    return InvalidArgument(StrCat("the block size ", group.block_tokens,
                                  " is not a multiple of the kernel block size ",
                                  group.kernel_block_tokens, "; change --block-size"));
  }
  return OkStatus();
}

// Kernels read rows in pieces of up to 16 bytes, so every part of a block begins at a multiple.
size_t PadPart(size_t bytes) { return (bytes + 15) / 16 * 16; }

// Bytes of K or V of one kernel block in one layer, and of its scales.
struct HalfBytes {
  HalfBytes(const batch::KvGroup& group, int head_dim) {
    const bool state = group.kind == batch::KvKind::kState;
    const int units = state ? group.states : group.kernel_block_tokens;
    const size_t rows = static_cast<size_t>(units) * group.kv_heads;
    data = PadPart(RowBytes(group.dtype, rows * head_dim));
    if (!IsCode(group.dtype) || head_dim == 0) return;
    scales = PadPart(rows * sizeof(float));
  }
  size_t sum() const { return data + scales; }
  size_t data = 0, scales = 0;
};

size_t LayerBytes(const batch::KvGroup& group) {
  return HalfBytes(group, group.k_head_dim).sum() + HalfBytes(group, group.v_head_dim).sum();
}

}  // namespace

size_t BlockBytes(const batch::KvGroup& group) {
  return group.layers.size() * LayerBytes(group) * group.ratio();
}

Result<std::unique_ptr<KvStore>> KvStore::Make(device::Device& device,
                                               std::vector<batch::KvGroup> groups) {
  size_t layers = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    SLUICE_RETURN_IF_ERROR(CheckGroup(groups[g], g));
    layers += groups[g].layers.size();
  }
  std::unique_ptr<KvStore> store(new KvStore(device, std::move(groups)));
  store->layers_.resize(layers);
  for (size_t g = 0; g < store->groups_.size(); ++g) {
    const batch::KvGroup& group = store->groups_[g];
    SLUICE_ASSIGN_OR_RETURN(
        device::Buffer pool,
        device.Allocate(BlockBytes(group) * group.num_blocks, device::MemoryKind::kDevice));
    size_t offset = 0;
    for (const int index : group.layers) {
      if (index < 0 || index >= static_cast<int>(layers) || store->layers_[index].group >= 0) {
        return InvalidArgument(StrCat("layer ", index, " is in no group or in two"));
      }
      Layer& layer = store->layers_[index];
      layer.group = static_cast<int>(g);
      layer.stride = BlockBytes(group) / group.ratio();
      const size_t last =
          layer.stride * (static_cast<size_t>(group.num_blocks) * group.ratio() - 1);
      const HalfBytes k(group, group.k_head_dim), v(group, group.v_head_dim);
      for (auto [view, bytes] : {std::pair{&layer.k, k.data},
                                 {&layer.k_scale, k.scales},
                                 {&layer.v, v.data},
                                 {&layer.v_scale, v.scales}}) {
        if (bytes == 0) continue;
        *view = device::Part(pool.view(), offset, last + bytes);
        offset += bytes;
      }
    }
    store->pools_.push_back(std::move(pool));
  }
  return store;
}

const KvStore::Layer& KvStore::layer(int index) const {
  CHECK(index >= 0 && index < layer_count(), "layer ", index, " of ", layer_count());
  return layers_[index];
}

size_t KvStore::bytes() const {
  size_t sum = 0;
  for (const device::Buffer& pool : pools_) sum += pool.bytes();
  return sum;
}

void KvStore::GiveBack(int32_t group, int32_t first, int32_t count) {
  const size_t bytes = BlockBytes(groups_[group]);
  device_.GiveBack(device::Part(pools_[group].view(), first * bytes, count * bytes));
}

Status KvStore::Copy(device::Stream& stream, std::span<const batch::BlockCopy> copies) {
  items_.clear();
  for (const batch::BlockCopy& copy : copies) {
    if (copy.group < 0 || copy.group >= static_cast<int>(groups_.size())) {
      return Status(StatusCode::kInternal, StrCat("block copy in group ", copy.group));
    }
    const batch::KvGroup& group = groups_[copy.group];
    for (const int id : {copy.source, copy.destination}) {
      if (id < 0 || id >= group.num_blocks) {
        return Status(StatusCode::kInternal,
                      StrCat("block copy names block ", id, " of ", group.num_blocks));
      }
    }
    const size_t bytes = BlockBytes(group);
    const device::View pool = pools_[copy.group].view();
    items_.push_back({device::Part(pool, bytes * copy.destination, bytes),
                      device::Part(pool, bytes * copy.source, bytes)});
  }
  return device_.Copy(stream, items_);
}

}  // namespace sluice::kvstore
