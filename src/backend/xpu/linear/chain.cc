#include "backend/xpu/linear/chain.h"

namespace sluice::xpu {
namespace {

// One past the last byte of F32 rows.
const std::byte* EndOf(const std::byte* begin, int64_t rows, uint64_t stride, int64_t width) {
  const uint64_t elements = static_cast<uint64_t>(rows - 1) * stride + static_cast<uint64_t>(width);
  return begin + elements * sizeof(float);
}

}  // namespace

bool LinearChain::Takes(const std::string& its_options, int64_t its_m, const RowMaker& from) const {
  const bool same_kind =
      from.kind != RowMaker::Kind::kGated || activation == -1 || activation == from.activation;
  return phases.size() < kChainPhases && its_options == options && its_m == m && same_kind;
}

bool CanMakeBeside(const RowMaker& maker, const std::byte* out, uint64_t out_stride, int64_t n) {
  const int64_t read = maker.kind == RowMaker::Kind::kGated ? 2 * maker.width : maker.width;
  const std::byte* const source_end = EndOf(maker.source, maker.rows, maker.source_stride, read);
  const std::byte* const out_end = EndOf(out, maker.rows, out_stride, n);
  const std::byte* const made_end = EndOf(maker.out, maker.rows, maker.out_stride, maker.width);
  const bool source_kept = source_end <= out || out_end <= maker.source;
  const bool apart = source_end <= maker.out || made_end <= maker.source;
  return source_kept && apart;
}

}  // namespace sluice::xpu
