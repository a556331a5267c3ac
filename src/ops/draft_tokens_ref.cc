#include <algorithm>

#include "ops/draft_tokens.h"
#include "ops/sample_row.h"

namespace sluice::ops {

Support RefNextTokensSupports(const NextTokens::Desc&, const device::DeviceFacts&) {
  return Support::Yes();
}
Support RefKeepGuessesSupports(const KeepGuesses::Desc&, const device::DeviceFacts&) {
  return Support::Yes();
}

Status RefNextTokens(device::Stream&, const NextTokens::Desc& desc, const NextTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const auto* const start = args.query_start.ptr<int32_t>();
  const auto* const positions = args.positions.ptr<int32_t>();
  const int64_t sequences = args.slots.dims[0];
  // The last token of a sequence that counts; -1: it has none.
  const auto last_of = [&](int64_t s, int32_t* behind) {
    const int32_t begin = start[s], end = start[s + 1], next = args.next.ptr<int32_t>()[s];
    const int32_t slot = args.slots.ptr<int32_t>()[s];
    const bool drawn = next < 0 && slot >= 0 && slot < args.lengths.dims[0];
    *behind = drawn ? args.known.ptr<int32_t>()[slot * args.known.strides[0]] : std::max(next, 0);
    if (begin >= end) return -1;
    if (!drawn) return end - 1;
    const int32_t length = args.lengths.ptr<int32_t>()[slot];
    return begin + std::clamp(length - 1 - positions[begin], 0, end - 1 - begin);
  };
  auto* const ids = args.ids.ptr<int32_t>();
  for (int64_t s = 0; s < sequences; ++s) {
    int32_t behind = 0;
    const int32_t last = last_of(s, &behind);
    for (int32_t t = start[s]; t < start[s + 1]; ++t)
      ids[t] = t < last ? args.token_ids.ptr<int32_t>()[t + 1] : behind;
  }
  std::fill(ids + start[sequences], ids + args.ids.dims[0], 0);
  for (int64_t d = 0; d < args.drafting.dims[0]; ++d) {
    const int32_t s = args.drafting.ptr<int32_t>()[d];
    int32_t behind = 0;
    const int32_t last = s >= 0 && s < sequences ? last_of(s, &behind) : -1;
    args.rows.ptr<int32_t>()[d] = std::max(last, 0);
    args.first.ptr<int32_t>()[d] = last < 0 ? 0 : positions[last] + 1;
  }
  return OkStatus();
}

Status RefKeepGuesses(device::Stream&, const KeepGuesses::Desc& desc,
                      const KeepGuesses::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const auto* const outputs = args.outputs.ptr<SampleOutput>();
  const auto id_of = [&](int32_t guess) {
    if (args.target_ids.empty()) return guess;
    const bool known = guess >= 0 && guess < args.target_ids.dims[0];
    return known ? args.target_ids.ptr<int32_t>()[guess] : 0;
  };
  for (int64_t d = 0; d < args.slots.dims[0]; ++d) {
    const int32_t slot = args.slots.ptr<int32_t>()[d];
    const bool guesses = slot >= 0 && slot < args.known.dims[0];
    const int32_t id = guesses ? id_of(outputs[d].token) : 0;
    args.ids.ptr<int32_t>()[d] = id;
    if (!guesses) continue;
    args.known.ptr<int32_t>()[slot * args.known.strides[0] + args.number] = id;
    args.first.ptr<int32_t>()[d] += args.moved;
    if (!args.rows.empty()) ++args.rows.ptr<SampleRow>()[d].position;
  }
  return OkStatus();
}

}  // namespace sluice::ops
