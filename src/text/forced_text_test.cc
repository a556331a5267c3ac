#include "text/forced_text.h"

#include <gmock/gmock.h>

#include "text/grammar_fixture.h"

namespace sluice::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TokenId kFirst = 257;  // of the tokens that a test adds

std::vector<uint32_t> Allowing(int vocab, const std::vector<TokenId>& ids) {
  std::vector<uint32_t> words((static_cast<size_t>(vocab) + 31) / 32);
  for (const TokenId id : ids) words[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  return words;
}

TEST(AgreedByte, IsThatOfAllAllowedTokens) {
  const auto tokenizer = ByteTokenizer({"na", "name"});
  const auto agreed = [&](std::vector<TokenId> ids) {
    return AgreedByte(*tokenizer, Allowing(kFirst + 2, ids));
  };
  EXPECT_EQ(agreed({}), -1);
  EXPECT_EQ(agreed({'n'}), 'n');
  EXPECT_EQ(agreed({0xff}), 0xff);
  EXPECT_EQ(agreed({'n', kFirst, kFirst + 1}), 'n');
  EXPECT_EQ(agreed({'n', 'x'}), -1);
  EXPECT_EQ(agreed({kEndOfAnswer}), -1);
  EXPECT_EQ(agreed({'n', kEndOfAnswer}), -1);
}

TEST(AgreedByte, IsNotLookedForWhereMuchIsAllowed) {
  std::vector<std::string> pieces;
  for (int length = 2; length < 80; ++length) pieces.push_back(std::string(length, 'a'));
  const auto tokenizer = ByteTokenizer(pieces);
  const int vocab = kFirst + static_cast<int>(pieces.size());
  std::vector<TokenId> ids;
  for (TokenId id = kFirst; id < kFirst + 64; ++id) ids.push_back(id);
  EXPECT_EQ(AgreedByte(*tokenizer, Allowing(vocab, ids)), 'a');
  ids.push_back(kFirst + 64);
  EXPECT_EQ(AgreedByte(*tokenizer, Allowing(vocab, ids)), -1);
}

TEST(ByteTokens, AreThoseOfOneByte) {
  const std::vector<TokenId> ids = ByteTokens(*ByteTokenizer({"x", "xy"}), kFirst + 2);
  ASSERT_EQ(ids.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[byte], byte);
  EXPECT_EQ(ByteTokens(*ByteTokenizer(), 100)[200], -1);
}

TEST(EncodeInside, GivesTheTokensOfTheTextAlone) {
  const auto tokenizer = ByteTokenizer({"ab"});
  EXPECT_THAT(EncodeInside(*tokenizer, "xy"), ElementsAre('x', 'y'));
  EXPECT_THAT(EncodeInside(*tokenizer, " x"), ElementsAre(' ', 'x'));
  EXPECT_THAT(EncodeInside(*tokenizer, ""), IsEmpty());
}

}  // namespace
}  // namespace sluice::text
