// Rows as codes of 8 bits, for products that multiply codes: so many elements of a row, a group,
// share a scale, which is found when the op runs. The rows may be what a gated activation gives, so
// that nothing stands in memory between the two. A row's codes and scales depend on that row alone,
// and are the same bits whether the op reads rows or makes them.
//   scale = the largest |x| of the group / 448 (F8_E4M3) or / 127 (I8); 1 where that is 0, NaN
//   where
//           the group holds NaN or an infinity, so that no scale is infinite
//   code  = x / scale, to the nearest even, at most +-448 or +-127; 0 in I8 where the scale is NaN
// With ue8m0 the scale is the smallest power of two that is not below that. What a gated activation
// gives is rounded to the activation type before.
#pragma once

#include <span>

#include "ops/activation.h"
#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// Elements of a row that share a scale in what linears read (ops/linear.h).
inline constexpr int64_t kCodeGroup = 128;

// What an op that makes rows gives: as they are, as codes in F8_E4M3 with F32 scales of kCodeGroup
// elements, or both.
enum class RowForm : uint8_t { kPlain, kCodes, kBoth };

// Rows as codes and their scales.
struct CodedRows {
  Tensor codes;   // [rows, width]
  Tensor scales;  // [groups of a row, rows], rows may be strided
  bool empty() const { return codes.empty(); }
};

// per_token_group_quant, as SGLang and RTP-LLM name it, in INT8 and FP8, with their scale_ue8m0,
// masked_m (here `parts`) and fuse_silu_and_mul (here `gated`).
struct GroupQuant {
  static constexpr std::string_view kName = "per_token_group_quant";
  struct Desc {
    DType activation = DType::kF32;
    DType codes = DType::kF8E4M3;  // or kI8
    bool ue8m0 = false;
    int64_t width = 0;           // of a row of codes
    int64_t group = kCodeGroup;  // elements that share a scale; the last ones of a row may be fewer
    // Rows are ops::GatedActivation's of x, with what its descriptor has of these names.
    bool gated = false;
    Activation kind = Activation::kSilu;
    float gate_scale = 1.0f, out_scale = 1.0f;
    // Above 0: rows lie in so many equal parts, of which Args::counts says how many rows each has.
    // The others are neither read nor written.
    int parts = 0;
    int64_t groups() const { return (width + group - 1) / group; }
    DType ScaleDType() const { return ue8m0 ? DType::kU8 : DType::kF32; }
    std::string ToString() const;
  };
  struct Args {
    Tensor x;       // [rows, width], or gated [rows, 2 * width]; rows may be strided
    Tensor counts;  // I32 [parts], from 0 to the rows of a part; or empty
    Tensor codes;   // [rows, width] of the codes' type; rows may be strided
    // [groups, rows], rows may be strided: F32, or with ue8m0 U8: e stands for 2^(e - 127), and 255
    // for NaN.
    Tensor scales;
  };
};

// The scale of a group in F32, as above, without ue8m0. REQUIRES: `codes` is kF8E4M3 or kI8.
float GroupScale(DType codes, std::span<const float> x);
// The power of two in the place of a scale above 0, as U8; 255 for NaN.
uint8_t Ue8m0Of(float scale);
float Ue8m0ToF32(uint8_t bits);
// A row's codes and scales in F8_E4M3 and groups of kCodeGroup, where a scale stands `scale_step`
// numbers behind the one before it.
void CodeRow(std::span<const float> x, std::byte* codes, float* scales, int64_t scale_step);

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const GroupQuant::Desc& desc, const GroupQuant::Args& args);

Support RefGroupQuantSupports(const GroupQuant::Desc& desc, const device::DeviceFacts& facts);
Status RefGroupQuant(device::Stream& stream, const GroupQuant::Desc& desc,
                     const GroupQuant::Args& args);

}  // namespace sluice::ops
