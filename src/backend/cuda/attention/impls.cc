#include "backend/cuda/attention/impls.h"

#include <algorithm>

#include "backend/cuda/attention/config.h"
#include "backend/cuda/attention/host_params.h"
#include "backend/cuda/attention/kv_maps.h"
#include "backend/cuda/attention/plan.h"
#include "backend/cuda/counters.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/narrow_map.h"

namespace sluice::cuda {
namespace {

using ops::Attention;

// Rows of K and V begin at multiples of `numbers` numbers.
bool KvAligned(const Attention::Desc& desc, const AttentionParams& p, int numbers) {
  const auto bytes = static_cast<uintptr_t>(numbers) * Info(desc.kv.dtype).bytes;
  return desc.head_dim % numbers == 0 && p.k_stride % numbers == 0 && p.v_stride % numbers == 0 &&
         reinterpret_cast<uintptr_t>(p.k) % bytes == 0 &&
         reinterpret_cast<uintptr_t>(p.v) % bytes == 0;
}

int KvBytes(const Attention::Desc& desc) { return static_cast<int>(Info(desc.kv.dtype).bytes); }

// Rows of Q and of the output can be accessed by pairs of 16-bit numbers.
bool RowsAligned(const AttentionParams& p) {
  return p.q_stride % 2 == 0 && p.out_stride % 2 == 0 &&
         reinterpret_cast<uintptr_t>(p.q) % 4 == 0 && reinterpret_cast<uintptr_t>(p.out) % 4 == 0;
}

// Rows of Q can be copied by sixteen bytes.
bool RowsCopied(const AttentionParams& p) {
  return p.q_stride % 8 == 0 && reinterpret_cast<uintptr_t>(p.q) % 16 == 0;
}

// Rows of K and V and the scales of a box begin where the copy engine can read them.
bool BoxesAligned(const Attention::Desc& desc, const AttentionParams& p) {
  if (!KvAligned(desc, p, 16 / KvBytes(desc))) return false;
  const auto scales = [](const float* data, int64_t stride) {
    return stride % 4 == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  };
  return scales(p.k_scale, p.k_scale_stride) && scales(p.v_scale, p.v_scale_stride);
}

// The rows of a page that the copy engine brings at a time, as a map of K or V that `map` makes.
using Map = Result<TensorMap>(const BoxedTensor&);
Result<TensorMap> MapPages(const Attention::Desc& desc, const AttentionParams& p, const void* data,
                           int64_t stride, int box_rows, Map& map) {
  const uint64_t number = static_cast<uint64_t>(KvBytes(desc));
  const uint64_t row = static_cast<uint64_t>(p.head_dim) * number;
  const auto of = [](auto count) { return static_cast<uint64_t>(count); };
  return map({.data = data,
              .number_bytes = KvBytes(desc),
              .dims = {of(p.head_dim), of(p.block_tokens), of(p.kv_heads), of(p.kernel_blocks)},
              .strides = {row, row * of(p.block_tokens), of(stride) * number},
              .box = {static_cast<uint32_t>(128 / number), static_cast<uint32_t>(box_rows), 1, 1}});
}

// What the maps of a layer's KV depend on beside the descriptor.
struct KvPlace {
  const void *k = nullptr, *v = nullptr;
  int64_t k_stride = 0, v_stride = 0, kernel_blocks = 0;
  bool operator==(const KvPlace&) const = default;
};
using KeptMaps = ops::LastValue<KvPlace, KvMaps>;

Result<const KvMaps*> MapKv(const Attention::Desc& desc, const AttentionParams& p, int box_rows,
                            Map& map, KeptMaps& kept) {
  const auto make = [&]() -> Result<KvMaps> {
    KvMaps maps;
    SLUICE_ASSIGN_OR_RETURN(maps.k, MapPages(desc, p, p.k, p.k_stride, box_rows, map));
    SLUICE_ASSIGN_OR_RETURN(maps.v, MapPages(desc, p, p.v, p.v_stride, box_rows, map));
    return maps;
  };
  SLUICE_ASSIGN_OR_RETURN(const KvMaps* const maps,
                          kept.Of({p.k, p.v, p.k_stride, p.v_stride, p.kernel_blocks}, make));
  return maps;
}

// Launches the kernel of a configuration, of whichever kind.
template <class Config, class... Params>
Status LaunchConfigured(device::Stream& stream, const Config& config, const Params&... params) {
  const LaunchShape shape = {.grid = {config.thread_blocks},
                             .block = {static_cast<unsigned>(config.threads)},
                             .shared_bytes = static_cast<unsigned>(config.shared_bytes)};
  return Launch(stream, {config.module, config.function.c_str()}, shape, params...);
}

Status LaunchStream(device::Stream& stream, const Attention::Desc& desc, const StreamConfig& config,
                    const AttentionParams& p, KeptMaps& kept) {
  SLUICE_ASSIGN_OR_RETURN(const KvMaps* const maps,
                          MapKv(desc, p, kStreamBox, MapNarrowBoxes, kept));
  return LaunchConfigured(stream, config, p, *maps);
}

Status LaunchWide(device::Stream& stream, const Attention::Desc& desc, const WideConfig& config,
                  const AttentionParams& p, KeptMaps& kept) {
  SLUICE_ASSIGN_OR_RETURN(const KvMaps* const maps,
                          MapKv(desc, p, std::min(p.block_tokens, kWideBlock), MapBoxes, kept));
  return LaunchConfigured(stream, config, p, *maps);
}

template <AttentionProducts products>
ops::Support Supports(const Attention::Desc& desc, const device::DeviceFacts& facts) {
  return AttentionSupports(products, desc, facts);
}

// Rows in F32 can't be multiplied otherwise.
std::string_view SlowIn16Bits(const Attention::Desc& desc) {
  return desc.activation == DType::kF32 ? "" : "it multiplies without matrix instructions";
}

// The maps of a layer's KV, for the kernels that have boxes.
struct LayerMaps {
  KeptMaps wide, streamed;
};

// All launches of the rows that `p` is about. `plan`: null for one in scratch memory.
Status LaunchRows(device::Stream& stream, const Attention::Desc& desc,
                  const AttentionConfig& config, int32_t* plan, bool planned, AttentionParams p,
                  LayerMaps& maps) {
  if (config.thread_blocks == 0) return OkStatus();
  p.tile_rows = config.rows;
  const bool wide = config.wide.thread_blocks > 0 && RowsCopied(p) && p.kernel_blocks > 0;
  p.wide_rows = wide ? config.wide.rows : 0;
  p.thread_blocks = static_cast<int32_t>(config.thread_blocks);
  p.slots_max = static_cast<int32_t>(config.slots_max);
  const bool streams = config.stream.thread_blocks > 0 && BoxesAligned(desc, p) &&
                       p.kernel_blocks > 0 && (!config.stream.joins || RowsCopied(p));
  p.stream_tokens = streams ? config.stream.tokens : 0;
  const size_t plan_bytes = plan == nullptr ? PlanBytes(p.sequences) : 0;
  SLUICE_ASSIGN_OR_RETURN(
      std::byte* const scratch,
      Scratch(stream, plan_bytes + config.state_bytes + config.partial_bytes + config.kept_bytes));
  p.plan = plan == nullptr ? reinterpret_cast<int32_t*>(scratch) : plan;
  p.partial_state = reinterpret_cast<float*>(scratch + plan_bytes);
  p.partial = reinterpret_cast<float*>(scratch + plan_bytes + config.state_bytes);
  if (plan == nullptr || !planned) {
    const LaunchShape warp = {.grid = {1}, .block = {kPlanThreads}};
    SLUICE_RETURN_IF_ERROR(
        Launch(stream, {"any_i32_attention_plan", "any_i32_attention_plan"}, warp, p));
  }
  if (wide) SLUICE_RETURN_IF_ERROR(LaunchWide(stream, desc, config.wide, p, maps.wide));
  if (!(streams && config.stream.all)) SLUICE_RETURN_IF_ERROR(LaunchConfigured(stream, config, p));
  if (streams && config.stream.joins)
    return LaunchConfigured(stream, config.stream, p, Counters(stream));
  if (streams) SLUICE_RETURN_IF_ERROR(LaunchStream(stream, desc, config.stream, p, maps.streamed));
  const LaunchShape combine = {.grid = {config.combine_blocks},
                               .block = {static_cast<unsigned>(CombineThreads(desc.head_dim))},
                               .shared_bytes = CombineSharedBytes(desc.head_dim)};
  return Launch(stream, {"any_f32_attention_combine", "any_f32_attention_combine"}, combine, p);
}

// Of one layer: the configurations for the sizes of the call before, and the maps of its KV.
template <AttentionProducts products>
class Calls final : public ops::Kept<Attention> {
 public:
  Status Run(device::Stream& stream, const Attention::Desc& desc,
             const Attention::Args& args) override;

 private:
  ops::LastValue<AttentionSizes, AttentionConfig> config_, aside_;
  LayerMaps maps_;
};

template <AttentionProducts products>
Status Calls<products>::Run(device::Stream& stream, const Attention::Desc& desc,
                            const Attention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  AttentionParams p = ParamsOf(desc, args);
  p.vector_kv = KvAligned(desc, p, 4) ? 1 : 0;
  if (products != AttentionProducts::kF32 && !(KvAligned(desc, p, 8) && RowsAligned(p))) {
    return InvalidArgument(
        "attention: K and V of a block must begin at multiples of 8 numbers, rows of q and out at "
        "multiples of 2; lay them out so, or force any_f32_attention");
  }
  const AttentionSizes sizes = {p.tokens, p.sequences, p.blocks_max};
  const int units = FactsOf(stream).compute_units;
  const auto configure = [&] { return ConfigureAttention(products, desc, sizes, units); };
  SLUICE_ASSIGN_OR_RETURN(const AttentionConfig* const config, config_.Of(sizes, configure));
  SLUICE_RETURN_IF_ERROR(
      LaunchRows(stream, desc, *config, args.plan.ptr<int32_t>(), args.planned, p, maps_));
  if (args.paths.empty()) return OkStatus();
  p.aside_of = p.sequences;
  p.sequences = p.tokens;
  const auto configure_aside = [&] { return ConfigureAside(products, desc, sizes, units); };
  SLUICE_ASSIGN_OR_RETURN(const AttentionConfig* const aside, aside_.Of(sizes, configure_aside));
  return LaunchRows(stream, desc, *aside, nullptr, false, p, maps_);
}

// Of the largest call: no size of a step makes it need less.
template <AttentionProducts products>
size_t ScratchBytes(const Attention::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts& facts) {
  const int64_t blocks = CeilDiv(limits.positions, desc.kv.kernel_block_tokens);
  const AttentionSizes sizes = {limits.tokens, limits.sequences, blocks};
  const auto bytes = [](const AttentionConfig& config, int64_t sequences) {
    return PlanBytes(sequences) + config.state_bytes + config.partial_bytes + config.kept_bytes;
  };
  const size_t all =
      bytes(ConfigureAttention(products, desc, sizes, facts.compute_units), limits.sequences);
  if (!desc.paths) return all;
  // One after the other.
  return std::max(all,
                  bytes(ConfigureAside(products, desc, sizes, facts.compute_units), limits.tokens));
}

}  // namespace

void RegisterAttention(ops::OpTable& table) {
  using enum AttentionProducts;
  table.Add<Attention>({.name = "sm80_bf16_attention",
                        .supports = &Supports<kBF16>,
                        .arithmetic = ops::Arithmetic::kBf16,
                        .scratch_bytes = &ScratchBytes<kBF16>,
                        .keep = &ops::Keep<Calls<kBF16>, Attention>});
  table.Add<Attention>({.name = "sm80_f16_attention",
                        .supports = &Supports<kF16>,
                        .arithmetic = ops::Arithmetic::kF16,
                        .scratch_bytes = &ScratchBytes<kF16>,
                        .keep = &ops::Keep<Calls<kF16>, Attention>});
  table.Add<Attention>({.name = "any_f32_attention",
                        .supports = &Supports<kF32>,
                        .arithmetic = ops::Arithmetic::kF32,
                        .slow = &SlowIn16Bits,
                        .scratch_bytes = &ScratchBytes<kF32>,
                        .keep = &ops::Keep<Calls<kF32>, Attention>});
}

}  // namespace sluice::cuda
