// Any bytes as a tokenizer.json, or as a GGUF file if they begin like one: read, made, and used to
// encode and decode them.
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "files/gguf.h"
#include "files/sentencepiece_model.h"
#include "files/tokenizer_data.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace sluice::text {
namespace {

void EncodeAndDecode(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view sample,
                     bool special) {
  const Result<std::vector<TokenId>> encoded = tokenizer->Encode(sample, {special, special});
  if (!encoded.ok()) return;
  const std::vector<TokenId>& ids = *encoded;
  CHECK(tokenizer->LeastTokens(sample) <= ids.size(), ids.size());
  for (const TokenId id : ids) CHECK(id >= 0 && id < tokenizer->vocab_size(), id);
  Detokenizer detokenizer(tokenizer, special, {});
  std::string streamed;
  for (const TokenId id : ids) streamed += detokenizer.Add(id);
  streamed += detokenizer.Finish();
  CHECK(streamed == tokenizer->Decode(ids, special));
}

}  // namespace
}  // namespace sluice::text

void sluice::FuzzInput(std::string_view input) {
  Result<files::TokenizerData> read = BadModel("");
  if (input.starts_with("GGUF")) {
    std::vector<std::byte> bytes(input.size());  // 8-aligned, as a mapping
    std::memcpy(bytes.data(), input.data(), input.size());
    auto file = files::GgufFile::FromMemory(bytes, "fuzz.gguf");
    if (!file.ok()) return;
    read = files::TokenizerFromGguf(**file);
  } else if (input.starts_with('\n')) {  // the first field of a SentencePiece model
    const auto model = files::ReadSentencePieceModel(input);
    CHECK(!model.ok() || model->pieces.size() <= input.size(), model->pieces.size());
  } else {
    read = files::TokenizerFromJson(input, "");
  }
  if (!read.ok()) return;
  const auto made = text::Tokenizer::Make(std::move(read).value());
  if (!made.ok()) return;
  // A tokenizer may spend a fixed multiple of a text on it, up to the length of a piece for each
  // byte; the limit on an input's time is for one that reads a part of itself.
  constexpr size_t kSampleBytes = 1024;
  for (const bool special : {false, true}) {
    text::EncodeAndDecode(*made, input.substr(0, kSampleBytes), special);
    text::EncodeAndDecode(*made, "It's  12 caf\xC3\xA9\xCC\x81 \xFF\n<s>", special);
  }
}
