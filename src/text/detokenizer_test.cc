#include "text/detokenizer.h"
#include "base/byte_alphabet.h"

#include <gtest/gtest.h>

#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

constexpr TokenId kSpecial = 256, kWord = 257, kEuro = 258;

// Bytes as pieces, then <s>, " word" and "e" with the first two bytes of a euro sign.
std::shared_ptr<const Tokenizer> Bytes(bool strips_space) {
  files::TokenizerData data;
  data.model = files::TokenizerModel::kByteBpe;
  auto spell = [](std::string_view bytes) {
    std::string piece;
    for (char c : bytes) AppendUtf8(ByteToCharacter(static_cast<uint8_t>(c)), &piece);
    return piece;
  };
  for (int byte = 0; byte < 256; ++byte) {
    char c = static_cast<char>(byte);
    data.pieces.push_back(spell(std::string_view(&c, 1)));
  }
  data.pieces.insert(data.pieces.end(), {"<s>", spell(" word"), spell("e\xE2\x82")});
  files::AddedToken special;
  special.id = kSpecial;
  special.text = "<s>";
  special.special = true;
  data.added_tokens = {special};
  data.decoders.resize(1);
  data.decoders[0].type = "ByteLevel";
  if (strips_space) {
    data.decoders.resize(2);
    data.decoders[1].type = "Strip";
    data.decoders[1].content = " ";
    data.decoders[1].options["start"] = true;
  }
  auto made = Tokenizer::Make(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

TEST(DetokenizerTest, HoldsBackOnlyAnUnfinishedCharacter) {
  Detokenizer detokenizer(Bytes(false), false, {});
  EXPECT_EQ(detokenizer.Add('a'), "a");
  EXPECT_EQ(detokenizer.Add(kEuro), "e");
  EXPECT_EQ(detokenizer.Add(0xAC), "\xE2\x82\xAC");
  EXPECT_EQ(detokenizer.Add(0xF0), "");
  EXPECT_EQ(detokenizer.Add(0x9F), "");
  EXPECT_EQ(detokenizer.Add(0x98), "");
  EXPECT_EQ(detokenizer.Add(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(DetokenizerTest, EmitsABrokenSequenceAsSoonAsItIsKnown) {
  Detokenizer detokenizer(Bytes(false), false, {});
  EXPECT_EQ(detokenizer.Add(0xFF), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Add(0xE2), "");
  EXPECT_EQ(detokenizer.Add('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(detokenizer.Add(0xE2), "");
  EXPECT_EQ(detokenizer.Add(0xF0), "\xEF\xBF\xBD");              // still waits for the rest of F0
  EXPECT_EQ(detokenizer.Add(0x80), "\xEF\xBF\xBD\xEF\xBF\xBD");  // F0 80 is overlong
  EXPECT_EQ(detokenizer.Add(0xC3), "");
  EXPECT_EQ(detokenizer.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(DetokenizerTest, TheTextSoFarIsTheDecodedText) {
  auto tokenizer = Bytes(true);
  const std::vector<TokenId> ids = {kSpecial, kWord, kEuro, 0xE2, 0x82, 0xAC, 0xC3, kWord, 0xF0};
  for (bool render : {false, true}) {
    Detokenizer detokenizer(tokenizer, render, {});
    std::string text;
    for (TokenId id : ids) text += detokenizer.Add(id);
    text += detokenizer.Finish();
    EXPECT_EQ(text, tokenizer->Decode(ids, render));
  }
}

TEST(DetokenizerTest, ThePromptDecidesAboutALeadingSpace) {
  auto tokenizer = Bytes(true);
  const std::vector<TokenId> text_end = {'a'};
  const std::vector<TokenId> special_end = {'a', kSpecial};
  EXPECT_EQ(Detokenizer(tokenizer, false, {}).Add(kWord), "word");
  EXPECT_EQ(Detokenizer(tokenizer, false, text_end).Add(kWord), " word");
  EXPECT_EQ(Detokenizer(tokenizer, false, special_end).Add(kWord), "word");
}

TEST(DetokenizerTest, SpecialTokensAreSilentUnlessAsked) {
  auto tokenizer = Bytes(true);
  Detokenizer silent(tokenizer, false, {});
  EXPECT_EQ(silent.Add(kSpecial), "");
  EXPECT_EQ(silent.Add(kWord), "word");  // still the beginning
  Detokenizer loud(tokenizer, true, {});
  EXPECT_EQ(loud.Add(kSpecial), "<s>");
  EXPECT_EQ(loud.Add(kWord), " word");
  EXPECT_EQ(loud.Add(-5), "");
  EXPECT_EQ(loud.Add(1 << 20), "");
}

TEST(DetokenizerTest, SomeSpecialTokensMayBeTextInAnyCase) {
  const std::vector<TokenId> shown = {kSpecial};
  Detokenizer detokenizer(Bytes(false), false, {}, shown);
  EXPECT_EQ(detokenizer.Add('a') + detokenizer.Add(kSpecial) + detokenizer.Add('b'), "a<s>b");
}

}  // namespace
}  // namespace sluice::text
