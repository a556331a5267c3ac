// One generated call of an op: all memory that it reads or writes, and how its arguments lie in it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "ops/all_ops.h"
#include "ops/conformance.h"
#include "ops/host_array.h"

namespace sluice::ops {

// Where a call runs. Null `device`: the reference, on host memory.
struct ConformanceTarget {
  device::Device* device = nullptr;
  device::Stream* stream = nullptr;
  const OpTable* table = nullptr;
  std::string_view implementation;
  int number = 0;  // of the case
  // What arguments may point to; lives as long as the call.
  std::deque<PackedWeight> weights;
  std::vector<device::Buffer> buffers;
  std::vector<size_t> bytes;  // of each buffer; what lies behind them is a guard

  // `array` in the target's memory, with bytes behind it that nothing may write: NaN, which shows
  // where what lies behind is read, or by turns a number, as NaN stays NaN whatever is added to it.
  Result<Tensor> Upload(const Array& array);

  // An error where a guard was written.
  Status CheckGuards();
};

// How far an array may be off (Compare), and what some implementations may add to that.
struct Allowance {
  Allowance(double at_most = 0.0, double in_bf16 = 0.0, double in_order = 0.0,
            double not_rounded = 0.0)
      : limit(at_most), bf16(in_bf16), order(in_order), unrounded(not_rounded) {}
  double limit = 0.0;
  double bf16 = 0.0;       // those that multiply in bf16; in f16 an eighth of it
  double order = 0.0;      // those that need not add in the order of the references
  double unrounded = 0.0;  // those that don't round activations to int8 where the reference does
};
double LimitOf(const Allowance& allowance, Arithmetic arithmetic, bool reference_order);

// All memory of a call, and how it is judged.
struct CaseMemory {
  std::vector<Array> memory;
  std::vector<Allowance> limits;  // per array; what is only read has 0
  // By array, in place of Compare: for what holds structs.
  std::map<size_t, Comparison (*)(const Array& got, const Array& expected, double limit)> comparers;

  // Adds an array and returns its index.
  size_t Add(Array array, Allowance limit = {}) {
    memory.push_back(std::move(array));
    limits.push_back(limit);
    return memory.size() - 1;
  }
};

template <class Op>
struct ConformanceCase : CaseMemory {
  typename Op::Desc desc;
  // The arguments over `tensors`, one per array of `memory`.
  std::function<Result<typename Op::Args>(ConformanceTarget&, std::span<const Tensor> tensors)>
      args;
};

// What the generators draw from.
inline constexpr float kUntouched = 12345.0f;  // what nobody writes must still be there

template <class T, size_t N>
T Pick(TestNoise& noise, const T (&choices)[N]) {
  return choices[noise.Below(N)];
}

inline bool Flip(TestNoise& noise) { return noise.Below(2) == 1; }

// Formats take turns over the cases, so that a few cases meet all of them.
template <class T, size_t N>
T Turn(int number, const T (&choices)[N]) {
  return choices[static_cast<size_t>(number) % N];
}

inline DType FloatOf(int number) {
  // F32 is what most kernels are for.
  return Turn(number, {DType::kF32, DType::kF16, DType::kF32, DType::kBF16, DType::kF32});
}

// What one rounding to `dtype` may add to an error of `base`.
inline double LimitFor(DType dtype, double base) {
  return dtype == DType::kF32 ? base : dtype == DType::kF16 ? base + 0x1p-10 : base + 0x1p-7;
}

inline Array Filled(TestNoise& noise, DType dtype, std::vector<int64_t> dims, float scale = 1.0f) {
  Array array(dtype, std::move(dims));
  noise.Fill(array, scale);
  return array;
}

inline Array Untouched(DType dtype, std::vector<int64_t> dims) {
  Array array(dtype, std::move(dims));
  array.Fill(kUntouched);
  return array;
}

inline constexpr DType kKvFormats[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                                       DType::kI8};
// Together with Turn(number, kKvFormats): every pair of formats.
inline DType FloatBesideKv(int number) { return FloatOf(number + number / 5); }

// The first `width` columns of a tensor whose rows are wider.
inline Tensor Columns(Tensor t, int64_t width) {
  t.dims[1] = width;
  return t;
}

// Calls without rows: few, and never the only ones of a format among 20 cases.
inline bool IsEmpty(int number) { return number % 19 == 18; }

inline int64_t AnyTokens(int number, TestNoise& noise) {
  const int64_t tokens = Pick<int64_t>(noise, {1, 1, 2, 3, 7, 16, 33, 100});
  return IsEmpty(number) ? 0 : tokens;
}

// Of codes that come of numbers which differ by a rounding: the difference of two codes' values, in
// F8 over 1 + |expected|, is at most the limit.
Comparison CompareCodes(const Array& got, const Array& expected, double limit);
// What that may be: one step of the format, and a little of what is near 0.
inline constexpr double kF8CodeStep = 0.15, kI8CodeStep = 1.0;

// What an attention that multiplies in bf16 may be off by, for |q| <= 2, |k| <= 1 and |v| <= 1
// spread evenly, where one position has all the weight; less by sqrt(sum of squared weights).
double AttentionBf16Error(const Attention::Desc& desc);

// A generator per op; each call draws another case, the one of this number counted from 0.
ConformanceCase<Norm> MakeCase(const Norm&, int number, TestNoise& noise);
ConformanceCase<QkNorm> MakeCase(const QkNorm&, int number, TestNoise& noise);
ConformanceCase<GatedActivation> MakeCase(const GatedActivation&, int number, TestNoise& noise);
ConformanceCase<GroupQuant> MakeCase(const GroupQuant&, int number, TestNoise& noise);
ConformanceCase<PlainActivation> MakeCase(const PlainActivation&, int number, TestNoise& noise);
ConformanceCase<SoftCap> MakeCase(const SoftCap&, int number, TestNoise& noise);
ConformanceCase<Embedding> MakeCase(const Embedding&, int number, TestNoise& noise);
ConformanceCase<GatherRows> MakeCase(const GatherRows&, int number, TestNoise& noise);
ConformanceCase<Pool> MakeCase(const Pool&, int number, TestNoise& noise);
ConformanceCase<ResolveTokens> MakeCase(const ResolveTokens&, int number, TestNoise& noise);
ConformanceCase<PlaceTokens> MakeCase(const PlaceTokens&, int number, TestNoise& noise);
ConformanceCase<RopeKv> MakeCase(const RopeKv&, int number, TestNoise& noise);
ConformanceCase<NormedRopeKv> MakeCase(const NormedRopeKv&, int number, TestNoise& noise);
ConformanceCase<Attention> MakeCase(const Attention&, int number, TestNoise& noise);
ConformanceCase<LatentAttention> MakeCase(const LatentAttention&, int number, TestNoise& noise);
ConformanceCase<IndexScores> MakeCase(const IndexScores&, int number, TestNoise& noise);
ConformanceCase<TopK> MakeCase(const TopK&, int number, TestNoise& noise);
ConformanceCase<ShortConv> MakeCase(const ShortConv&, int number, TestNoise& noise);
ConformanceCase<GatedDelta> MakeCase(const GatedDelta&, int number, TestNoise& noise);
ConformanceCase<Ssd> MakeCase(const Ssd&, int number, TestNoise& noise);
ConformanceCase<SelectiveScan> MakeCase(const SelectiveScan&, int number, TestNoise& noise);
ConformanceCase<GatedNorm> MakeCase(const GatedNorm&, int number, TestNoise& noise);
ConformanceCase<SigmoidGate> MakeCase(const SigmoidGate&, int number, TestNoise& noise);
ConformanceCase<SigmoidGateScaleAdd> MakeCase(const SigmoidGateScaleAdd&, int number,
                                              TestNoise& noise);
ConformanceCase<GaussianTopK> MakeCase(const GaussianTopK&, int number, TestNoise& noise);
ConformanceCase<PredictStreams> MakeCase(const PredictStreams&, int number, TestNoise& noise);
ConformanceCase<CorrectStreams> MakeCase(const CorrectStreams&, int number, TestNoise& noise);
ConformanceCase<LevelStreams> MakeCase(const LevelStreams&, int number, TestNoise& noise);
ConformanceCase<Linear> MakeCase(const Linear&, int number, TestNoise& noise);
ConformanceCase<DenseChain> MakeCase(const DenseChain&, int number, TestNoise& noise);
ConformanceCase<ExpertsChain> MakeCase(const ExpertsChain&, int number, TestNoise& noise);
ConformanceCase<RouteExperts> MakeCase(const RouteExperts&, int number, TestNoise& noise);
ConformanceCase<FakeBalanceExperts> MakeCase(const FakeBalanceExperts&, int number,
                                             TestNoise& noise);
ConformanceCase<MapExperts> MakeCase(const MapExperts&, int number, TestNoise& noise);
ConformanceCase<GroupExperts> MakeCase(const GroupExperts&, int number, TestNoise& noise);
ConformanceCase<GroupedLinear> MakeCase(const GroupedLinear&, int number, TestNoise& noise);
ConformanceCase<GroupedGate> MakeCase(const GroupedGate&, int number, TestNoise& noise);
ConformanceCase<ScaleExperts> MakeCase(const ScaleExperts&, int number, TestNoise& noise);
ConformanceCase<CombineExperts> MakeCase(const CombineExperts&, int number, TestNoise& noise);
ConformanceCase<Sample> MakeCase(const Sample&, int number, TestNoise& noise);
ConformanceCase<SetCounts> MakeCase(const SetCounts&, int number, TestNoise& noise);
ConformanceCase<ResolveRows> MakeCase(const ResolveRows&, int number, TestNoise& noise);
ConformanceCase<KeepDrawn> MakeCase(const KeepDrawn&, int number, TestNoise& noise);
ConformanceCase<NextTokens> MakeCase(const NextTokens&, int number, TestNoise& noise);
ConformanceCase<KeepGuesses> MakeCase(const KeepGuesses&, int number, TestNoise& noise);
ConformanceCase<FollowTrees> MakeCase(const FollowTrees&, int number, TestNoise& noise);
ConformanceCase<GrowTrees> MakeCase(const GrowTrees&, int number, TestNoise& noise);

// A number of a slot, a sequence or a place that is not there.
inline constexpr int32_t kOutside = 2000000000;

// What an op may leave as it is: all of it is compared.
inline Array Left(std::vector<int64_t> dims) {
  Array array(DType::kI32, std::move(dims));
  for (size_t i = 0; i < array.Count(); ++i) array.Int(i) = -77;
  return array;
}

}  // namespace sluice::ops
