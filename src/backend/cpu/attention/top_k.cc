#include <algorithm>
#include <array>
#include <bit>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/parallel.h"

namespace sluice::cpu {
namespace {

// Bits of a key that one pass over a row's scores tells apart.
constexpr int kDigitBits = 8;
constexpr uint32_t kDigits = 1u << kDigitBits;

// Grows with the score: NaN is below all, and the zeros are equal.
uint32_t KeyOf(float score) {
  if (score != score) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(score == 0.0f ? 0.0f : score);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The k-th largest key of a row and how many keys of that size belong to the k largest.
struct Border {
  uint32_t key = 0;
  int64_t left = 0;
};

// Finds the border digit by digit, the highest first. REQUIRES: 0 < k <= length.
Border FindBorder(const float* scores, int64_t length, int64_t k) {
  Border border{0, k};
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    std::array<int64_t, kDigits> counts{};
    // The digits above this one, in which a key must agree with the border to be counted.
    const uint64_t above = uint64_t{border.key} >> (shift + kDigitBits);
    for (int64_t p = 0; p < length; ++p) {
      const uint32_t key = KeyOf(scores[p]);
      if (uint64_t{key} >> (shift + kDigitBits) == above) ++counts[key >> shift & (kDigits - 1)];
    }
    uint32_t digit = kDigits - 1;
    while (counts[digit] < border.left) border.left -= counts[digit--];
    border.key |= digit << shift;
  }
  return border;
}

void TakeRow(const float* scores, int64_t length, int64_t k, int32_t* out) {
  int32_t* const end = out + k;
  if (length <= k) {
    for (int64_t p = 0; p < length; ++p) *out++ = static_cast<int32_t>(p);
    std::fill(out, end, -1);
    return;
  }
  Border border = FindBorder(scores, length, k);
  for (int64_t p = 0; out < end; ++p) {
    const uint32_t key = KeyOf(scores[p]);
    if (key > border.key || (key == border.key && border.left-- > 0))
      *out++ = static_cast<int32_t>(p);
  }
}

}  // namespace

Status RunTopK(device::Stream& stream, const ops::TopK::Desc& desc, const ops::TopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const int64_t rows = args.scores.dims[0];
  ForRows(AsCpu(stream), rows, args.scores.dims[1], [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      TakeRow(args.scores.ptr<float>() + row * args.scores.strides[0],
              args.lengths.ptr<int32_t>()[row], desc.k,
              args.positions.ptr<int32_t>() + row * args.positions.strides[0]);
    }
  });
  return OkStatus();
}

}  // namespace sluice::cpu
