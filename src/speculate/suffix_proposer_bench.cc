// The time of a sequence in a step: `tokens` are committed, then drafts are asked for. `sequences`
// of `length` tokens take turns, so that what they have learned has mostly left the nearest caches.
// `history`: tokens of ended sequences of the same key. `vocabulary` says how often something
// repeats; a third of the text is quoted from before. BM_End is the time of a token that is
// learned.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "speculate/suffix_proposer.h"

namespace sluice::speculate {
namespace {

std::vector<int32_t> Text(size_t count, uint32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> text;
  while (text.size() < count) {
    if (text.size() > 100 && random() % 40 == 0) {
      const size_t from = random() % (text.size() - 40);
      for (size_t i = 0; i < 20; ++i) text.push_back(text[from + i]);
    } else {
      text.push_back(static_cast<int32_t>(random() % vocabulary));
    }
  }
  text.resize(count);
  return text;
}

void Learn(SuffixProposer* proposer, int32_t slot, std::span<const int32_t> text) {
  proposer->Start(slot, {.tokens_max = 1024});
  while (!proposer->End(slot, text)) continue;
}

void BM_Propose(benchmark::State& state) {
  const auto sequences = static_cast<int32_t>(state.range(0));
  const auto length = static_cast<int32_t>(state.range(1));
  const auto tokens = static_cast<size_t>(state.range(2));
  const auto vocabulary = static_cast<uint32_t>(state.range(3));
  const std::vector<int32_t> text = Text(static_cast<size_t>(length) * 2, vocabulary, 1);
  SuffixProposer proposer({.slots = sequences, .tokens_max = 2 * length});
  Learn(&proposer, 0, Text(static_cast<size_t>(state.range(4)), vocabulary, 2));
  std::vector<int32_t> drafts(8);
  std::vector<size_t> sizes(sequences, text.size());
  const auto restart = [&](int32_t slot) {
    sizes[slot] = length;
    proposer.Start(slot, {.tokens_max = 2 * length});
    for (int32_t at = 0; at <= length; at += SuffixProposer::kTokensOfCall) {
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
    ->ArgNames({"sequences", "length", "tokens", "vocabulary", "history"})
    ->Args({1, 1024, 1, 50'000, 0})
    ->Args({1, 1024, 1, 500, 100'000})
    ->Args({1, 1024, 9, 500, 100'000})
    ->Args({256, 1024, 1, 50'000, 0})
    ->Args({256, 1024, 1, 500, 100'000})
    ->Args({256, 1024, 1, 50'000, 500'000})
    ->Args({256, 1024, 9, 50'000, 500'000});

void BM_End(benchmark::State& state) {
  constexpr int32_t kTokens = 100'000;
  const std::vector<int32_t> text = Text(kTokens, static_cast<uint32_t>(state.range(0)), 3);
  SuffixProposer proposer({.slots = 1, .tokens_max = 1024});
  for (auto _ : state) Learn(&proposer, 0, text);
  state.SetItemsProcessed(state.iterations() * kTokens);
}
BENCHMARK(BM_End)->ArgName("vocabulary")->Arg(500)->Arg(50'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::speculate
