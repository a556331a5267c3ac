#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "ops/conformance_case.h"
#include "ops/formats/format.h"
#include "ops/formats/rows.h"

namespace sluice::ops {
namespace {

// The largest value of a code times that of its sub-block's scale, for formats that are made of
// random bytes.
float LargestCode(DType dtype) {
  switch (dtype) {
    case DType::kQ2_K:
      return 15 * 3;
    case DType::kQ3_K:
      return 32 * 4;
    case DType::kQ4_K:
      return 63 * 15;
    case DType::kQ5_K:
      return 63 * 31;
    case DType::kQ6_K:
      return 128 * 32;
    case DType::kIQ4_XS:
      return 32 * 127;
    case DType::kIQ3_XXS:
      return 31 * 62 / 4.0f;
    case DType::kIQ3_S:
      return 31 * 15;
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
      return 31 * 43 / 8.0f;
    case DType::kIQ1_S:
    case DType::kIQ1_M:
      return 15 * 9 / 8.0f;
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return 2;
    case DType::kMXFP4:
    case DType::kNVFP4:
      return 12;
    default:
      return 127;  // IQ4_NL
  }
}

// A matrix in its stored format, of values within about +-1. K formats, and those that nothing
// writes, are made of random bytes, so that every code occurs with every scale of a sub-block; the
// scale of a block is of the size that a quantizer would choose, of either sign.
Array StoredMatrix(TestNoise& noise, DType dtype, int64_t rows, int64_t columns) {
  Array array(dtype, {rows, columns});
  std::byte* data = array.tensor().data;
  const size_t row_bytes = RowBytes(dtype, static_cast<size_t>(columns));
  if (CanQuantize(dtype) && Info(dtype).block < 256) {
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < rows; ++r) {
      for (float& value : row) value = noise.Value();
      QuantizeRow(dtype, row, data + r * row_bytes);
    }
    return array;
  }
  const BlockFormat& format = *FindBlockFormat(dtype);
  const size_t block = BlockBytes(format);
  const auto scale = [&] {
    const float size = (1.0f + 0.25f * noise.Value()) / LargestCode(dtype);
    return Flip(noise) ? size : -size;
  };
  for (size_t at = 0; at < rows * row_bytes; at += block) {
    for (size_t i = 0; i < block; ++i) data[at + i] = static_cast<std::byte>(noise.Next());
    const float d = scale();
    SetScale(format, d, format.minimum ? scale() : 0.0f, data + at);
  }
  return array;
}

constexpr DType kStored[] = {
    DType::kF32,   DType::kF16,     DType::kBF16,   DType::kQ8_0,   DType::kQ4_0,   DType::kQ4_1,
    DType::kQ5_0,  DType::kQ5_1,    DType::kQ2_K,   DType::kQ3_K,   DType::kQ4_K,   DType::kQ5_K,
    DType::kQ6_K,  DType::kIQ4_NL,  DType::kMXFP4,  DType::kF8E4M3, DType::kIQ4_XS, DType::kIQ3_XXS,
    DType::kIQ3_S, DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,  DType::kIQ1_S,  DType::kIQ1_M,
    DType::kTQ1_0, DType::kTQ2_0,   DType::kNVFP4};
constexpr int kStoredCount = static_cast<int>(std::size(kStored));

// Together with Turn(number, kStored): every pair of formats.
DType FloatBesideWeight(int number) { return FloatOf(number + number / kStoredCount); }

// Scales for a weight that has some.
Array WeightScalesFor(TestNoise& noise, const Linear::Desc& desc) {
  Array scales(DType::kF32, ScaleShape(desc));
  for (size_t i = 0; i < scales.Count(); ++i) scales.Set(i, 0.3f + 0.2f * noise.Value());
  return scales;
}

// That `scales` has for an element of W; 1 where W has none.
float ScaleAt(const Linear::Desc& desc, const Array& scales, int64_t row, int64_t k) {
  switch (desc.weight_scales) {
    case WeightScales::kNone:
      return 1.0f;
    case WeightScales::kTensor:
      return scales.At(0);
    case WeightScales::kRow:
      return scales.At(static_cast<size_t>(row));
    default:
      return scales.At(
          static_cast<size_t>(row / kScaleBlock * ScaleShape(desc)[1] + k / kScaleBlock));
  }
}

// The length of the longest row of W.
double LongestRow(const Linear::Desc& desc, const Array& stored, const Array& scales) {
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  std::vector<float> row(static_cast<size_t>(desc.k));
  double longest = 0.0;
  for (int64_t r = 0; r < desc.n; ++r) {
    DequantizeRow(desc.weight, stored.tensor().data + r * row_bytes, row);
    double squares = 0.0;
    for (int64_t k = 0; k < desc.k; ++k) {
      const double w = double{row[static_cast<size_t>(k)]} * ScaleAt(desc, scales, r, k);
      squares += w * w;
    }
    longest = std::max(longest, std::sqrt(squares));
  }
  return longest;
}

// As the loader of weights packs a matrix that is too large for one piece of memory: the first half
// of the row groups and the others, each as a matrix of its own, one behind the other.
Status PackInPieces(const LinearPacking& packing, const Linear::Desc& desc, const std::byte* rows,
                    std::span<std::byte> packed) {
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  const int64_t groups = (desc.n + packing.row_group - 1) / packing.row_group;
  const int64_t middle = groups / 2 * packing.row_group;
  size_t offset = 0;
  for (const auto& [begin, end] : {std::pair(int64_t{0}, middle), std::pair(middle, desc.n)}) {
    Linear::Desc piece = desc;
    piece.n = end - begin;
    if (piece.n == 0) continue;
    const size_t bytes = packing.packed_bytes(piece);
    if (bytes > packed.size() - offset) break;
    SLUICE_RETURN_IF_ERROR(
        packing.pack(piece, 0, {rows + begin * row_bytes, static_cast<size_t>(piece.n) * row_bytes},
                     packed.subspan(offset, bytes)));
    offset += bytes;
  }
  if (offset == packed.size()) return OkStatus();
  return Status(StatusCode::kInternal, StrCat("two pieces of ", desc.ToString(), " take ", offset,
                                              " bytes packed, the whole ", packed.size()));
}

// `stored` as the target's implementation wants it; `weight` has the same in the target's memory,
// row-major.
Result<const PackedWeight*> Packed(ConformanceTarget& target, const Linear::Desc& desc,
                                   const Array& stored, PackedWeight weight) {
  if (target.table != nullptr) {
    const LinearPacking& packing = PackingOf(*target.table, target.implementation);
    if (packing.layout != LayoutId::kRowMajor) {
      Array packed(DType::kU8, {static_cast<int64_t>(packing.packed_bytes(desc))});
      SLUICE_RETURN_IF_ERROR(PackInPieces(packing, desc, stored.tensor().data,
                                          {packed.tensor().data, packed.Count()}));
      SLUICE_ASSIGN_OR_RETURN(weight.data, target.Upload(packed));
      weight.layout = packing.layout;
    }
  }
  target.weights.push_back(weight);
  return &target.weights.back();
}

// Makes the call's x, whose numbers `x` has, codes in the target's memory, for implementations that
// take some.
template <class Args>
Status GiveCodes(ConformanceTarget& target, const Linear::Desc& desc, const Array& x, Args* args) {
  const int64_t m = args->x.dims[0], groups = (desc.k + kCodeGroup - 1) / kCodeGroup;
  if (m == 0 || target.table == nullptr) return OkStatus();
  if (!TakesCodes(*target.table, target.implementation, desc)) return OkStatus();
  const Array codes(DType::kF8E4M3, {m, desc.k}), scales(DType::kF32, {groups, m});
  std::vector<float> row(static_cast<size_t>(desc.k));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t k = 0; k < desc.k; ++k)
      row[static_cast<size_t>(k)] = x.At(static_cast<size_t>(i * args->x.strides[0] + k));
    CodeRow(row, RowData(codes.tensor(), i), scales.tensor().ptr<float>() + i, m);
  }
  SLUICE_ASSIGN_OR_RETURN(args->x, target.Upload(codes));
  SLUICE_ASSIGN_OR_RETURN(args->x_scales, target.Upload(scales));
  return OkStatus();
}

}  // namespace

ConformanceCase<Embedding> MakeCase(const Embedding&, int number, TestNoise& noise) {
  ConformanceCase<Embedding> c;
  c.desc.table = Turn(number, kStored);
  c.desc.activation = FloatBesideWeight(number);
  c.desc.vocab = Pick<int64_t>(noise, {1, 7, 50});
  c.desc.hidden = Info(c.desc.table).block * Turn<int64_t>(number / kStoredCount, {2, 1, 5});
  c.desc.scale = Pick(noise, {1.0f, 24.0f});
  c.desc.add = number % 5 == 4;
  const int64_t tokens = AnyTokens(number, noise);
  std::vector<int32_t> ids;
  c.desc.first_beyond = number % 3 == 2;
  const int64_t most = c.desc.first_beyond ? c.desc.vocab + 3 : c.desc.vocab;
  for (int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(noise.Below(most)));
  const DType type = c.desc.activation;
  const size_t id = c.Add(Array::Ints(ids));
  const size_t table = c.Add(StoredMatrix(noise, c.desc.table, c.desc.vocab, c.desc.hidden));
  const std::vector<int64_t> shape = {tokens, c.desc.hidden};
  const size_t out = c.Add(c.desc.add ? Filled(noise, type, shape) : Untouched(type, shape));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<Embedding::Args> {
    return Embedding::Args{.ids = t[id], .table = t[table], .out = t[out]};
  };
  return c;
}

namespace {

// Enough rows and tokens that a GPU with 132 multiprocessors chooses its tiles. Seldom: the
// reference takes a second.
bool IsLarge(int number) { return number % 50 == 49; }

// Formats take turns; then once more those that have kernels for activations of their type; at the
// end F8 with scales, in every pair of what they cover, and block formats with scales.
struct LinearFormats {
  DType weight, activation;
  WeightScales weight_scales = WeightScales::kNone;
  ActivationScales x_scales = ActivationScales::kNone;
};
LinearFormats FormatsOf(int number) {
  constexpr DType kMore[] = {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kBF16};
  constexpr LinearFormats kLarge[] = {
      {DType::kBF16, DType::kBF16}, {DType::kQ4_1, DType::kF32}, {DType::kQ4_1, DType::kBF16}};
  if (IsLarge(number)) return Turn(number / 50, kLarge);
  constexpr ActivationScales kOfX[] = {ActivationScales::kNone, ActivationScales::kTensor,
                                       ActivationScales::kRow, ActivationScales::kBlock};
  constexpr LinearFormats kScaledBlocks[] = {
      {DType::kI8, DType::kF32, WeightScales::kRow},
      {DType::kNVFP4, DType::kF32, WeightScales::kTensor},
      {DType::kI8, DType::kBF16, WeightScales::kTensor},
      {DType::kNVFP4, DType::kF32, WeightScales::kRow},
  };
  constexpr int kTurn = kStoredCount + 10;
  const int turn = number / kTurn, place = number % kTurn - kStoredCount;
  if (place < 0) return {kStored[place + kStoredCount], FloatOf(place + kStoredCount + turn)};
  if (place >= 8) return Turn(2 * turn + place, kScaledBlocks);
  if (place >= 4) {
    return {DType::kF8E4M3, Turn(turn + place, {DType::kBF16, DType::kF32, DType::kF16}),
            Turn(turn, {WeightScales::kBlock, WeightScales::kRow, WeightScales::kTensor}),
            kOfX[place - 4]};
  }
  const DType weight = kMore[place];
  if (place == 2) return {weight, Turn(turn, {DType::kF16, DType::kBF16})};
  if (place == 3) return {weight, Turn(turn, {DType::kF32, DType::kBF16})};
  return {weight, weight};
}

std::vector<int32_t> Shuffled(TestNoise& noise, int32_t count) {
  std::vector<int32_t> numbers;
  for (int32_t i = 0; i < count; ++i) {
    numbers.push_back(i);
    std::swap(numbers.back(), numbers[static_cast<size_t>(noise.Below(i + 1))]);
  }
  return numbers;
}

// The contract fixes every rounding on the CPU, so its implementations agree to the bit, but for
// those that round x to bf16. Products of x (0.58 * x_max by root mean square) and of a row of W
// are off by their rounding: bf16 by 0.42 * 2^-8, int8 by 0.29 / 127 of x_max; six times that,
// where the elements of W are 0.58 too.
Allowance ProductLimit(const Linear::Desc& desc, float x_max, double longest) {
  const double size = x_max * longest / 0.58;
  // A sum in F32 of k such products is off by half a unit of 2^-24 of itself with each; then come
  // bias and residual.
  const double order = 0x1p-24 * std::sqrt(static_cast<double>(desc.k)) * size + 0x1p-21;
  Allowance allowance(0.0, 0x1p-8 * size, order);
  if (FindBlockFormat(desc.weight) != nullptr) allowance.unrounded = 0x1p-7 * size;
  if (OutDType(desc) != DType::kF32) allowance.order += LimitFor(OutDType(desc), 0.0);
  // Matrix instructions keep about 13 bits of a sum of products in F8.
  if (desc.x_scales != ActivationScales::kNone) allowance.order += 0x1p-11 * size;
  return allowance;
}

}  // namespace

ConformanceCase<Linear> MakeCase(const Linear&, int number, TestNoise& noise) {
  ConformanceCase<Linear> c;
  const LinearFormats formats = FormatsOf(number);
  c.desc.weight = formats.weight;
  c.desc.weight_scales = formats.weight_scales;
  c.desc.x_scales = formats.x_scales;
  c.desc.n = IsLarge(number) ? 14343 : Pick<int64_t>(noise, {1, 7, 16, 33, 96, 200});
  c.desc.k = Info(c.desc.weight).block * Pick<int64_t>(noise, {1, 2, 3, 18});
  // Kernels that read plain formats in wide words have other ones for short rows.
  if (!IsQuantized(c.desc.weight) && Flip(noise)) c.desc.k = Pick<int64_t>(noise, {64, 192, 576});
  if (IsLarge(number)) c.desc.k = 64;
  const bool scaled = c.desc.weight_scales != WeightScales::kNone;
  if (scaled) {  // several blocks, the last ones ragged by turns
    c.desc.n = Pick<int64_t>(noise, {1, 33, 128, 200, 300});
    c.desc.k = FindBlockFormat(c.desc.weight) != nullptr
                   ? Pick<int64_t>(noise, {64, 192, 576})
                   : Pick<int64_t>(noise, {16, 128, 200, 320, 576});
  }
  c.desc.bias = Flip(noise);
  c.desc.residual = Flip(noise);
  c.desc.ordered = FindBlockFormat(c.desc.weight) != nullptr && number % 7 == 3;
  const int64_t m = IsLarge(number) ? 100 : AnyTokens(number, noise);
  const int64_t n = c.desc.n, k = c.desc.k;
  c.desc.activation = formats.activation;
  c.desc.f32_out = Flip(noise);
  const DType type = c.desc.activation, out_type = OutDType(c.desc);
  const bool in_place = c.desc.residual && Flip(noise);
  const auto stored = std::make_shared<const Array>(StoredMatrix(noise, c.desc.weight, n, k));
  const Array scales = WeightScalesFor(noise, c.desc);
  const double longest = LongestRow(c.desc, *stored, scales);
  // Errors are held against 1 + |out|, so out is about 1, whatever the length of W's rows.
  const float x_max =
      static_cast<float>(Pick(noise, {0.1, 1.0, 2.0}) / (0.58 * std::max(longest, 1e-3)));
  const Allowance allowance = ProductLimit(c.desc, x_max, longest);
  const Array rows = Filled(noise, type, {m, k + 5}, x_max);
  const size_t x = c.Add(rows);
  const size_t w = c.Add(*stored);
  const size_t w_scales = c.Add(scales);
  // Some of x is beyond what it leaves to codes.
  const size_t x_scale = c.Add(Array::Floats(DType::kF32, {1}, {0.9f * x_max / 448.0f}));
  const size_t order = c.Add(Array::Ints(Shuffled(noise, static_cast<int32_t>(k))));
  const size_t bias = c.Add(Filled(noise, type, {n}));
  const size_t residual =
      c.Add(Filled(noise, out_type, {m, n}), in_place ? allowance : Allowance());
  const size_t out = c.Add(Untouched(out_type, {m, n}), in_place ? Allowance() : allowance);
  c.args = [=, desc = c.desc](ConformanceTarget& target,
                              std::span<const Tensor> t) -> Result<Linear::Args> {
    Linear::Args args{.x = Columns(t[x], k)};
    if (number % 2 == 0) SLUICE_RETURN_IF_ERROR(GiveCodes(target, desc, rows, &args));
    if (desc.bias) args.bias = t[bias];
    if (desc.residual) args.residual = t[residual];
    args.out = in_place ? t[residual] : t[out];
    PackedWeight weight = {t[w], desc.weight, LayoutId::kRowMajor, desc.n, desc.k};
    if (scaled) weight.scales = t[w_scales];
    if (desc.x_scales == ActivationScales::kTensor) weight.x_scale = t[x_scale];
    if (desc.ordered) weight.order = t[order];
    SLUICE_ASSIGN_OR_RETURN(args.weight, Packed(target, desc, *stored, weight));
    return args;
  };
  return c;
}

namespace {

// Where the places of each expert begin: spread at random with experts that nobody takes, all in
// one, or all but some places at the end, which no expert has.
std::vector<int32_t> ExpertStarts(int number, TestNoise& noise, int experts, int64_t places) {
  std::vector<int32_t> starts = {0};
  const int64_t given = number % 3 == 2 ? noise.Below(places + 1) : places;
  const int64_t one = noise.Below(experts);
  for (int e = 0; e + 1 < experts; ++e) {
    const bool all = number % 3 == 1;
    const int64_t left = given - starts.back();
    const int64_t count = all ? (e == one ? left : 0) : noise.Below(left + 1) * noise.Below(2);
    starts.push_back(starts.back() + static_cast<int32_t>(count));
  }
  starts.push_back(static_cast<int32_t>(given));
  return starts;
}

}  // namespace

ConformanceCase<GroupedLinear> MakeCase(const GroupedLinear&, int number, TestNoise& noise) {
  ConformanceCase<GroupedLinear> c;
  Linear::Desc& each = c.desc.each;
  const LinearFormats formats = FormatsOf(number % 49);  // no large ones
  each.weight = formats.weight;
  each.weight_scales = formats.weight_scales;
  each.x_scales = formats.x_scales;
  each.activation = formats.activation;
  each.f32_out = Flip(noise);
  each.bias = Flip(noise) && number % 4 != 3;
  // Kernels that pack rows together take whole groups of them alone.
  each.n = Pick<int64_t>(noise, {7, 16, 48, 96, 96});
  each.k = Info(each.weight).block * Pick<int64_t>(noise, {1, 2, 3});
  if (!IsQuantized(each.weight) && Flip(noise)) each.k = Pick<int64_t>(noise, {64, 192});
  const bool scaled = each.weight_scales != WeightScales::kNone;
  if (each.weight_scales == WeightScales::kBlock) each.n = Pick<int64_t>(noise, {128, 256});
  if (scaled) {
    each.k = FindBlockFormat(each.weight) != nullptr ? Pick<int64_t>(noise, {64, 192})
                                                     : Pick<int64_t>(noise, {16, 128, 200});
  }
  c.desc.experts = Pick(noise, {1, 3, 8, 70});
  c.desc.by_columns = number % 4 == 3;
  const int64_t places = IsEmpty(number) ? 0 : Pick<int64_t>(noise, {1, 2, 8, 40, 130});
  const std::vector<int32_t> starts = ExpertStarts(number, noise, c.desc.experts, places);
  const bool gathers = Flip(noise) && !c.desc.by_columns;
  const int64_t rows = gathers ? Pick<int64_t>(noise, {1, 5, 40}) : places;
  std::vector<int32_t> tokens;
  for (int64_t p = 0; p < places; ++p) {
    // What lies beyond the last expert's places may not be followed.
    tokens.push_back(p < starts.back() ? static_cast<int32_t>(noise.Below(rows)) : 2000000000);
  }
  const Linear::Desc stacked = c.desc.Stacked();
  const auto stored =
      std::make_shared<const Array>(StoredMatrix(noise, each.weight, stacked.n, each.k));
  const Array scales = WeightScalesFor(noise, stacked);
  const double longest = LongestRow(stacked, *stored, scales);
  const float x_max =
      static_cast<float>(Pick(noise, {0.1, 1.0, 2.0}) / (0.58 * std::max(longest, 1e-3)));
  const DType out_type = OutDType(each);
  // Columns that no matrix takes or gives stand between those of two.
  c.desc.x_step = c.desc.by_columns ? Pick<int64_t>(noise, {0, each.k, each.k + 3}) : 0;
  c.desc.out_step = c.desc.by_columns ? each.n + noise.Below(2) : 0;
  const int64_t last = c.desc.by_columns ? c.desc.experts - 1 : 0;
  const int64_t x_width = last * c.desc.x_step + each.k;
  const int64_t out_width = last * c.desc.out_step + each.n;
  const Array values = Filled(noise, each.activation, {rows, x_width + 5}, x_max);
  const size_t x = c.Add(values);
  const size_t w = c.Add(*stored);
  const size_t w_scales = c.Add(scales);
  const size_t x_scale = c.Add(Array::Floats(DType::kF32, {1}, {0.9f * x_max / 448.0f}));
  const size_t token = c.Add(Array::Ints(tokens)), start = c.Add(Array::Ints(starts));
  const size_t bias = c.Add(Filled(noise, each.activation, {c.desc.experts, each.n + 3}));
  const size_t out =
      c.Add(Untouched(out_type, {places, out_width}), ProductLimit(stacked, x_max, longest));
  c.args = [=, desc = c.desc](ConformanceTarget& target,
                              std::span<const Tensor> t) -> Result<GroupedLinear::Args> {
    GroupedLinear::Args args{.x = Columns(t[x], x_width), .out = t[out]};
    const bool coded = !gathers && !desc.by_columns && number % 4 < 2;
    if (coded) SLUICE_RETURN_IF_ERROR(GiveCodes(target, desc.each, values, &args));
    if (!desc.by_columns) args.starts = t[start];
    if (gathers) args.tokens = t[token];
    if (desc.each.bias) args.bias = Columns(t[bias], desc.each.n);
    PackedWeight weight = {t[w], stacked.weight, LayoutId::kRowMajor, stacked.n, stacked.k};
    if (scaled) weight.scales = t[w_scales];
    if (stacked.x_scales == ActivationScales::kTensor) weight.x_scale = t[x_scale];
    SLUICE_ASSIGN_OR_RETURN(args.weight, Packed(target, stacked, *stored, weight));
    return args;
  };
  return c;
}

}  // namespace sluice::ops
