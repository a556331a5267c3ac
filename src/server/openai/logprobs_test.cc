#include "server/openai/logprobs.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(TokenTextTest, ValidTextStaysAsItIs) {
  for (const char* text :
       {"", "a", "\xc3\xa9", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(TokenText(text), text);
  }
}

// JSON cannot carry them; each is one that a lax decoder takes.
TEST(TokenTextTest, BrokenTextIsShownByItsBytes) {
  EXPECT_EQ(TokenText("a\xc3"), "bytes:\\x61\\xc3");            // cut
  EXPECT_EQ(TokenText("\xa9"), "bytes:\\xa9");                  // no lead byte
  EXPECT_EQ(TokenText("\xc1\x81"), "bytes:\\xc1\\x81");         // overlong
  for (const char* text : {"\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",  // overlong
                           "\xed\xa0\x80", "\xed\xbf\xbf",      // surrogates
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3(", "\xe2\x82("}) {
    EXPECT_EQ(TokenText(text).rfind("bytes:", 0), 0u) << TokenText(text);
  }
}

TEST(LogprobsTest, TokensAreNamedByTheirIdsWhereTextsDoNotTellThemApart) {
  const std::vector<TokenInfo> tokens = {{7, "", -0.5, {{7, -0.5, ""}, {9, -1.5, ""}}}};
  int64_t offset = 0;
  const OrderedJson flat = CompletionLogprobs(tokens, &offset, TokenNames::kIds);
  EXPECT_EQ(flat["tokens"], OrderedJson({"token_id:7"}));
  EXPECT_EQ(flat["top_logprobs"][0], (OrderedJson{{"token_id:7", -0.5}, {"token_id:9", -1.5}}));
  const OrderedJson chat = ChatLogprobs(tokens, 2, TokenNames::kIds)["content"][0];
  EXPECT_EQ(chat["token"], "token_id:7");
  EXPECT_EQ(chat["top_logprobs"][1]["token"], "token_id:9");
}

TEST(CompletionLogprobsTest, OffsetsCountCharactersAcrossTokens) {
  const std::vector<TokenInfo> tokens = {{1, "\xc3\xa9", -1.0, {}},
                                         {2, "\xe2\x82", -1.0, {}},  // the euro sign in two tokens
                                         {3, "\xac", -1.0, {}},
                                         {4, "x", -1.0, {}}};
  int64_t offset = 10;
  EXPECT_EQ(CompletionLogprobs(tokens, &offset)["text_offset"], OrderedJson({10, 11, 12, 12}));
  EXPECT_EQ(offset, 13);
}

}  // namespace
}  // namespace sluice::server
