// Fused RoPE + KV write: rotates Q and K of packed QKV by position and writes K and V into the
// paged cache, in three forms. A rotated value is rounded to the activation type before it goes to
// the cache, in every form, so that the form never changes what is kept. Without KV heads there is
// only Q, and nothing is kept. Where the KV's format has
// scales, each row of K and V gets its own (StoreKvRow). The rotation table is made once per model
// (MakeRopeTable); dims past rotary_dims pass through.
//
// Where positions and slots lie in host memory, one outside its table is kInvalidArgument and
// nothing is written (CheckIndices). Elsewhere a token at a position outside is rotated by NaN, so
// that its Q and K are noticed and V is as ever, and K and V of a slot outside the cache are not
// kept.
#pragma once

#include <span>

#include "ops/op.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"

namespace sluice::ops {

enum class RopeKvForm : uint8_t {
  kPrefillQkvOut,  // rotated Q and K and plain V also stay in qkv
  kPrefillQOut,    // only rotated Q is left, in q_out
  kDecode,         // as kPrefillQOut; one or few tokens per sequence
};

struct RopeKv {
  static constexpr std::string_view kName = "rope_kv";
  struct Desc {
    RopeKvForm form = RopeKvForm::kPrefillQOut;
    DType activation = DType::kF32;
    int q_heads = 0, kv_heads = 0, head_dim = 0;
    int rotary_dims = 0;  // 0: no rotation at all
    bool interleaved = false;
    KvDesc kv;
    std::string ToString() const;
  };
  struct Args {
    Tensor qkv;  // [tokens, (q_heads + 2 kv_heads) * head_dim]; written by kPrefillQkvOut only
    Tensor positions;  // I32 [tokens]
    Tensor
        table;  // F32 [positions_max, rotary_dims]: cos of each pair, then sin; empty: no rotation
    Tensor slots;  // I32 [tokens]: kernel_block * kernel_block_tokens + offset; -1: not written
    Tensor q_out;  // [tokens, q_heads * head_dim]; empty for kPrefillQkvOut
    PagedKv kv;    // empty without KV heads
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const RopeKv::Desc& desc, const RopeKv::Args& args);
// Positions lie inside the table and slots inside the KV. REQUIRES: CheckArgs is ok; host memory.
Status CheckIndices(const RopeKv::Desc& desc, const RopeKv::Args& args);

// cos and sin of every position below `positions` for one inverse frequency per pair, times
// `scale`, computed in double: [positions, 2 * frequencies.size()], row = cos..., sin... . Host
// memory.
void FillRopeTable(std::span<const double> frequencies, double scale, int64_t positions,
                   float* table);

Support RefRopeKvSupports(const RopeKv::Desc& desc, const device::DeviceFacts& facts);
Status RefRopeKv(device::Stream& stream, const RopeKv::Desc& desc, const RopeKv::Args& args);

}  // namespace sluice::ops
