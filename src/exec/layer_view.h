// Where the ops find the KV of a layer. Any thread.
#pragma once

#include "kvstore/kv_store.h"
#include "ops/paged_kv.h"

namespace sluice::exec {

// REQUIRES: 0 <= index < store.layer_count(). The store must outlive the view.
ops::PagedKv LayerView(const kvstore::KvStore& store, int index);

}  // namespace sluice::exec
