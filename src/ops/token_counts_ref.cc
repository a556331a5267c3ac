#include <algorithm>
#include <limits>

#include "ops/sampling_rules.h"
#include "ops/token_counts.h"

namespace sluice::ops {
namespace {

Support SupportsVocab(int64_t vocab) {
  if (vocab >= 1 && vocab <= std::numeric_limits<int32_t>::max()) return Support::Yes();
  return Support::No(StrCat("a vocabulary of ", vocab));
}

// Whether the draft behind a row counts as what it has drawn.
bool IsTaken(const SampleRow& row, double share) {
  if (share <= 0.0 || row.target < 0 || row.mask_row >= 0) return false;
  return LotOf(row, DrawPurpose::kAccept) < share;
}

}  // namespace

Support RefSetCountsSupports(const SetCounts::Desc& desc, const device::DeviceFacts&) {
  return SupportsVocab(desc.vocab);
}
Support RefResolveRowsSupports(const ResolveRows::Desc&, const device::DeviceFacts&) {
  return Support::Yes();
}
Support RefKeepDrawnSupports(const KeepDrawn::Desc& desc, const device::DeviceFacts&) {
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

Status RefResolveRows(device::Stream&, const ResolveRows::Desc& desc,
                      const ResolveRows::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  auto* const rows = args.rows.ptr<SampleRow>();
  for (int64_t r = 0; r < args.rows.dims[0]; ++r) {
    SampleRow& row = rows[r];
    if (row.position < 0) row.position = args.lengths.ptr<int32_t>()[row.slot] - row.position;
    if (row.target >= -1) continue;
    row.target = args.tokens.ptr<int32_t>()[row.slot * args.tokens.strides[0] - 1 - row.target];
  }
  return OkStatus();
}

Status RefKeepDrawn(device::Stream&, const KeepDrawn::Desc& desc, const KeepDrawn::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  const auto* const rows = args.rows.ptr<SampleRow>();
  auto* const outputs = args.outputs.ptr<SampleOutput>();
  const int64_t count = args.rows.dims[0];
  for (int64_t r = 0; r < count; ++r) {
    const SampleRow& first = rows[r];
    if (!first.draw || first.drafts != 0) continue;
    bool open = true;
    for (int64_t i = r; i < count; ++i) {
      const bool follows = rows[i].draw && rows[i].slot == first.slot &&
                           rows[i].drafts == static_cast<int32_t>(i - r);
      if (!follows) break;
      SampleOutput& output = outputs[i];
      output.kept = open;
      if (!open) continue;
      if (IsTaken(rows[i], args.taken)) output.token = rows[i].target, output.degenerate = false;
      if (first.slot >= 0) {
        args.lengths.ptr<int32_t>()[first.slot] = static_cast<int32_t>(rows[i].position);
        args.tokens.ptr<int32_t>()[first.slot * args.tokens.strides[0]] = output.token;
      }
      if (first.counts_row >= 0 && !output.degenerate)
        ++args.counts.ptr<uint32_t>()[first.counts_row * args.counts.strides[0] + output.token];
      open = !output.degenerate && rows[i].target == output.token;
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
