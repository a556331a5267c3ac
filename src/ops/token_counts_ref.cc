#include <algorithm>
#include <limits>

#include "ops/token_counts.h"

namespace sluice::ops {
namespace {

Support SupportsVocab(int64_t vocab) {
  if (vocab >= 1 && vocab <= std::numeric_limits<int32_t>::max()) return Support::Yes();
  return Support::No(StrCat("a vocabulary of ", vocab));
}

}  // namespace

Support RefSetCountsSupports(const SetCounts::Desc& desc, const device::DeviceFacts&) {
  return SupportsVocab(desc.vocab);
}
Support RefCountTokensSupports(const CountTokens::Desc& desc, const device::DeviceFacts&) {
  return SupportsVocab(desc.vocab);
}

Status RefSetCounts(device::Stream&, const SetCounts::Desc& desc, const SetCounts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  for (int64_t i = 0; i < args.rows.dims[0]; ++i) {
    const int32_t* const row = args.rows.ptr<int32_t>() + i * args.rows.strides[0];
    int32_t* const counts = args.counts.ptr<int32_t>() + row[0] * args.counts.strides[0];
    std::fill_n(counts, desc.vocab, 0);
    for (int64_t w = row[1]; w < row[2]; ++w) {
      const int32_t* const word = args.words.ptr<int32_t>() + w * args.words.strides[0];
      counts[word[0]] = word[1];
    }
  }
  return OkStatus();
}

Status RefCountTokens(device::Stream&, const CountTokens::Desc& desc,
                      const CountTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const auto* const rows = args.rows.ptr<SampleRow>();
  const auto* const outputs = args.outputs.ptr<SampleOutput>();
  const int64_t count = args.rows.dims[0];
  for (int64_t r = 0; r < count; ++r) {
    const SampleRow& first = rows[r];
    if (!first.draw || first.counts_row < 0 || first.drafts != 0) continue;
    uint32_t* const counts =
        args.counts.ptr<uint32_t>() + first.counts_row * args.counts.strides[0];
    for (int64_t i = r; i < count; ++i) {
      const bool follows = rows[i].draw && rows[i].counts_row == first.counts_row &&
                           rows[i].drafts == static_cast<int32_t>(i - r);
      if (!follows || outputs[i].degenerate) break;
      ++counts[outputs[i].token];
      if (rows[i].target != outputs[i].token) break;
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
