#include "backend/cuda/linear/block_wgmma.h"

#include <algorithm>

#include "backend/cuda/launch.h"
#include "backend/cuda/linear/block_wgmma_params.h"
#include "backend/cuda/linear/kernel_list.h"

namespace sluice::cuda {
namespace {

constexpr const char* kModule = "sm90_bf16_wgmma_blocks";

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where the sums lie behind the copy of x, and from one sub-block's to the next one's.
struct Layout {
  size_t sums = 0, bytes = 0;
  int64_t stride = 0;
};
Layout LayoutOf(DType weight, int64_t m, int64_t k) {
  constexpr int64_t kAlignment = 256;
  Layout layout;
  layout.stride = DivideUp(m, kBlockTokens) * kBlockTokens;
  layout.sums = static_cast<size_t>(DivideUp(m * k * 2, kAlignment) * kAlignment);
  const int64_t sums = DivideUp(k, kBlockStage) * BlockSums(weight) * layout.stride;
  layout.bytes = layout.sums + static_cast<size_t>(sums) * 4;
  return layout;
}

// Eight rows of out are 16 bytes at a multiple of 16, of bias and residual too.
bool IsWide(const LinearParams& product) {
  const auto begins = [](const void* p, int64_t stride) {
    return p == nullptr || (reinterpret_cast<uintptr_t>(p) % 16 == 0 && stride % 8 == 0);
  };
  return product.n % 8 == 0 && product.result == DType::kBF16 &&
         (product.bias == nullptr || product.bias_type == DType::kBF16) &&
         begins(product.out, product.out_stride) && begins(product.bias, 0) &&
         begins(product.residual, product.residual_stride);
}

}  // namespace

const char* BlockWgmmaFunction(DType weight) {
  switch (weight) {
#define FUNCTION(name, type) \
  case DType::type:          \
    return #name "_wgmma";
    LINEAR_BLOCK_FORMATS(FUNCTION)
    LINEAR_WORD_FORMATS(FUNCTION)
    LINEAR_BYTE_FORMATS(FUNCTION)
#undef FUNCTION
    default:
      return nullptr;
  }
}

bool SuitsBlockWgmma(const LinearShape& shape) {
  // Measured on an H200: a tile takes so long for a window, and the kernels for few tokens, which
  // fill the device with fewer outputs, make so many products a nanosecond.
  constexpr int64_t kWindowNs = 560, kFewProducts = 35000, kFewTokens = 64;
  if (shape.m <= kFewTokens) return false;
  const int64_t tiles = DivideUp(shape.m, kBlockTokens) * DivideUp(shape.n, kBlockRows);
  const int64_t waves = DivideUp(tiles, std::max(1, shape.compute_units));
  const int64_t many = waves * DivideUp(shape.k, kBlockWindow) * kWindowNs;
  return many < shape.m * shape.n / kFewProducts * shape.k;
}

size_t BlockWgmmaScratchBytes(const ops::Linear::Desc& desc, int64_t rows) {
  return LayoutOf(desc.weight, rows, desc.k).bytes;
}

Status MultiplyBlockWgmma(device::Stream& stream, const ops::Linear::Desc& desc,
                          const LinearParams& product, const void* x, int64_t x_stride,
                          int compute_units) {
  const Layout layout = LayoutOf(desc.weight, product.m, product.k);
  SLUICE_ASSIGN_OR_RETURN(std::byte * scratch, Scratch(stream, layout.bytes));
  auto* const sums = reinterpret_cast<float*>(scratch + layout.sums);
  const BlockTokensParams tokens = {
      .x = x,
      .out = scratch,
      .sums = BlockHasMinimum(desc.weight) ? sums : nullptr,
      .x_stride = x_stride,
      .sums_stride = static_cast<int>(layout.stride),
      .m = product.m,
      .k = product.k,
      .sub = BlockSub(desc.weight),
      .windows = static_cast<int>(DivideUp(product.k, kBlockStage)) * kBlockWindows};
  constexpr int64_t kTokens = 8, kEach = 8 * kBlockWindow;  // of a thread block at a time
  const LaunchShape copies = {.grid = {static_cast<unsigned>(DivideUp(product.m, kTokens)),
                                       static_cast<unsigned>(DivideUp(product.k, 2 * kEach))},
                              .block = {256}};
  SLUICE_RETURN_IF_ERROR(Launch(stream, {kModule, "stage_block_tokens"}, copies, tokens));
  BlockWgmmaParams params = {.product = product,
                             .x_sums = sums,
                             .x_sums_stride = static_cast<int>(layout.stride),
                             .x_rows = std::min(product.m, kBlockTokens),
                             .row_tiles = static_cast<int>(DivideUp(product.n, kBlockRows)),
                             .token_tiles = static_cast<int>(DivideUp(product.m, kBlockTokens)),
                             .wide = IsWide(product)};
  const int64_t row_bytes = int64_t{product.k} * 2;
  SLUICE_ASSIGN_OR_RETURN(params.x,
                          MapBytes(scratch, product.m, row_bytes, row_bytes, params.x_rows));
  const int64_t tiles = int64_t{params.row_tiles} * params.token_tiles;
  const LaunchShape shape = {
      .grid = {static_cast<unsigned>(std::min<int64_t>(tiles, std::max(1, compute_units)))},
      .block = {kBlockThreads},
      .shared_bytes = static_cast<unsigned>(BlockSharedBytes(desc.weight))};
  return Launch(stream, {kModule, BlockWgmmaFunction(desc.weight)}, shape, params);
}

}  // namespace sluice::cuda
