#include "exec/layer_view.h"

namespace sluice::exec {

ops::PagedKv LayerView(const kvstore::KvStore& store, int index) {
  const kvstore::KvStore::Layer& layer = store.layer(index);
  const batch::KvGroup& layout = store.groups()[layer.group];
  const int64_t blocks = static_cast<int64_t>(layout.num_blocks) * layout.ratio();
  const auto tensor = [&](const device::View& view, DType dtype,
                          std::initializer_list<int64_t> dims) {
    if (view.data == nullptr) return ops::Tensor();
    ops::Tensor t = ops::Dense(view, dtype, dims);
    t.strides[0] = static_cast<int64_t>(layer.stride / Info(dtype).bytes);
    return t;
  };
  const bool state = layout.kind == batch::KvKind::kState;
  const int64_t heads = layout.kv_heads,
                tokens = state ? layout.states : layout.kernel_block_tokens;
  ops::PagedKv kv;
  kv.k = tensor(layer.k, layout.dtype, {blocks, heads, tokens, layout.k_head_dim});
  kv.v = tensor(layer.v, layout.dtype, {blocks, heads, tokens, layout.v_head_dim});
  kv.k_scale = tensor(layer.k_scale, DType::kF32, {blocks, heads, tokens});
  kv.v_scale = tensor(layer.v_scale, DType::kF32, {blocks, heads, tokens});
  return kv;
}

}  // namespace sluice::exec
