// NormedRopeKv: RMSNorm of Q and K heads (ops/norm.h), then RoPE and the KV write (ops/rope_kv.h),
// as one op, which leaves packed QKV as it is. An implementation gives the bits of the device's own
// ops for the parts one after another.
#pragma once

#include "ops/norm.h"
#include "ops/rope_kv.h"

namespace sluice::ops {

struct NormedRopeKv {
  static constexpr std::string_view kName = "normed_rope_kv";
  struct Desc {
    RopeKv::Desc rope;  // of a form that leaves Q in q_out
    float eps = 1e-5f;
    QkNorm::Desc norm() const;
    std::string ToString() const;
  };
  struct Args {  // as RopeKv::Args and QkNorm::Args have them
    Tensor qkv, positions, table, slots, q_out;
    PagedKv kv;
    Tensor q_weight, k_weight;
  };
};

// The parts' arguments over `qkv`.
RopeKv::Args RopeArgsOf(const NormedRopeKv::Args& args, const Tensor& qkv);

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const NormedRopeKv::Desc& desc, const NormedRopeKv::Args& args);

Support RefNormedRopeKvSupports(const NormedRopeKv::Desc& desc, const device::DeviceFacts& facts);
Status RefNormedRopeKv(device::Stream& stream, const NormedRopeKv::Desc& desc,
                       const NormedRopeKv::Args& args);

}  // namespace sluice::ops
