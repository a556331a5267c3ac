// Linear: out[m, n] = sum over k of x[m, k] * W[n, k] (+ bias[n]) (+ residual[m, n]).
//
// W is stored in its own number format, in the layout that the chosen implementation asks for. The
// arithmetic of one output is fixed, whatever m is and, but for BF16, on every instruction set of
// the CPU, so one row gives the same bits in any batch:
//   W in F32, F16, BF16, F8: acc = fma(w[k], x[k], acc) in F32, k ascending.
//   W in BF16 on matrix units (implementations named <arch>_bf16_linear): x is rounded to bf16, to
//   the nearest even, denormals to zero; then, for each 32 elements, k ascending, with both sums
//   from zero in that way: acc = acc + (sum of even products + sum of odd products).
//   W in a block format: x is quantized per 32 elements to int8 with dx = max|x| / 127 and
//   code = x * (127 / max|x|) to the nearest even integer; a block with max|x| < 2^-100 counts as
//   zeros, one with NaN or infinity makes the row's outputs NaN. Then, for each sub-block of W
//   (ops/formats/format.h), k ascending, with exact integer sums:
//     acc = fma(scale * dx, F32(sum of (value - offset) * code), acc)
//     acc = fma(minimum, dx * F32(sum of code), acc)      where the format has a minimum
//   and with scales, of rows or of all of W, at the end acc = acc * scale. With an order, column i
//   of W meets element order[i] of x, which is put into that order first.
//   W in F8 with scales: for each 128 elements, k ascending: acc = fma(sum, inner, acc). Without
//   x_scales, sum = fma(code of w[k], x[k], sum) in F32, from zero, k ascending. With them x
//   becomes F8, too: a code is x / scale, to the nearest even, at most +-448, and dynamic scales
//   are the largest |x| they cover, over 448 (1 where that is 0); a row with NaN, and a dynamic one
//   with infinity, gives NaN. Then sum is that of the products of codes, exact and rounded to F32,
//   or as the device's matrix instructions add 128 products. `inner` is the product of the scales
//   of W and x that change along k (kBlock), and at the end acc = acc * the product of the others.
// At the end out = (acc + bias) + residual in F32, rounded once to the type of out. Other devices
// may add in another order, fixed for each output whatever m is.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "ops/layout.h"
#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

inline constexpr int64_t kScaleBlock = 128;

// What the scales of a weight in F8 or in a block format cover, beside those that a block has.
// kBlock, of F8 alone: 128 rows by 128 of k, the last ones maybe fewer.
enum class WeightScales : uint8_t { kNone, kTensor, kRow, kBlock };
// What the scales of x cover where it becomes F8. kTensor: one scale that the checkpoint gives;
// kRow and kBlock (128 of k in a row): found when the product runs.
enum class ActivationScales : uint8_t { kNone, kTensor, kRow, kBlock };

// A weight matrix as an implementation wants it. `data` is the packed bytes.
struct PackedWeight {
  Tensor data;  // kRowMajor: [n, k] of dtype; packed: bytes as U8 [bytes]
  DType dtype = DType::kF32;
  LayoutId layout = LayoutId::kRowMajor;
  int64_t n = 0, k = 0;
  // F32, for a weight with scales: [1], [n], or [ceil(n / 128), ceil(k / 128)]; else empty.
  Tensor scales;
  Tensor x_scale;  // F32 [1] with ActivationScales::kTensor, else empty
  Tensor order;    // I32 [k], a permutation, where the descriptor says ordered; else empty
};

struct Linear {
  static constexpr std::string_view kName = "linear";

  struct Desc {
    DType weight = DType::kF32;
    WeightScales weight_scales = WeightScales::kNone;     // of F8_E4M3 and block formats alone
    ActivationScales x_scales = ActivationScales::kNone;  // only with F8 and weight_scales
    DType activation = DType::kF32;  // of x, bias and, but for f32_out, residual and out
    int64_t n = 0, k = 0;
    bool bias = false;
    bool residual = false;
    bool f32_out = false;  // residual and out are F32 whatever the activation type
    bool ordered = false;  // columns of a weight in a block format have an order of their own
    std::string ToString() const;
  };

  struct Args {
    Tensor x;  // [m, k]; its codes in F8_E4M3 where x_scales is not empty
    const PackedWeight* weight = nullptr;
    Tensor bias;      // [n] or empty
    Tensor residual;  // [m, n] or empty; may be the same memory as out
    Tensor out;       // [m, n]; may not overlap x
    // F32 [ceil(k / 128), m], rows may be strided: of codes that ops::GroupQuant or another op has
    // made by the rule above. Only with kBlock, and only for implementations that take codes.
    Tensor x_scales = {};
  };
};

// The type of `out` and of the residual.
inline DType OutDType(const Linear::Desc& desc) {
  return desc.f32_out ? DType::kF32 : desc.activation;
}

// The sizes of PackedWeight::scales: [1] (also where there are none), [n], or rows and columns of
// blocks.
std::vector<int64_t> ScaleShape(const Linear::Desc& desc);

// The layout an implementation reads, and how to make it. A backend attaches one to its table under
// the name of each implementation whose layout is not row-major.
// Groups of `row_group` rows lie one behind another, equally large, and each as it lies in a matrix
// of these rows alone: a matrix too large for one piece of memory is packed in pieces of whole
// groups, each with a descriptor whose n is the piece's rows.
struct LinearPacking {
  LayoutId layout = LayoutId::kRowMajor;
  int row_group = 1;  // rows that are stored together
  size_t (*packed_bytes)(const Linear::Desc&) = nullptr;
  // Packs the file's rows [first_row, first_row + count) of W, where count is what `rows` holds,
  // into `packed`, the whole packed matrix: packed_bytes bytes, zero before the first call. So
  // parts of W (Q, K and V) can come from several places. Calls for disjoint rows may run at the
  // same time if no two share a row group. Errors: rows outside W, a size that does not fit.
  Status (*pack)(const Linear::Desc&, int64_t first_row, std::span<const std::byte> rows,
                 std::span<std::byte> packed) = nullptr;
};

// How the implementation that Bind chose wants its weight: the packing attached to `table` under
// its name, or row-major rows copied as they are. Lives as long as the table.
const LinearPacking& PackingOf(const OpTable& table, std::string_view implementation);

// Attached to implementations that also take x as codes, where it would become those.
struct TakesCodedRows {};
bool TakesCodes(const OpTable& table, std::string_view implementation, const Linear::Desc& desc);

// For packings: `bytes` are whole rows of W in its format, and lie inside it from `first_row` on.
Status CheckPackedRows(const Linear::Desc& desc, int64_t first_row, size_t bytes);

// Types, sizes, devices, overlaps of a call against its descriptor, for a weight in `layout`. An
// error is a defect of the caller; kernels trust what this has checked. Rows may be strided.
// `takes_codes`: the implementation takes x as codes, too.
Status CheckLinearArgs(const Linear::Desc& desc, const Linear::Args& args, LayoutId layout,
                       bool takes_codes = false);

// Kernels that know no scales decline a weight that has some.
Support NoWeightScales(const Linear::Desc& desc);

// What x becomes for block formats: `codes` [k], `scales` [k / 32]. REQUIRES: k is a multiple
// of 32.
void QuantizeActivations(std::span<const float> x, int8_t* codes, float* scales);

Support RefLinearSupports(const Linear::Desc& desc, const device::DeviceFacts& facts);
Status RefLinear(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args);

}  // namespace sluice::ops
