#include "backend/cuda/linear/config.h"

#include <iterator>

namespace sluice::cuda {

namespace {

constexpr LinearKernel Stream(const char* function, int rows, int tiles) {
  // The partial sums of eight slices, in columns of 16 * rows floats padded by four.
  return {function, 16 * rows, 8 * tiles, false, kLinearSlices * 8 * tiles * (16 * rows + 4) * 4};
}

// A stream that fetches blocks into shared memory; the sums take their place.
template <DType kWeight>
constexpr LinearKernel Fetched(const char* function, int rows, int tiles) {
  LinearKernel kernel = Stream(function, rows, tiles);
  const int fetched = kLinearSlices * kFetchStages * 16 * rows * LinearFetchPitch(kWeight);
  if (fetched > kernel.shared_bytes) kernel.shared_bytes = fetched;
  return kernel;
}

// `pitch`: of a row of x in shared memory.
constexpr LinearKernel Tile(const char* function, int rows, int tiles, int stages, int pitch) {
  const int staged = stages * 8 * tiles * pitch;
  const int turned = 8 * 16 * (16 * rows + 4) * 4;  // 16 tokens of eight warps at the end
  return {function, 128 * rows, 8 * tiles, true, staged > turned ? staged : turned};
}

// The lists below say again what LINEAR_STREAM and LINEAR_TILE say in the .cu files.
template <DType kWeight>
constexpr int kExactPitch = LinearPitch(kWeight, LinearArithmetic::kExact);

#define LINEAR_CHAINED(name, pitch)                                       \
  {                                                                       \
    Stream(name "_stream_8", 1, 1), Stream(name "_stream_16", 1, 2),      \
        Stream(name "_stream_32", 2, 4), Stream(name "_stream_64", 2, 8), \
        Tile(name "_tile_64", 2, 8, 4, pitch)                             \
  }
constexpr LinearArithmetic k16Bits = LinearArithmetic::kBf16;
constexpr LinearKernel kBf16[] = LINEAR_CHAINED("bf16", LinearPitch(DType::kBF16, k16Bits));
constexpr LinearKernel kF16[] = LINEAR_CHAINED("f16", LinearPitch(DType::kF16, k16Bits));
// Tiles would convert W more often than streams gain from them.
constexpr LinearKernel kF8[] = {Stream("f8_stream_8", 1, 1), Stream("f8_stream_16", 1, 2),
                                Stream("f8_stream_32", 2, 4), Stream("f8_stream_64", 2, 8)};

template <DType kWeight>
struct ExactKernels;
#define LINEAR_EXACT_KERNELS(type, first, name, rows, tile_rows, stages)        \
  template <>                                                                   \
  struct ExactKernels<DType::type> {                                            \
    static constexpr LinearKernel kList[] = {                                   \
        first, Stream(name "_stream_32", rows, 4),                              \
        Tile(name "_tile_64", tile_rows, 8, stages, kExactPitch<DType::type>)}; \
  };
#define LINEAR_PLAIN(type, name) \
  LINEAR_EXACT_KERNELS(type, Stream(name "_stream_8", 1, 1), name, 2, 1, 4)
#define LINEAR_BLOCKS(type, name) \
  LINEAR_EXACT_KERNELS(type, Fetched<DType::type>(name "_stream_8", 2, 1), name, 2, 2, 4)
#define LINEAR_SUPER(type, name, first) \
  LINEAR_EXACT_KERNELS(type, first(name "_stream_8", 1, 1), name, 1, 1, 2)
LINEAR_PLAIN(kF32, "f32")
LINEAR_PLAIN(kF16, "f16")
LINEAR_PLAIN(kBF16, "bf16")
LINEAR_PLAIN(kF8E4M3, "f8")
LINEAR_BLOCKS(kQ4_0, "q4_0")
LINEAR_BLOCKS(kQ4_1, "q4_1")
LINEAR_BLOCKS(kQ5_0, "q5_0")
LINEAR_BLOCKS(kQ5_1, "q5_1")
LINEAR_BLOCKS(kQ8_0, "q8_0")
LINEAR_BLOCKS(kIQ4_NL, "iq4_nl")
LINEAR_BLOCKS(kMXFP4, "mxfp4")
LINEAR_SUPER(kQ2_K, "q2_k", Stream)
LINEAR_SUPER(kQ3_K, "q3_k", Stream)
LINEAR_SUPER(kQ4_K, "q4_k", Stream)
LINEAR_SUPER(kQ5_K, "q5_k", Stream)
LINEAR_SUPER(kQ6_K, "q6_k", Fetched<DType::kQ6_K>)

struct Entry {
  LinearArithmetic arithmetic;
  DType weight;
  LinearFamily family;
};

constexpr LinearKernel kNone = {nullptr, 0, 0, false, 0};

template <DType kWeight>
constexpr Entry ExactEntry(const char* module, LinearKernel any = kNone) {
  return {LinearArithmetic::kExact, kWeight, {module, ExactKernels<kWeight>::kList, any}};
}

constexpr const char* kPlain = "sm90_f32_linear";
constexpr const char* kBlocks = "sm90_f32_linear_blocks";
constexpr const char* kSuper = "sm90_f32_linear_super";

constexpr Entry kFamilies[] = {
    {LinearArithmetic::kBf16,
     DType::kBF16,
     {"sm90_bf16_linear", kBf16, Stream("bf16_any_8", 1, 1)}},
    {LinearArithmetic::kBf16, DType::kF8E4M3, {"sm90_bf16_linear", kF8, Stream("f8_any_8", 1, 1)}},
    {LinearArithmetic::kF16, DType::kF16, {"sm90_f16_linear", kF16, Stream("f16_any_8", 1, 1)}},
    {LinearArithmetic::kF16, DType::kF8E4M3, {"sm90_f16_linear", kF8, Stream("f8_any_8", 1, 1)}},
    ExactEntry<DType::kF32>(kPlain, Stream("f32_any_8", 1, 1)),
    ExactEntry<DType::kF16>(kPlain, Stream("f16_any_8", 1, 1)),
    ExactEntry<DType::kBF16>(kPlain, Stream("bf16_any_8", 1, 1)),
    ExactEntry<DType::kF8E4M3>(kPlain, Stream("f8_any_8", 1, 1)),
    ExactEntry<DType::kQ4_0>(kBlocks),
    ExactEntry<DType::kQ4_1>(kBlocks),
    ExactEntry<DType::kQ5_0>(kBlocks),
    ExactEntry<DType::kQ5_1>(kBlocks),
    ExactEntry<DType::kQ8_0>(kBlocks),
    ExactEntry<DType::kIQ4_NL>(kBlocks),
    ExactEntry<DType::kMXFP4>(kBlocks),
    ExactEntry<DType::kQ2_K>(kSuper),
    ExactEntry<DType::kQ3_K>(kSuper),
    ExactEntry<DType::kQ4_K>(kSuper),
    ExactEntry<DType::kQ5_K>(kSuper),
    ExactEntry<DType::kQ6_K>(kSuper),
};

int64_t Blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Tiles reuse what they load for more outputs, where there are enough of them that few
// multiprocessors are idle in the last round. Streams fill the device with fewer outputs.
bool FillsWithTiles(const LinearKernel& tile, const LinearShape& shape) {
  const int64_t blocks = Blocks(shape.m, tile.tokens) * Blocks(shape.n, tile.rows);
  const int64_t rounds = Blocks(blocks, shape.compute_units);
  return 4 * shape.m >= 3 * tile.tokens && 100 * blocks >= 84 * rounds * shape.compute_units;
}

const LinearKernel& Choose(const LinearFamily& family, const LinearShape& shape) {
  if (shape.any_rows) return family.any;
  auto streams = family.kernels;
  if (streams.back().tile) {
    if (FillsWithTiles(streams.back(), shape)) return streams.back();
    streams = streams.first(streams.size() - 1);
  }
  for (const LinearKernel& kernel : streams) {
    // Twice 32 tokens are as fast as 64, or faster: W comes from the cache the second time.
    if (shape.m <= kernel.tokens || (kernel.tokens == 32 && shape.m <= 64)) return kernel;
  }
  return streams.back();
}

}  // namespace

LinearArithmetic NativeArithmetic(DType weight, DType activation) {
  if (activation == DType::kBF16 && (weight == DType::kBF16 || weight == DType::kF8E4M3)) {
    return LinearArithmetic::kBf16;
  }
  if (activation == DType::kF16 && (weight == DType::kF16 || weight == DType::kF8E4M3)) {
    return LinearArithmetic::kF16;
  }
  return LinearArithmetic::kExact;
}

const LinearFamily* FindLinearFamily(LinearArithmetic arithmetic, DType weight) {
  for (const Entry& entry : kFamilies) {
    if (entry.arithmetic == arithmetic && entry.weight == weight) return &entry.family;
  }
  return nullptr;
}

bool RowsFitUnits(DType weight, int64_t k) {
  return !IsPlainWeight(weight) || k % LinearUnitOf(weight) == 0;
}

LinearPlan PlanLinear(const LinearFamily& family, DType weight, const LinearShape& shape) {
  LinearPlan plan;
  plan.kernel = &Choose(family, shape);
  plan.token_blocks = static_cast<unsigned>(Blocks(shape.m, plan.kernel->tokens));
  plan.row_blocks = static_cast<unsigned>(Blocks(shape.n, plan.kernel->rows));
  plan.units = static_cast<int>(Blocks(shape.k, LinearUnitOf(weight)));
  plan.units_per_slice = static_cast<int>(Blocks(plan.units, kLinearSlices));
  return plan;
}

}  // namespace sluice::cuda
