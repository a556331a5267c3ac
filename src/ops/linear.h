// Linear: out[m, n] = sum over k of x[m, k] * W[n, k] (+ bias[n]) (+ residual[m, n]).
//
// W is stored in its own number format, in the layout that the chosen implementation asks for. Each
// output is accumulated over k in one order, whatever m is: one row gives the same bits in any
// batch. Where W is quantized, the reference quantizes x per block of 32 to int8 (scale = max|x| /
// 127 in F32, round to nearest even), and multiplies integers inside a block exactly; block results
// are added in ascending k, one F32 accumulator and one fused multiply-add per block.
#pragma once

#include <span>

#include "device/device.h"
#include "ops/layout.h"
#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// A weight matrix as an implementation wants it. `data` is the packed bytes.
struct PackedWeight {
  Tensor data;  // kRowMajor: [n, k] of dtype; packed: bytes as U8 [bytes]
  DType dtype = DType::kF32;
  LayoutId layout = LayoutId::kRowMajor;
  int64_t n = 0, k = 0;
};

struct Linear {
  static constexpr std::string_view kName = "linear";

  struct Desc {
    DType weight = DType::kF32;
    DType activation = DType::kF32;  // of x, out, bias and residual
    int64_t n = 0, k = 0;
    bool bias = false;
    bool residual = false;
    int adapters = 0;             // LoRA adapters that rows may name; 0: none
    int compute_unit_budget = 0;  // 0: all
    std::string ToString() const;
  };

  struct Args {
    Tensor x;  // [m, k]
    const PackedWeight* weight = nullptr;
    Tensor bias;      // [n] or empty
    Tensor residual;  // [m, n] or empty; may be the same memory as out
    Tensor out;       // [m, n]; may not overlap x
    Tensor adapter;   // I32 [m], -1: none; or empty
  };
};

// The layout an implementation reads, and how to make it. A backend attaches one to its table under
// the name of each implementation whose layout is not row-major.
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

// For packings: `bytes` are whole rows of W in its format, and lie inside it from `first_row` on.
Status CheckPackedRows(const Linear::Desc& desc, int64_t first_row, size_t bytes);

Support RefLinearSupports(const Linear::Desc& desc, const device::DeviceFacts& facts);
Status RefLinear(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args);

}  // namespace sluice::ops
