#include "backend/cpu/attention/impls.h"

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/kernel_support.h"

namespace sluice::cpu {
namespace {

using Op = ops::Attention;

constexpr int kHeadDimMax = 512, kAmxHeadDimMax = 256;

template <Isa isa>
ops::Support Supports(const Op::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.head_dim % 16 != 0 || desc.head_dim > kHeadDimMax)
    return ops::Support::No(
        StrCat("head_dim is ", desc.head_dim, ", it must be a multiple of 16 up to ", kHeadDimMax));
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefAttentionSupports(desc, facts) : support;
}

ops::Support SupportsAmx(const Op::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.head_dim % 32 != 0 || desc.head_dim < 32 || desc.head_dim > kAmxHeadDimMax)
    return ops::Support::No(StrCat("head_dim is ", desc.head_dim,
                                   ", it must be a multiple of 32 up to ", kAmxHeadDimMax));
  if (desc.kv.dtype == DType::kF32) return ops::Support::No("takes KV of at most 16 bits, not F32");
  if (ops::HasPositionTerms(desc))
    return ops::Support::No("knows neither ALiBi nor chunks nor queries that grow");
  const ops::Support support = ops::PlainAttentionSupports(desc, facts);
  return support.ok ? Supports<Isa::kAmx>(desc, facts) : support;
}

template <const AttentionKernels& kernels>
Status Run(device::Stream& stream, const Op::Desc& desc, const Op::Args& args) {
  return RunAttention(kernels, stream, desc, args);
}

template <Isa isa>
ops::Support LatentSupports(const ops::LatentAttention::Desc& desc,
                            const device::DeviceFacts& facts) {
  if (desc.key_width % 16 != 0 || desc.value_width % 16 != 0)
    return ops::Support::No(StrCat("rows of ", desc.key_width, " numbers with values of ",
                                   desc.value_width, ", which must be multiples of 16"));
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefLatentAttentionSupports(desc, facts) : support;
}

template <const AttentionKernels& kernels>
Status RunLatent(device::Stream& stream, const ops::LatentAttention::Desc& desc,
                 const ops::LatentAttention::Args& args) {
  return RunLatentAttention(kernels, stream, desc, args);
}

template <Isa isa>
ops::Support IndexSupports(const ops::IndexScores::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.head_dim % 16 != 0)
    return ops::Support::No(StrCat("head_dim is ", desc.head_dim, ", it must be a multiple of 16"));
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefIndexScoresSupports(desc, facts) : support;
}

template <const IndexKernels& kernels>
Status RunIndex(device::Stream& stream, const ops::IndexScores::Desc& desc,
                const ops::IndexScores::Args& args) {
  return RunIndexScores(kernels, stream, desc, args);
}

void RegisterIndex(ops::OpTable& table) {
  using Scores = ops::IndexScores;
  table.Add<Scores>({"avx512_f32_index_scores", &IndexSupports<Isa::kAvx512>,
                     &RunIndex<kAvx512IndexKernels>, ops::Arithmetic::kF32});
  table.Add<Scores>({"avx2_f32_index_scores", &IndexSupports<Isa::kAvx2>,
                     &RunIndex<kAvx2IndexKernels>, ops::Arithmetic::kF32});
  table.Add<Scores>({.name = "ref_index_scores",
                     .supports = &ops::RefIndexScoresSupports,
                     .run = &ops::RefIndexScores,
                     .slow = &ops::PlainLoops<Scores>});
  table.Add<ops::TopK>({"any_f32_top_k", &ops::RefTopKSupports, &RunTopK, ops::Arithmetic::kF32});
  table.Add<ops::TopK>({.name = "ref_top_k",
                        .supports = &ops::RefTopKSupports,
                        .run = &ops::RefTopK,
                        .slow = &ops::PlainLoops<ops::TopK>});
}

}  // namespace

void RegisterAttention(ops::OpTable& table) {
  table.Add<Op>(
      {"amx_bf16_attention", &SupportsAmx, &Run<kAmxAttentionKernels>, ops::Arithmetic::kBf16});
  table.Add<Op>({"avx512_f32_attention", &Supports<Isa::kAvx512>, &Run<kAvx512AttentionKernels>,
                 ops::Arithmetic::kF32});
  table.Add<Op>({"avx2_f32_attention", &Supports<Isa::kAvx2>, &Run<kAvx2AttentionKernels>,
                 ops::Arithmetic::kF32});
  table.Add<Op>({.name = "ref_attention",
                 .supports = &ops::RefAttentionSupports,
                 .run = &ops::RefAttention,
                 .slow = &ops::PlainLoops<Op>});

  table.Add<ops::LatentAttention>({"avx512_f32_latent_attention", &LatentSupports<Isa::kAvx512>,
                                   &RunLatent<kAvx512AttentionKernels>, ops::Arithmetic::kF32});
  table.Add<ops::LatentAttention>({"avx2_f32_latent_attention", &LatentSupports<Isa::kAvx2>,
                                   &RunLatent<kAvx2AttentionKernels>, ops::Arithmetic::kF32});
  table.Add<ops::LatentAttention>({.name = "ref_latent_attention",
                                   .supports = &ops::RefLatentAttentionSupports,
                                   .run = &ops::RefLatentAttention,
                                   .slow = &ops::PlainLoops<ops::LatentAttention>});
  RegisterIndex(table);
}

}  // namespace sluice::cpu
