// What stands around the products of a feed-forward part made of experts, of which each token takes
// a few: which ones it takes and how much of each (route_experts), the tokens put together by
// expert (group_experts), the weight on what an expert reads instead of what it gives
// (scale_experts), and what the experts made of a token added up (combine_experts). The
// products between them are grouped_linear's (ops/grouped_linear.h). Whatever a token gets depends
// on that token alone, whoever else takes the same expert.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// More experts than any published model has; kernels hold a number for each.
inline constexpr int kExpertsMax = 1024;
inline constexpr int kExpertsPerTokenMax = 64;

enum class RouterScoring : uint8_t { kSoftmax, kSigmoid, kSoftmaxBiased };
inline constexpr RouterScoring kRouterScorings[] = {
    RouterScoring::kSoftmax, RouterScoring::kSigmoid, RouterScoring::kSoftmaxBiased};
std::string_view Name(RouterScoring scoring);  // "softmax", "sigmoid", "biased softmax"

// The top_k experts of each token, best first, all of them different. Experts are compared by
//   kSoftmax: the logit (+ bias);
//   kSigmoid: sigmoid(logit) (+ bias)        as DeepSeek-V3 corrects the load of its experts;
//   kSoftmaxBiased: its softmax over all experts (+ bias)        as ERNIE 4.5 does;
// equals by the lowest index, and NaN is below everything. With several groups only the experts of
// the best groups_kept groups take part, where a group counts as its best expert (softmax, as in
// DeepSeek-V2) or as the sum of its two best (kSigmoid; its only one, where it has one), equal
// groups by the lowest index. The weight of an expert is its softmax over all experts or its
// sigmoid, without the bias; with `renormalize` divided by 1e-20 and the sum of those taken; then
// times `scale`, and times the expert's number where there is one. All in F32.
struct RouteExperts {
  static constexpr std::string_view kName = "route_experts";
  struct Desc {
    RouterScoring scoring = RouterScoring::kSoftmax;
    int experts = 0;
    int top_k = 0;        // <= experts of the groups kept
    int groups = 1;       // of equally many experts, which stand side by side
    int groups_kept = 1;  // <= groups
    bool bias = false;
    bool renormalize = false;
    bool expert_scales = false;  // the weights are multiplied by a number of their expert
    float scale = 1.0f;
    std::string ToString() const;
  };
  struct Args {
    Tensor logits;       // F32 [tokens, experts], rows may be strided
    Tensor bias;         // F32 [experts] or empty
    Tensor scales = {};  // F32 [experts] or empty: of expert_scales
    Tensor ids;          // I32 [tokens, top_k]
    Tensor weights;      // F32 [tokens, top_k]
  };
};

// A place for each (token, choice): the tokens of expert 0 first, in ascending order, then those of
// expert 1, and so on. An expert that nobody takes has no place.
struct GroupExperts {
  static constexpr std::string_view kName = "group_experts";
  struct Desc {
    int experts = 0;
    int top_k = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor ids;     // I32 [tokens, top_k], each in [0, experts), as route_experts writes them
    Tensor starts;  // I32 [experts + 1]: the places of expert e are [starts[e], starts[e + 1])
    Tensor tokens;  // I32 [tokens * top_k]: by place, whose it is
    Tensor places;  // I32 [tokens, top_k]: by token and choice, where it is
    // I32 [experts] or empty: counts[e] grows by the choices of expert e, modulo 2^32.
    Tensor counts = {};
    // I32 [1] or empty: tokens from this one on are padding, which counts leave out.
    Tensor counted = {};
  };
};

// x[places[t, i]] *= weights[t, i], rounded to the type of x, and then weights[t, i] = 1. With x as
// what an expert's first product gave, which has no bias, the expert gives what it would give for
// the token times its weight, as Llama 4 has it.
struct ScaleExperts {
  static constexpr std::string_view kName = "scale_experts";
  struct Desc {
    DType activation = DType::kF32;
    int top_k = 0;
    int64_t width = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor x;        // [tokens * top_k, width], by place; in place
    Tensor weights;  // F32 [tokens, top_k]
    Tensor places;   // I32 [tokens, top_k], each in [0, tokens * top_k), all different
  };
};

// out = (sum over choices, in the order of ids, of weight * y[place]) (+ residual): the sum is in
// F32, acc = fma(weight, y, acc) from zero, and rounded once to the type of out.
struct CombineExperts {
  static constexpr std::string_view kName = "combine_experts";
  struct Desc {
    DType out = DType::kF32;  // of residual and out
    int top_k = 0;
    int64_t width = 0;
    bool residual = false;
    std::string ToString() const;
  };
  struct Args {
    Tensor y;         // F32 [tokens * top_k, width], by place
    Tensor weights;   // F32 [tokens, top_k]
    Tensor places;    // I32 [tokens, top_k], each in [0, tokens * top_k)
    Tensor residual;  // [tokens, width] or empty; may be the same memory as out
    Tensor out;       // [tokens, width]; may not overlap y
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const RouteExperts::Desc& desc, const RouteExperts::Args& args);
Status CheckArgs(const GroupExperts::Desc& desc, const GroupExperts::Args& args);
Status CheckArgs(const ScaleExperts::Desc& desc, const ScaleExperts::Args& args);
Status CheckArgs(const CombineExperts::Desc& desc, const CombineExperts::Args& args);

Support RefRouteExpertsSupports(const RouteExperts::Desc& desc, const device::DeviceFacts& facts);
Status RefRouteExperts(device::Stream& stream, const RouteExperts::Desc& desc,
                       const RouteExperts::Args& args);
Support RefGroupExpertsSupports(const GroupExperts::Desc& desc, const device::DeviceFacts& facts);
Status RefGroupExperts(device::Stream& stream, const GroupExperts::Desc& desc,
                       const GroupExperts::Args& args);
Support RefScaleExpertsSupports(const ScaleExperts::Desc& desc, const device::DeviceFacts& facts);
Status RefScaleExperts(device::Stream& stream, const ScaleExperts::Desc& desc,
                       const ScaleExperts::Args& args);
Support RefCombineExpertsSupports(const CombineExperts::Desc& desc,
                                  const device::DeviceFacts& facts);
Status RefCombineExperts(device::Stream& stream, const CombineExperts::Desc& desc,
                         const CombineExperts::Args& args);

}  // namespace sluice::ops
