#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/check_args.h"
#include "ops/element.h"
#include "ops/experts.h"
#include "ops/reference_support.h"

namespace sluice::ops {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// The index of the largest key that is not taken yet, of equals the first.
int Best(const std::vector<float>& keys, const std::vector<bool>& taken) {
  int best = -1;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (taken[i] || (best >= 0 && !(keys[i] > keys[best]))) continue;
    best = static_cast<int>(i);
  }
  return best;
}

// The sum of the two largest of `keys`, or the largest alone.
float GroupKey(const float* keys, int count, bool largest_alone) {
  float first = kNone, second = kNone;
  for (int i = 0; i < count; ++i) {
    if (keys[i] > first) {
      second = first;
      first = keys[i];
    } else if (keys[i] > second) {
      second = keys[i];
    }
  }
  return count > 1 && !largest_alone ? first + second : first;
}

// Which experts do not take part because their group does not.
std::vector<bool> OutsideGroups(const RouteExperts::Desc& desc, const std::vector<float>& keys) {
  const int size = desc.experts / desc.groups;
  std::vector<float> group_keys;
  const bool largest_alone = desc.scoring != RouterScoring::kSigmoid;
  for (int g = 0; g < desc.groups; ++g)
    group_keys.push_back(GroupKey(&keys[g * size], size, largest_alone));
  std::vector<bool> kept(static_cast<size_t>(desc.groups)), outside(keys.size(), true);
  for (int i = 0; i < desc.groups_kept; ++i) {
    const int g = Best(group_keys, kept);
    kept[g] = true;
    std::fill_n(outside.begin() + g * size, size, false);
  }
  return outside;
}

void RouteToken(const RouteExperts::Desc& desc, const float* logits, const float* bias,
                const float* scales, int32_t* ids, float* weights) {
  const int experts = desc.experts;
  std::vector<float> scores(static_cast<size_t>(experts)), keys(scores.size());
  std::copy_n(logits, experts, scores.begin());
  const auto set_keys = [&] {
    for (int e = 0; e < experts; ++e) {
      keys[e] = bias != nullptr ? scores[e] + bias[e] : scores[e];
      if (std::isnan(keys[e])) keys[e] = kNone;
    }
  };
  if (desc.scoring == RouterScoring::kSigmoid) {
    for (float& score : scores) score = 1.0f / (1.0f + std::exp(-score));
    set_keys();
  } else {
    if (desc.scoring == RouterScoring::kSoftmax) set_keys();
    const float largest = *std::max_element(logits, logits + experts);
    float sum = 0.0f;
    for (float& score : scores) sum += score = std::exp(score - largest);
    for (float& score : scores) score /= sum;
    if (desc.scoring == RouterScoring::kSoftmaxBiased) set_keys();
  }
  std::vector<bool> taken = OutsideGroups(desc, keys);
  float sum = 0.0f;
  for (int i = 0; i < desc.top_k; ++i) {
    ids[i] = Best(keys, taken);
    taken[ids[i]] = true;
    weights[i] = scores[ids[i]];
    sum += weights[i];
  }
  for (int i = 0; i < desc.top_k; ++i) {
    if (desc.renormalize) weights[i] /= sum + 1e-20f;
    weights[i] *= desc.scale;
    if (scales != nullptr) weights[i] *= scales[ids[i]];
  }
}

}  // namespace

Support RefRouteExpertsSupports(const RouteExperts::Desc& desc, const device::DeviceFacts&) {
  if (desc.experts < 1 || desc.experts > kExpertsMax)
    return Support::No(StrCat(desc.experts, " experts; 1 to ", kExpertsMax, " are supported"));
  if (desc.groups < 1 || desc.experts % desc.groups != 0 || desc.groups_kept < 1 ||
      desc.groups_kept > desc.groups) {
    return Support::No(
        StrCat(desc.groups_kept, " of ", desc.groups, " groups of ", desc.experts, " experts"));
  }
  const int most = std::min(kExpertsPerTokenMax, desc.experts / desc.groups * desc.groups_kept);
  if (desc.top_k < 1 || desc.top_k > most)
    return Support::No(StrCat(desc.top_k, " experts a token; 1 to ", most, " can be taken"));
  if (!std::isfinite(desc.scale)) return Support::No(StrCat("scale is ", desc.scale));
  return Support::Yes();
}

Status RefRouteExperts(device::Stream&, const RouteExperts::Desc& desc,
                       const RouteExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.logits.dims[0]; ++t) {
    RouteToken(desc, args.logits.ptr<float>() + t * args.logits.strides[0], args.bias.ptr<float>(),
               args.scales.ptr<float>(), args.ids.ptr<int32_t>() + t * args.ids.strides[0],
               args.weights.ptr<float>() + t * args.weights.strides[0]);
  }
  return OkStatus();
}

Support RefGroupExpertsSupports(const GroupExperts::Desc& desc, const device::DeviceFacts&) {
  return SupportsTopExperts(desc.top_k, desc.experts);
}

Status RefGroupExperts(device::Stream&, const GroupExperts::Desc& desc,
                       const GroupExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.ids.dims[0]; ++t) {
    SLUICE_RETURN_IF_ERROR(
        CheckIndices(GroupExperts::kName, "ids", args.ids.Rows(t, 1), 0, desc.experts));
  }
  int32_t* starts = args.starts.ptr<int32_t>();
  std::vector<int32_t> next(static_cast<size_t>(desc.experts));
  const auto id = [&](int64_t t, int i) {
    return args.ids.ptr<int32_t>()[t * args.ids.strides[0] + i];
  };
  const int64_t counted = args.counted.empty() ? args.ids.dims[0] : *args.counted.ptr<int32_t>();
  uint32_t* const counts = args.counts.ptr<uint32_t>();
  for (int64_t t = 0; t < args.ids.dims[0]; ++t) {
    for (int i = 0; i < desc.top_k; ++i) {
      ++next[id(t, i)];
      if (counts != nullptr && t < counted) ++counts[id(t, i)];
    }
  }
  starts[0] = 0;
  for (int e = 0; e < desc.experts; ++e) {
    starts[e + 1] = starts[e] + next[e];
    next[e] = starts[e];
  }
  for (int64_t t = 0; t < args.ids.dims[0]; ++t) {
    for (int i = 0; i < desc.top_k; ++i) {
      const int32_t place = next[id(t, i)]++;
      args.tokens.ptr<int32_t>()[place] = static_cast<int32_t>(t);
      args.places.ptr<int32_t>()[t * args.places.strides[0] + i] = place;
    }
  }
  return OkStatus();
}

Support RefScaleExpertsSupports(const ScaleExperts::Desc& desc, const device::DeviceFacts&) {
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (desc.top_k < 1 || desc.top_k > kExpertsPerTokenMax)
    return Support::No(StrCat(desc.top_k, " experts a token"));
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  return Support::Yes();
}

Status RefScaleExperts(device::Stream&, const ScaleExperts::Desc& desc,
                       const ScaleExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.weights.dims[0]; ++t) {
    const Tensor places = args.places.Rows(t, 1);
    SLUICE_RETURN_IF_ERROR(CheckIndices(ScaleExperts::kName, "places", places, 0, args.x.dims[0]));
    float* weights = args.weights.ptr<float>() + t * args.weights.strides[0];
    for (int i = 0; i < desc.top_k; ++i) {
      const auto row = RowData(args.x, places.ptr<int32_t>()[i]);
      for (int64_t c = 0; c < desc.width; ++c) {
        StoreElement(desc.activation, row, c, LoadElement(desc.activation, row, c) * weights[i]);
      }
      weights[i] = 1.0f;
    }
  }
  return OkStatus();
}

Support RefCombineExpertsSupports(const CombineExperts::Desc& desc, const device::DeviceFacts&) {
  if (!IsPlainFloat(desc.out))
    return Support::No(StrCat("outputs of ", Name(desc.out), " are not supported"));
  if (desc.top_k < 1 || desc.top_k > kExpertsPerTokenMax)
    return Support::No(StrCat(desc.top_k, " experts a token"));
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  return Support::Yes();
}

Status RefCombineExperts(device::Stream&, const CombineExperts::Desc& desc,
                         const CombineExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.out.dims[0]; ++t) {
    const Tensor places = args.places.Rows(t, 1);
    SLUICE_RETURN_IF_ERROR(
        CheckIndices(CombineExperts::kName, "places", places, 0, args.y.dims[0]));
    const float* weights = args.weights.ptr<float>() + t * args.weights.strides[0];
    for (int64_t c = 0; c < desc.width; ++c) {
      float acc = 0.0f;
      for (int i = 0; i < desc.top_k; ++i) {
        acc = std::fma(weights[i],
                       args.y.ptr<float>()[places.ptr<int32_t>()[i] * args.y.strides[0] + c], acc);
      }
      if (desc.residual) acc += LoadElement(desc.out, RowData(args.residual, t), c);
      StoreElement(desc.out, RowData(args.out, t), c, acc);
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
