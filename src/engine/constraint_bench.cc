// What a beam's move to another one takes a text worker, for answers of `tokens` tokens that are
// held to JSON. `apart`: the two differ in so many last tokens, which the beam that moves takes
// back and walks again; 0: it has walked nothing yet, so that the walk is copied whole.
#include <benchmark/benchmark.h>

#include "base/byte_alphabet.h"
#include "base/check.h"
#include "base/utf8.h"
#include "engine/constraint.h"
#include "text/grammar.h"

namespace sluice::engine {
namespace {

constexpr int kVocabulary = 512;
constexpr int32_t kEnd = 256, kWord = 257;

// Bytes, an end, and one longer token.
std::shared_ptr<const text::Tokenizer> BenchTokenizer() {
  files::TokenizerData data;
  data.model = files::TokenizerModel::kByteBpe;
  for (int byte = 0; byte < 256; ++byte) {
    std::string piece;
    AppendUtf8(ByteToCharacter(static_cast<uint8_t>(byte)), &piece);
    data.pieces.push_back(std::move(piece));
  }
  data.pieces.push_back("<end>");
  data.pieces.push_back("word");
  data.decoders.resize(1);
  data.decoders[0].type = "ByteLevel";
  return text::Tokenizer::Make(std::move(data)).value();
}

// An answer within a string, whose last tokens are `last`.
std::vector<int32_t> Answer(size_t tokens, size_t apart, int32_t last) {
  const std::vector<int32_t> item = {'"', kWord, 'a', kWord, kWord, '"', ','};
  std::vector<int32_t> answer = {'['};
  while (answer.size() + item.size() + 1 + apart < tokens) {
    answer.insert(answer.end(), item.begin(), item.end());
  }
  answer.push_back('"');
  answer.insert(answer.end(), apart, last);
  return answer;
}

void BM_Follow(benchmark::State& state) {
  const auto tokenizer = BenchTokenizer();
  text::GrammarCompiler compiler(tokenizer, kVocabulary, {kEnd});
  constexpr const char* kSchema = R"({"type": "array", "items": {"type": "string"}})";
  const auto grammar = compiler.CompileLong({Grammar::Kind::kJsonSchema, kSchema}).value();
  const Constraints model(tokenizer, kVocabulary, {kEnd});
  const auto tokens = static_cast<size_t>(state.range(0));
  const auto apart = static_cast<size_t>(state.range(1));
  Constraint one(model, grammar->Walk(false), 0), other(model, grammar->Walk(false), 0);
  one.Take(Answer(tokens, apart, 'x'));
  other.Take(Answer(tokens, apart, 'y'));
  Constraint beam(model, nullptr, 0);
  beam.Follow(one);
  for (auto _ : state) {
    if (apart == 0) {
      Constraint fresh(model, nullptr, 0);
      fresh.Follow(one);
    } else {
      beam.Follow(other);
      beam.Follow(one);
    }
  }
  CHECK(beam.drawn() == one.drawn());
}
BENCHMARK(BM_Follow)
    ->ArgNames({"tokens", "apart"})
    ->ArgsProduct({{64, 1024, 8192, 32768}, {0, 1, 16, 64}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::engine
