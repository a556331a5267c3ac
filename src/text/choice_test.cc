#include "text/choice.h"
#include "base/byte_alphabet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string Spell(std::string_view bytes) {
  std::string piece;
  for (char c : bytes) AppendUtf8(ByteToCharacter(static_cast<uint8_t>(c)), &piece);
  return piece;
}

// A tokenizer with these pieces; "<...>" are special. A leading space is stripped from a text.
std::shared_ptr<const Tokenizer> TokenizerOf(const std::vector<std::string>& pieces) {
  files::TokenizerData data;
  data.model = files::TokenizerModel::kByteBpe;
  for (const std::string& piece : pieces) {
    if (piece.starts_with('<')) {
      files::AddedToken special;
      special.id = static_cast<TokenId>(data.pieces.size());
      special.text = piece;
      special.special = true;
      data.added_tokens.push_back(special);
    }
    data.pieces.push_back(Spell(piece));
  }
  data.decoders.resize(2);
  data.decoders[0].type = "ByteLevel";
  data.decoders[1].type = "Strip";
  data.decoders[1].content = " ";
  data.decoders[1].options["start"] = true;
  auto made = Tokenizer::Make(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

class ChoiceTest : public ::testing::Test {
 protected:
  // Tokens are named by their pieces below; two may add the same bytes.
  void Use(std::vector<std::string> pieces, std::vector<TokenId> left_out = {}) {
    pieces_ = std::move(pieces);
    tokenizer_ = TokenizerOf(pieces_);
    const int vocab = static_cast<int>(pieces_.size());
    later_ = std::make_shared<TokenTrie>(TokenTrie::Make(*tokenizer_, vocab, left_out, false));
    first_ = std::make_shared<TokenTrie>(TokenTrie::Make(*tokenizer_, vocab, left_out, true));
  }
  Result<std::shared_ptr<const ChoiceSet>> Make(std::vector<std::string> choices) {
    return ChoiceSet::Make(std::move(choices), later_, later_);
  }
  ChoiceWalk Walk(std::vector<std::string> choices) {
    auto set = Make(std::move(choices));
    EXPECT_TRUE(set.ok()) << set.status().message();
    return ChoiceWalk(*set, tokenizer_, false);
  }
  TokenId IdOf(std::string_view piece) const {
    return static_cast<TokenId>(std::find(pieces_.begin(), pieces_.end(), piece) - pieces_.begin());
  }
  std::vector<std::string> Allowed(ChoiceWalk&& walk) const { return Allowed(walk); }
  std::vector<std::string> Allowed(ChoiceWalk& walk) const {
    std::vector<uint32_t> words((pieces_.size() + 31) / 32);
    walk.AllowTokens(words);
    std::vector<std::string> allowed;
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (words[id / 32] >> (id % 32) & 1) allowed.push_back(pieces_[id]);
    }
    return allowed;
  }

  std::vector<std::string> pieces_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const TokenTrie> first_, later_;
};

TEST_F(ChoiceTest, TokensThatBeginAChoiceAreAllowedAndNoOthers) {
  Use({"y", "e", "s", "n", "o", "ye", "yes", "yess", "no", "<s>", "es", "x"});
  ChoiceWalk walk = Walk({"yes", "no"});
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("y", "ye", "yes", "n", "no"));
  EXPECT_FALSE(walk.complete());
  ASSERT_TRUE(walk.Go(IdOf("y")));
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("e", "es"));
  EXPECT_FALSE(walk.Go(IdOf("o")));
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("e", "es"));  // it stays where it was
  ASSERT_TRUE(walk.Go(IdOf("e")));
  walk.Back(1);
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("e", "es"));
  ASSERT_TRUE(walk.Go(IdOf("es")));
  EXPECT_TRUE(walk.complete());
  EXPECT_THAT(Allowed(walk), IsEmpty());
}

TEST_F(ChoiceTest, AChoiceThatAnotherContinuesMayEndOrGoOn) {
  Use({"a", "b", "c", "ab", "abc"});
  ChoiceWalk walk = Walk({"abc", "ab", "ac"});
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("a", "ab", "abc"));
  ASSERT_TRUE(walk.Go(IdOf("ab")));
  EXPECT_TRUE(walk.complete());
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("c"));
  ASSERT_TRUE(walk.Go(IdOf("c")));
  EXPECT_TRUE(walk.complete());
  EXPECT_THAT(Allowed(walk), IsEmpty());
}

TEST_F(ChoiceTest, TokensMayCutACharacterAndTwoMayAddTheSameBytes) {
  Use({"\xE2\x82", "\xAC", "\xE2", "\x82\xAC", "<e>", "\xAC"});
  ChoiceWalk walk = Walk({"\xE2\x82\xAC"});
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("\xE2\x82", "\xE2"));
  ASSERT_TRUE(walk.Go(IdOf("\xE2\x82")));
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("\xAC", "\xAC"));
}

TEST_F(ChoiceTest, NoTokenLeadsWhereTheRestCannotBeSpelled) {
  Use({"a", "ab", "bc", "abd"});
  ChoiceWalk walk = Walk({"abc"});
  EXPECT_THAT(Allowed(walk), UnorderedElementsAre("a"));  // behind "ab" there is no "c"
  EXPECT_FALSE(Make({"abc", "ad"}).ok());
  const Status status = Make({"abc", "a\n\xE2\x82\xAC" + std::string(100, 'z')}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "choice");
  EXPECT_THAT(status.message(), HasSubstr("cannot spell"));
  EXPECT_LT(status.message().size(), 250u);
}

TEST_F(ChoiceTest, SpecialTokensAndThoseLeftOutSpellNothing) {
  Use({"<s>", "a", "b", "ab"}, {3});
  EXPECT_THAT(Allowed(Walk({"ab"})), UnorderedElementsAre("a"));
  EXPECT_FALSE(Make({"<s>"}).ok());
}

TEST_F(ChoiceTest, AtTheBeginningOfATextTheSpaceThatEncodingPutsThereCounts) {
  Use({" yes", "yes", "  yes", " "});
  auto set = ChoiceSet::Make({"yes"}, first_, later_);
  ASSERT_TRUE(set.ok());
  EXPECT_THAT(Allowed(ChoiceWalk(*set, tokenizer_, true)), UnorderedElementsAre(" yes", "yes"));
  EXPECT_THAT(Allowed(Walk({"yes"})), UnorderedElementsAre("yes"));
}

// Against the definition, with random choices over a small alphabet.
TEST_F(ChoiceTest, ATokenIsAllowedIfAndOnlyIfSomeChoiceCanBeSpelledBehindIt) {
  Use({"a", "b", "aa", "ab", "bba", "bab", "caa", "cb", "aab", "bb"});
  uint64_t state = 7;
  const auto below = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state >> 33) % n);
  };
  // Whether tokens spell `rest`.
  const std::function<bool(const std::string&)> spelled = [&](const std::string& rest) {
    return rest.empty() || std::any_of(pieces_.begin(), pieces_.end(), [&](const auto& piece) {
             return rest.starts_with(piece) && spelled(rest.substr(piece.size()));
           });
  };
  int checked = 0;
  for (int round = 0; round < 1500; ++round) {
    std::set<std::string> choices;
    while (choices.size() < 1 + static_cast<size_t>(round) % 6) {
      std::string choice;
      for (size_t bytes = 1 + below(7); bytes > 0; --bytes) choice += "abc"[below(3)];
      choices.insert(choice);
    }
    auto set = Make({choices.begin(), choices.end()});
    EXPECT_EQ(set.ok(), std::all_of(choices.begin(), choices.end(), spelled));
    if (!set.ok()) continue;
    ChoiceWalk walk(*set, tokenizer_, false);
    for (std::string answer;;) {
      std::vector<std::string> expected;
      for (const std::string& piece : pieces_) {
        const std::string next = answer + piece;
        if (std::any_of(choices.begin(), choices.end(), [&](const std::string& choice) {
              return choice.starts_with(next) && spelled(choice.substr(next.size()));
            })) {
          expected.push_back(piece);
        }
      }
      ASSERT_EQ(Allowed(walk), expected) << answer;
      EXPECT_EQ(walk.complete(), choices.contains(answer));
      ++checked;
      if (expected.empty()) break;
      const std::string& token = expected[below(expected.size())];
      ASSERT_TRUE(walk.Go(IdOf(token)));
      answer += token;
    }
  }
  EXPECT_GT(checked, 300);
}

}  // namespace
}  // namespace sluice::text
