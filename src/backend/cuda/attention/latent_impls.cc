#include "backend/cuda/attention/latent_impls.h"

#include <algorithm>

#include "backend/cuda/attention/host_params.h"
#include "backend/cuda/attention/latent_config.h"
#include "backend/cuda/attention/latent_params.h"
#include "backend/cuda/attention/plan.h"
#include "backend/cuda/by_type.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/tensor_map.h"
#include "device/alignment.h"
#include "ops/latent_attention.h"

namespace sluice::cuda {
namespace {

using ops::LatentAttention;

// Four numbers of a row can be read at once.
bool RowsOfFour(const LatentAttention::Desc& desc, const AttentionParams& p) {
  return desc.key_width % 4 == 0 && p.k_stride % 4 == 0 &&
         reinterpret_cast<uintptr_t>(p.k) % (4 * Info(desc.kv.dtype).bytes) == 0;
}

// The kernel that combines partial results sees each part of a head as a head.
AttentionParams PartsOf(const LatentParams& p) {
  AttentionParams combined = p.rows;
  combined.q_heads *= p.parts;
  combined.head_dim = p.value_width / p.parts;
  return combined;
}

// Rows lie where the kernels on warpgroup products read and write them.
bool RowsAligned(const AttentionParams& p) {
  const auto begins = [](const void* data) { return reinterpret_cast<uintptr_t>(data); };
  return p.q_stride % 8 == 0 && begins(p.q) % 16 == 0 && p.k_stride % 8 == 0 &&
         begins(p.k) % 16 == 0 && p.out_stride % 2 == 0 && begins(p.out) % 4 == 0;
}

// The rows of a page that the copy engine brings at a time.
Result<TensorMap> MapPages(const AttentionParams& p) {
  const auto of = [](auto count) { return static_cast<uint64_t>(count); };
  const uint64_t row = of(p.head_dim) * 2, rows = of(std::min(p.block_tokens, kMlaBlock));
  return MapBoxes({.data = p.k,
                   .number_bytes = 2,
                   .dims = {of(p.head_dim), of(p.block_tokens), 1, of(p.kernel_blocks)},
                   .strides = {row, row * of(p.block_tokens), of(p.k_stride) * 2},
                   .box = {64, static_cast<uint32_t>(rows), 1, 1}});
}

// What lists need of scratch memory before anything else: the sequences that their rows count as.
size_t ListedBytes(const LatentAttention::Desc& desc, int64_t tokens) {
  if (desc.listed_max == 0) return 0;
  return device::AlignUp(static_cast<size_t>(3 * tokens + 1) * sizeof(int32_t));
}

// The sizes of a call: with lists each token is a sequence.
AttentionSizes SizesOf(const LatentAttention::Desc& desc, int64_t tokens, int64_t sequences,
                       int64_t blocks_max) {
  if (desc.listed_max == 0) return {tokens, sequences, blocks_max};
  return {tokens, tokens, desc.listed_max};
}

// Puts the sequences that listed rows count as into `scratch`, on the stream, and makes `p` one
// over them.
Status MakeListedRows(device::Stream& stream, const LatentAttention::Desc& desc,
                      const LatentAttention::Args& args, std::byte* scratch, LatentParams& p) {
  AttentionParams& rows = p.rows;
  auto* const query_start = reinterpret_cast<int32_t*>(scratch);
  int32_t* const context = query_start + rows.tokens + 1;
  int32_t* const sequence_of = context + rows.tokens;
  const ListedRowsParams made = {.query_start = rows.query_start,
                                 .listed = args.listed.ptr<int32_t>(),
                                 .query_start_out = query_start,
                                 .context_out = context,
                                 .sequence_of = sequence_of,
                                 .listed_stride = args.listed.strides[0],
                                 .tokens = rows.tokens,
                                 .sequences = rows.sequences,
                                 .listed_max = desc.listed_max};
  p.listed = {.positions = made.listed,
              .sequence_of = sequence_of,
              .table = rows.block_table,
              .stride = made.listed_stride,
              .table_stride = rows.table_stride,
              .blocks_max = rows.blocks_max,
              .block_tokens = rows.block_tokens};
  rows.query_start = query_start;
  rows.context = context;
  rows.sequences = rows.tokens;
  rows.blocks_max = desc.listed_max;
  rows.block_tokens = 1;
  const LaunchShape shape = {.grid = {BlocksFor(rows.tokens + 1, kListedThreads)},
                             .block = {kListedThreads}};
  return Launch(stream, {"any_i32_listed_rows", "any_i32_listed_rows"}, shape, made);
}

// What the map of a layer's rows depends on beside the descriptor.
struct RowsPlace {
  const void* k = nullptr;
  int64_t k_stride = 0, kernel_blocks = 0;
  bool operator==(const RowsPlace&) const = default;
};
using KeptPages = ops::LastValue<RowsPlace, TensorMap>;

template <AttentionProducts products>
Status LaunchKernels(device::Stream& stream, const AttentionConfig& config, const LatentParams& p,
                     KeptPages& kept) {
  const LaunchShape warp = {.grid = {1}, .block = {kPlanThreads}};
  SLUICE_RETURN_IF_ERROR(
      Launch(stream, {"any_i32_attention_plan", "any_i32_attention_plan"}, warp, p.rows));
  const LaunchShape shape = {.grid = {config.thread_blocks},
                             .block = {static_cast<unsigned>(config.threads)},
                             .shared_bytes = static_cast<unsigned>(config.shared_bytes)};
  const KernelId kernel = {config.module, config.function.c_str()};
  if (products == AttentionProducts::kF32 || p.listed.positions != nullptr || p.rows.aside_of > 0) {
    SLUICE_RETURN_IF_ERROR(Launch(stream, kernel, shape, p));
  } else {
    const auto make = [&] { return MapPages(p.rows); };
    SLUICE_ASSIGN_OR_RETURN(const TensorMap* const map,
                            kept.Of({p.rows.k, p.rows.k_stride, p.rows.kernel_blocks}, make));
    SLUICE_RETURN_IF_ERROR(Launch(stream, kernel, shape, p, *map));
  }
  const AttentionParams combined = PartsOf(p);
  const LaunchShape combine = {.grid = {config.combine_blocks},
                               .block = {static_cast<unsigned>(CombineThreads(combined.head_dim))},
                               .shared_bytes = CombineSharedBytes(combined.head_dim)};
  return Launch(stream, {"any_f32_attention_combine", "any_f32_attention_combine"}, combine,
                combined);
}

// All launches of the rows that `p` is about, which count as so many sequences.
template <AttentionProducts products>
Status LaunchRows(device::Stream& stream, const LatentAttention::Desc& desc,
                  const LatentAttention::Args& args, const AttentionConfig& config,
                  int64_t sequences, LatentParams p, KeptPages& pages) {
  if (config.thread_blocks == 0 || p.rows.kernel_blocks == 0) return OkStatus();
  p.rows.tile_rows = config.rows;
  p.rows.thread_blocks = static_cast<int32_t>(config.thread_blocks);
  p.rows.slots_max = static_cast<int32_t>(config.slots_max);
  const size_t plan_at = ListedBytes(desc, p.rows.tokens);
  const size_t state_at = plan_at + PlanBytes(sequences);
  const size_t partial_at = state_at + config.state_bytes;
  const size_t kept_at = partial_at + config.partial_bytes;
  SLUICE_ASSIGN_OR_RETURN(std::byte* const scratch, Scratch(stream, kept_at + config.kept_bytes));
  p.rows.plan = reinterpret_cast<int32_t*>(scratch + plan_at);
  p.rows.partial_state = reinterpret_cast<float*>(scratch + state_at);
  p.rows.partial = reinterpret_cast<float*>(scratch + partial_at);
  p.kept = reinterpret_cast<float*>(scratch + kept_at);
  if (desc.listed_max > 0) SLUICE_RETURN_IF_ERROR(MakeListedRows(stream, desc, args, scratch, p));
  return LaunchKernels<products>(stream, config, p, pages);
}

// Of one layer: the configurations for the sizes of the call before, and the map of its rows.
template <AttentionProducts products>
class Calls final : public ops::Kept<LatentAttention> {
 public:
  Status Run(device::Stream& stream, const LatentAttention::Desc& desc,
             const LatentAttention::Args& args) override;

 private:
  ops::LastValue<AttentionSizes, AttentionConfig> config_, aside_;
  KeptPages pages_;
};

template <AttentionProducts products>
Status Calls<products>::Run(device::Stream& stream, const LatentAttention::Desc& desc,
                            const LatentAttention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  constexpr bool kPlain = products == AttentionProducts::kF32;
  ops::Attention::Args whole = WholeRows(args);
  whole.out = args.out;
  LatentParams p = {.rows = ParamsOf(WholeRows(desc), whole),
                    .value_width = desc.value_width,
                    .parts = LatentParts(desc.value_width),
                    .listed = {},
                    .kept = nullptr};
  p.rows.vector_kv = RowsOfFour(desc, p.rows) ? 1 : 0;
  p.rows.group = LatentRows(products, desc);
  if (!kPlain) p.rows.split_shift = kMlaSplitShift;
  if (!kPlain && !RowsAligned(p.rows)) {
    return InvalidArgument(
        "latent_attention: rows of q and blocks of KV must begin at multiples of 8 numbers, rows "
        "of out at multiples of 2; lay them out so, or force any_f32_latent_attention");
  }
  const AttentionSizes sizes = SizesOf(desc, p.rows.tokens, p.rows.sequences, p.rows.blocks_max);
  const int units = FactsOf(stream).compute_units;
  const auto configure = [&] { return ConfigureLatent(products, desc, sizes, units); };
  SLUICE_ASSIGN_OR_RETURN(const AttentionConfig* const config, config_.Of(sizes, configure));
  SLUICE_RETURN_IF_ERROR(
      LaunchRows<products>(stream, desc, args, *config, sizes.sequences, p, pages_));
  if (args.paths.empty()) return OkStatus();
  p.rows.aside_of = p.rows.sequences;
  p.rows.sequences = p.rows.tokens;
  const auto configure_aside = [&] {
    return ConfigureLatent(products, desc, AsideSizes(sizes), units, true);
  };
  SLUICE_ASSIGN_OR_RETURN(const AttentionConfig* const aside, aside_.Of(sizes, configure_aside));
  return LaunchRows<products>(stream, desc, args, *aside, sizes.tokens, p, pages_);
}

template <AttentionProducts products>
ops::Support Supports(const LatentAttention::Desc& desc, const device::DeviceFacts& facts) {
  return LatentSupports(products, desc, facts);
}

// Of the largest call: no size of a step makes it need less.
template <AttentionProducts products>
size_t ScratchBytes(const LatentAttention::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts& facts) {
  const int64_t blocks = CeilDiv(limits.positions, desc.kv.kernel_block_tokens);
  const AttentionSizes sizes = SizesOf(desc, limits.tokens, limits.sequences, blocks);
  const auto bytes = [](const AttentionConfig& config, int64_t sequences) {
    return PlanBytes(sequences) + config.state_bytes + config.partial_bytes + config.kept_bytes;
  };
  const int units = facts.compute_units;
  const size_t all = ListedBytes(desc, limits.tokens) +
                     bytes(ConfigureLatent(products, desc, sizes, units), sizes.sequences);
  if (!desc.paths) return all;
  const size_t aside =
      bytes(ConfigureLatent(products, desc, AsideSizes(sizes), units, true), sizes.tokens);
  return std::max(all, aside);  // one after the other
}

// Rows in F32 can't be multiplied otherwise.
std::string_view SlowIn16Bits(const LatentAttention::Desc& desc) {
  return desc.activation == DType::kF32 ? "" : "it multiplies without matrix instructions";
}

}  // namespace

void RegisterLatentAttention(ops::OpTable& table) {
  using enum AttentionProducts;
  table.Add<LatentAttention>({.name = "sm90_bf16_latent_attention",
                              .supports = &Supports<kBF16>,
                              .arithmetic = ops::Arithmetic::kBf16,
                              .scratch_bytes = &ScratchBytes<kBF16>,
                              .keep = &ops::Keep<Calls<kBF16>, LatentAttention>});
  table.Add<LatentAttention>({.name = "sm90_f16_latent_attention",
                              .supports = &Supports<kF16>,
                              .arithmetic = ops::Arithmetic::kF16,
                              .scratch_bytes = &ScratchBytes<kF16>,
                              .keep = &ops::Keep<Calls<kF16>, LatentAttention>});
  table.Add<LatentAttention>({.name = "any_f32_latent_attention",
                              .supports = &Supports<kF32>,
                              .arithmetic = ops::Arithmetic::kF32,
                              .slow = &SlowIn16Bits,
                              .scratch_bytes = &ScratchBytes<kF32>,
                              .keep = &ops::Keep<Calls<kF32>, LatentAttention>});
}

}  // namespace sluice::cuda
