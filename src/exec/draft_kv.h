// DraftKv: the KV of what guesses beside a model, in pools of its own, in blocks of the same
// numbers as those of the model's layers of full attention: whoever shares, copies, keeps or gives
// up a block there does so here, and nobody keeps a second book. Step thread only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kvstore/kv_store.h"
#include "model/model.h"

namespace sluice::exec {

class DraftKv {
 public:
  // `store`, which must outlive it, has the groups of what guesses, each of as many blocks as
  // `followed`, a group of the model. `sequences`: of a step.
  static Result<std::unique_ptr<DraftKv>> Make(device::Device& device, kvstore::KvStore& store,
                                               int followed, int64_t sequences);
  // Device memory that Make takes for so many groups.
  static size_t DeviceBytes(size_t groups, int64_t sequences);

  // The model's blocks are copied, and so are these.
  Status CopyBlocks(device::Stream& stream, std::span<const batch::BlockCopy> copies);
  // Of a pass: KV and plans of attention. It has no observer.
  model::ForwardContext Context(device::Stream& stream, const device::View& workspace) const;

  int followed() const { return followed_; }
  size_t groups() const { return store_.groups().size(); }

 private:
  DraftKv(kvstore::KvStore& store, int followed) : store_(store), followed_(followed) {}

  kvstore::KvStore& store_;
  const int followed_;
  device::Buffer memory_;                     // of attention_plans_
  std::vector<ops::Tensor> attention_plans_;  // by group
  std::vector<ops::PagedKv> kv_;              // by layer
  std::vector<batch::BlockCopy> copies_;
};

}  // namespace sluice::exec
