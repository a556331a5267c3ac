#include "backend/cuda/linear/config.h"

#include <algorithm>
#include <iterator>

#include "backend/cuda/linear/kernel_list.h"

namespace sluice::cuda {

namespace {

// A kernel's two entries.
struct Functions {
  const char *one, *grouped;
};
#define FUNCTIONS(name) \
  Functions { name, name "_grouped" }

constexpr LinearKernel Stream(Functions functions, int rows, int tiles) {
  // The partial sums of eight slices, in columns of 16 * rows floats padded by four.
  const int sums = kLinearSlices * 8 * tiles * (16 * rows + 4) * 4;
  return {functions.one, functions.grouped, 16 * rows, 8 * tiles, false, sums};
}

// A stream that fetches blocks into shared memory; the sums take their place.
template <DType kWeight>
constexpr LinearKernel Fetched(Functions functions, int rows, int tiles) {
  LinearKernel kernel = Stream(functions, rows, tiles);
  const int fetched = kLinearSlices * kFetchStages * 16 * rows * LinearFetchPitch(kWeight);
  if (fetched > kernel.shared_bytes) kernel.shared_bytes = fetched;
  return kernel;
}

// `pitch`: of a row of x in shared memory.
constexpr LinearKernel Tile(Functions functions, int rows, int tiles, int stages, int pitch) {
  const int staged = stages * 8 * tiles * pitch;
  const int turned = 8 * 16 * (16 * rows + 4) * 4;  // 16 tokens of eight warps at the end
  const int shared = staged > turned ? staged : turned;
  return {functions.one, functions.grouped, 128 * rows, 8 * tiles, true, shared};
}

// The kernels of kernel_list.h as the host sees them.
#define STREAM(name, type, tokens, rows, tiles, step, blocks) \
  Stream(FUNCTIONS(#name "_stream_" #tokens), rows, tiles),
#define FETCHED(name, type, tokens, rows, tiles, blocks) \
  Fetched<DType::type>(FUNCTIONS(#name "_stream_" #tokens), rows, tiles),
#define TILE(name, type, tokens, rows, tiles, stages)          \
  Tile(FUNCTIONS(#name "_tile_" #tokens), rows, tiles, stages, \
       LinearPitch(DType::type, LinearArithmetic::kExact)),
#define TILE_16BIT(name, type, tokens, rows, tiles, stages)    \
  Tile(FUNCTIONS(#name "_tile_" #tokens), rows, tiles, stages, \
       LinearPitch(DType::type, LinearArithmetic::kBf16)),
#define ANY(name, type, tokens, rows, tiles, step, blocks) \
  Stream(FUNCTIONS(#name "_any_" #tokens), rows, tiles)

constexpr LinearKernel kBf16[] = {LINEAR_LIST_16BIT(STREAM, TILE_16BIT, bf16, kBF16)};
constexpr LinearKernel kF16[] = {LINEAR_LIST_16BIT(STREAM, TILE_16BIT, f16, kF16)};
constexpr LinearKernel kF8[] = {LINEAR_LIST_16BIT_F8(STREAM, f8, kF8E4M3)};

template <LinearArithmetic kArithmetic, DType kWeight>
struct KernelsOf;
#define KERNELS(arithmetic, type, ...)                          \
  template <>                                                   \
  struct KernelsOf<LinearArithmetic::arithmetic, DType::type> { \
    static constexpr LinearKernel kList[] = {__VA_ARGS__};      \
  };
#define PLAIN(name, type) KERNELS(kExact, type, LINEAR_LIST_PLAIN(STREAM, TILE, name, type))
#define BLOCKS(name, type)                                                     \
  KERNELS(kExact, type, LINEAR_LIST_BLOCKS(FETCHED, STREAM, TILE, name, type)) \
  KERNELS(kBf16, type, LINEAR_LIST_BLOCKS(FETCHED, STREAM, TILE_16BIT, name, type))
#define WORDS(name, type)                                            \
  KERNELS(kExact, type, LINEAR_LIST_WORDS(STREAM, TILE, name, type)) \
  KERNELS(kBf16, type, LINEAR_LIST_WORDS(STREAM, TILE_16BIT, name, type))
#define BYTES(name, type)                                                     \
  KERNELS(kExact, type, LINEAR_LIST_BYTES(FETCHED, STREAM, TILE, name, type)) \
  KERNELS(kBf16, type, LINEAR_LIST_BYTES(FETCHED, STREAM, TILE_16BIT, name, type))
LINEAR_PLAIN_FORMATS(PLAIN)
LINEAR_BLOCK_FORMATS(BLOCKS)
LINEAR_WORD_FORMATS(WORDS)
LINEAR_BYTE_FORMATS(BYTES)

struct Entry {
  LinearArithmetic arithmetic;
  DType weight;
  LinearFamily family;
};

constexpr LinearKernel kNone = {nullptr, nullptr, 0, 0, false, 0};

template <LinearArithmetic kArithmetic, DType kWeight>
constexpr Entry EntryOf(const char* module, LinearKernel any = kNone) {
  return {kArithmetic, kWeight, {module, KernelsOf<kArithmetic, kWeight>::kList, any}};
}

#define PLAIN_ENTRY(name, type)                                     \
  EntryOf<LinearArithmetic::kExact, DType::type>("sm90_f32_linear", \
                                                 LINEAR_LIST_ANY(ANY, name, type)),
#define BLOCK_ENTRY(name, type)                                             \
  EntryOf<LinearArithmetic::kExact, DType::type>("sm90_f32_linear_blocks"), \
      EntryOf<LinearArithmetic::kBf16, DType::type>("sm90_bf16_linear_blocks"),
#define SUPER_ENTRY(name, type)                                            \
  EntryOf<LinearArithmetic::kExact, DType::type>("sm90_f32_linear_super"), \
      EntryOf<LinearArithmetic::kBf16, DType::type>("sm90_bf16_linear_super"),

constexpr LinearKernel kBf16Any = LINEAR_LIST_ANY(ANY, bf16, kBF16);
constexpr LinearKernel kF16Any = LINEAR_LIST_ANY(ANY, f16, kF16);
constexpr LinearKernel kF8Any = LINEAR_LIST_ANY(ANY, f8, kF8E4M3);

constexpr Entry kFamilies[] = {
    {LinearArithmetic::kBf16, DType::kBF16, {"sm90_bf16_linear", kBf16, kBf16Any}},
    {LinearArithmetic::kBf16, DType::kF8E4M3, {"sm90_bf16_linear", kF8, kF8Any}},
    {LinearArithmetic::kF16, DType::kF16, {"sm90_f16_linear", kF16, kF16Any}},
    {LinearArithmetic::kF16, DType::kF8E4M3, {"sm90_f16_linear", kF8, kF8Any}},
    LINEAR_PLAIN_FORMATS(PLAIN_ENTRY) LINEAR_BLOCK_FORMATS(BLOCK_ENTRY)
        LINEAR_WORD_FORMATS(SUPER_ENTRY) LINEAR_BYTE_FORMATS(SUPER_ENTRY)};

int64_t Blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Experts that have rows, at most, and how many each of these would have if all had as many.
int64_t Served(const LinearShape& shape) { return std::min<int64_t>(shape.experts, shape.m); }
int64_t RowsEach(const LinearShape& shape) { return Blocks(shape.m, Served(shape)); }

// Tiles reuse what they load for more outputs, where there are enough of them that few
// multiprocessors are idle in the last round. Streams fill the device with fewer outputs.
bool FillsWithTiles(const LinearKernel& tile, const LinearShape& shape) {
  const int64_t m = RowsEach(shape);
  const int64_t blocks = Served(shape) * Blocks(m, tile.tokens) * Blocks(shape.n, tile.rows);
  const int64_t rounds = Blocks(blocks, shape.compute_units);
  return 4 * m >= 3 * tile.tokens && 100 * blocks >= 84 * rounds * shape.compute_units;
}

const LinearKernel& Choose(const LinearFamily& family, const LinearShape& shape) {
  if (shape.any_rows) return family.any;
  auto streams = family.kernels;
  if (streams.back().tile) {
    if (FillsWithTiles(streams.back(), shape)) return streams.back();
    streams = streams.first(streams.size() - 1);
  }
  const int64_t m = RowsEach(shape);
  for (const LinearKernel& kernel : streams) {
    // Twice 32 tokens are as fast as 64, or faster: W comes from the cache the second time.
    if (m <= kernel.tokens || (kernel.tokens == 32 && m <= 64)) return kernel;
  }
  return streams.back();
}

}  // namespace

LinearArithmetic NativeArithmetic(DType weight, DType activation) {
  if (activation == DType::kBF16 &&
      (weight == DType::kBF16 || weight == DType::kF8E4M3 || IsQuantized(weight))) {
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

LinearPlan SplitOf(DType weight, int64_t k) {
  LinearPlan plan;
  plan.units = static_cast<int>(Blocks(k, LinearUnitOf(weight)));
  plan.units_per_slice = static_cast<int>(Blocks(plan.units, kLinearSlices));
  return plan;
}

LinearPlan PlanLinear(const LinearFamily& family, DType weight, const LinearShape& shape) {
  LinearPlan plan = SplitOf(weight, shape.k);
  plan.kernel = &Choose(family, shape);
  // Each expert that has rows begins a block, and the others follow whole blocks of its own.
  const int64_t served = Served(shape);
  plan.token_blocks = static_cast<unsigned>(served + (shape.m - served) / plan.kernel->tokens);
  plan.row_blocks = static_cast<unsigned>(Blocks(shape.n, plan.kernel->rows));
  return plan;
}

}  // namespace sluice::cuda
