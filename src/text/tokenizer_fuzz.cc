// Any bytes as a tokenizer.json, or as a GGUF file if they begin like one: read, made, and used to
// encode and decode them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "files/gguf.h"
#include "files/tokenizer_data.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), size);
  Result<files::TokenizerData> read = BadModel("");
  if (text.starts_with("GGUF")) {
    auto file = files::GgufFile::FromMemory(bytes, "fuzz.gguf");
    if (!file.ok()) return 0;
    read = files::TokenizerFromGguf(**file);
  } else {
    read = files::TokenizerFromJson(text, "");
  }
  if (!read.ok()) return 0;
  auto made = text::Tokenizer::Make(std::move(read).value());
  if (!made.ok()) return 0;
  const text::Tokenizer& tokenizer = **made;
  for (std::string_view sample :
       {text, std::string_view("It's  12 caf\xC3\xA9\xCC\x81 \xFF\n<s>")}) {
    for (bool special : {false, true}) {
      Result<std::vector<text::TokenId>> encoded = tokenizer.Encode(sample, {special, special});
      if (!encoded.ok()) continue;
      const std::vector<text::TokenId>& ids = *encoded;
      CHECK(tokenizer.LeastTokens(sample) <= ids.size(), ids.size());
      for (text::TokenId id : ids) CHECK(id >= 0 && id < tokenizer.vocab_size(), id);
      text::Detokenizer detokenizer(*made, special, {});
      std::string streamed;
      for (text::TokenId id : ids) streamed += detokenizer.Add(id);
      streamed += detokenizer.Finish();
      CHECK(streamed == tokenizer.Decode(ids, special));
    }
  }
  return 0;
}
