// What the largest set of choices takes a text worker, over a vocabulary of 100,000 tokens: to make
// it, and for one mask. `shared` bytes are the same at the beginning of all choices. `spaces`: the
// choices are spaces, of which tokens of 1 to 128 exist, so that a mask has many tokens to look at.
#include <benchmark/benchmark.h>

#include "base/byte_alphabet.h"
#include "base/str_cat.h"
#include "text/choice.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

std::shared_ptr<const Tokenizer> Vocabulary() {
  files::TokenizerData data;
  data.model = files::TokenizerModel::kByteBpe;
  const auto add = [&data](std::string_view bytes) {
    std::string piece;
    for (char c : bytes) AppendUtf8(ByteToCharacter(static_cast<uint8_t>(c)), &piece);
    data.pieces.push_back(std::move(piece));
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (size_t spaces = 2; spaces <= 128; ++spaces) add(std::string(spaces, ' '));
  for (int i = 100; data.pieces.size() < 100'000; ++i) add(StrCat(i));
  data.decoders.resize(1);
  data.decoders[0].type = "ByteLevel";
  return Tokenizer::Make(std::move(data)).value();
}

std::shared_ptr<const TokenTrie> Trie() {
  static const auto trie = std::make_shared<const TokenTrie>(
      TokenTrie::Make(*Vocabulary(), 100'000, {}, /*first=*/false));
  return trie;
}

std::vector<std::string> Choices(size_t shared, bool spaces) {
  std::vector<std::string> choices;
  for (int i = 0; i < 1000; ++i) {
    std::string text(shared, spaces ? ' ' : '7');
    text += StrCat(1000 + i);
    while (text.size() < 1024)
      text += spaces ? ' ' : static_cast<char>('0' + (i + text.size()) % 10);
    choices.push_back(std::move(text));
  }
  return choices;
}

void BM_MakeTrie(benchmark::State& state) {
  const auto tokenizer = Vocabulary();
  for (auto _ : state) {
    benchmark::DoNotOptimize(TokenTrie::Make(*tokenizer, 100'000, {}, false).nodes());
  }
}
BENCHMARK(BM_MakeTrie)->Unit(benchmark::kMillisecond);

void BM_MakeSet(benchmark::State& state) {
  const auto choices = Choices(static_cast<size_t>(state.range(0)), state.range(1) != 0);
  for (auto _ : state) {
    benchmark::DoNotOptimize(ChoiceSet::Make(choices, Trie(), Trie()).ok());
  }
}

void BM_Mask(benchmark::State& state) {
  const auto choices = Choices(static_cast<size_t>(state.range(0)), state.range(1) != 0);
  ChoiceWalk walk(ChoiceSet::Make(choices, Trie(), Trie()).value(), Vocabulary(), false);
  // Tokens 0 to 255 are the bytes.
  for (int64_t i = 0; i < state.range(2); ++i) walk.Go(static_cast<uint8_t>(choices[0][i]));
  std::vector<uint32_t> words(100'000 / 32);
  for (auto _ : state) {
    walk.AllowTokens(words);
    benchmark::ClobberMemory();
  }
}

BENCHMARK(BM_MakeSet)
    ->ArgNames({"shared", "spaces"})
    ->Args({0, 0})
    ->Args({0, 1})
    ->Args({1000, 1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Mask)
    ->ArgNames({"shared", "spaces", "at"})
    ->Args({0, 0, 0})
    ->Args({0, 1, 4})
    ->Args({1000, 1, 0})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::text
