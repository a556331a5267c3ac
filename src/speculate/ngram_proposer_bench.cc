// The time of a sequence in a step: `tokens` are committed, then drafts are asked for. `sequences`
// of `length` tokens take turns, so that a table has mostly left the nearest caches. `vocabulary`
// says how often something repeats.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "speculate/ngram_proposer.h"

namespace sluice::speculate {
namespace {

void BM_Propose(benchmark::State& state) {
  const auto sequences = static_cast<int32_t>(state.range(0));
  const auto length = static_cast<int32_t>(state.range(1));
  const auto tokens = static_cast<size_t>(state.range(2));
  const auto vocabulary = static_cast<uint32_t>(state.range(3));
  std::mt19937 random(1);
  std::vector<int32_t> text(static_cast<size_t>(length) * 2);
  for (int32_t& token : text) token = static_cast<int32_t>(random() % vocabulary);
  NgramProposer proposer({.slots = sequences, .tokens_max = 2 * length});
  std::vector<int32_t> drafts(8);
  std::vector<size_t> sizes(sequences, text.size());
  const auto restart = [&](int32_t slot) {
    sizes[slot] = length;
    proposer.Start(slot, {.tokens_max = 2 * length});
    for (int32_t at = 0; at <= length; at += NgramProposer::kTokensOfCall) {
      proposer.Propose(slot, {text.data(), sizes[slot]}, drafts);
    }
  };
  for (int32_t slot = 0; slot < sequences; ++slot) restart(slot);
  int32_t slot = 0;
  for (auto _ : state) {
    if (sizes[slot] + tokens > text.size()) {
      state.PauseTiming();
      restart(slot);
      state.ResumeTiming();
    }
    sizes[slot] += tokens;
    benchmark::DoNotOptimize(proposer.Propose(slot, {text.data(), sizes[slot]}, drafts));
    slot = (slot + 1) % sequences;
  }
}
BENCHMARK(BM_Propose)
    ->ArgNames({"sequences", "length", "tokens", "vocabulary"})
    ->Args({1, 1024, 1, 50'000})
    ->Args({1, 1024, 9, 50})
    ->Args({256, 1024, 1, 50'000})
    ->Args({256, 1024, 9, 50'000})
    ->Args({256, 8192, 1, 50'000})
    ->Args({256, 8192, 9, 50'000});

}  // namespace
}  // namespace sluice::speculate
