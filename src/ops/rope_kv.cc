#include "ops/rope_kv.h"

#include <cmath>

#include "ops/check_args.h"

namespace sluice::ops {

std::string RopeKv::Desc::ToString() const {
  const std::string_view name = form == RopeKvForm::kPrefillQkvOut ? "prefill_qkv_out"
                                : form == RopeKvForm::kPrefillQOut ? "prefill_q_out"
                                                                   : "decode";
  return StrCat(name, " ", Name(activation), " ", q_heads, "/", kv_heads, " heads of ", head_dim,
                " rotary ", rotary_dims, interleaved ? " interleaved" : " neox", " kv ",
                kv.ToString());
}

Status CheckArgs(const RopeKv::Desc& desc, const RopeKv::Args& args) {
  const int64_t tokens = args.qkv.rank == 2 ? args.qkv.dims[0] : -1;
  const int64_t width = int64_t{desc.q_heads + 2 * desc.kv_heads} * desc.head_dim;
  ArgsChecker check(RopeKv::kName, args.qkv);
  check.Expect("qkv", args.qkv, desc.activation, {tokens, width})
      .Expect("positions", args.positions, DType::kI32, {tokens})
      .Expect("slots", args.slots, DType::kI32, {tokens})
      .ExpectIf(desc.form != RopeKvForm::kPrefillQkvOut, "q_out", args.q_out, desc.activation,
                {tokens, int64_t{desc.q_heads} * desc.head_dim})
      .ExpectApart("qkv", args.qkv, "q_out", args.q_out);
  // A layer without rotation may be handed the table of its neighbours; it is not read.
  if (desc.rotary_dims > 0) check.Expect("table", args.table, DType::kF32, {-1, desc.rotary_dims});
  if (desc.kv_heads > 0) ExpectPagedKv(desc.kv, args.kv, check);
  return check.status();
}

Status CheckIndices(const RopeKv::Desc& desc, const RopeKv::Args& args) {
  if (desc.kv_heads > 0) {
    const int64_t slots = args.kv.k.dims[0] * desc.kv.kernel_block_tokens;
    SLUICE_RETURN_IF_ERROR(CheckIndices(RopeKv::kName, "slots", args.slots, -1, slots));
  }
  if (desc.rotary_dims == 0) return OkStatus();
  return CheckIndices(RopeKv::kName, "positions", args.positions, 0, args.table.dims[0]);
}

void FillRopeTable(std::span<const double> frequencies, double scale, int64_t positions,
                   float* table) {
  const int64_t pairs = static_cast<int64_t>(frequencies.size());
  for (int64_t p = 0; p < positions; ++p) {
    float* row = table + p * 2 * pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      row[i] = static_cast<float>(std::cos(angle) * scale);
      row[pairs + i] = static_cast<float>(std::sin(angle) * scale);
    }
  }
}

}  // namespace sluice::ops
