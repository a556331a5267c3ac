#include "text/tokenizer.h"
#include "base/byte_alphabet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "text/text_step_fixture.h"
#include "text/tokenizer_model.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

using files::AddedToken;
using files::TextStep;
using files::TokenizerData;
using files::TokenizerModel;
using files::TokenKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = true};
constexpr EncodeOptions kNoSpecial = {.add_special = false, .parse_special = false};

std::shared_ptr<const Tokenizer> Make(TokenizerData data) {
  Result<std::shared_ptr<const Tokenizer>> made = Tokenizer::Make(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : nullptr;
}

std::string TokenizerError(TokenizerData data) {
  Result<std::shared_ptr<const Tokenizer>> made = Tokenizer::Make(std::move(data));
  if (made.ok()) return "no error";
  EXPECT_EQ(made.status().code(), StatusCode::kBadModel);
  return made.status().message();
}

// Every byte is the piece of that id; each merge "a b" adds a piece from 256 on.
TokenizerData ByteLevel(const std::vector<std::pair<std::string, std::string>>& merges) {
  TokenizerData data;
  data.model = TokenizerModel::kByteBpe;
  for (int byte = 0; byte < 256; ++byte) {
    std::string piece;
    AppendUtf8(ByteToCharacter(static_cast<uint8_t>(byte)), &piece);
    data.pieces.push_back(piece);
  }
  for (const auto& [left, right] : merges) data.pieces.push_back(left + right);
  data.merges = merges;
  data.pre_tokenizers = {Step("ByteLevel")};
  data.decoders = {Step("ByteLevel")};
  return data;
}

int32_t Add(TokenizerData* data, std::string text, bool special = true) {
  AddedToken token;
  token.id = static_cast<int32_t>(data->pieces.size());
  token.text = text;
  token.special = special;
  data->pieces.push_back(std::move(text));
  data->added_tokens.push_back(token);
  return token.id;
}

// Pieces with scores, as a SentencePiece model has them: <unk>, then all bytes if asked for, then
// `pieces`, the first best.
TokenizerData Marks(const std::vector<std::string>& pieces, bool fallback) {
  TokenizerData data;
  data.model = TokenizerModel::kSentencePieceBpe;
  data.pieces = {"<unk>"};
  data.kinds = {TokenKind::kUnknown};
  data.scores = {0};
  for (int byte = 0; fallback && byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    data.pieces.emplace_back(piece);
    data.kinds.push_back(TokenKind::kByte);
    data.scores.push_back(0);
  }
  for (const std::string& piece : pieces) {
    data.scores.push_back(-static_cast<float>(data.pieces.size()));
    data.pieces.push_back(piece);
    data.kinds.push_back(TokenKind::kNormal);
  }
  data.unk_id = 0;
  data.byte_fallback = fallback;
  data.fuse_unknown = true;
  data.derive_merges = true;
  TextStep prepend = Step("Prepend");
  prepend.content = kSpaceMark;
  data.normalizers = {prepend, Replace(" ", std::string(kSpaceMark))};
  TextStep strip = Step("Strip");
  strip.content = " ";
  strip.options["start"] = true;
  data.decoders = {Replace(std::string(kSpaceMark), " "), Step("ByteFallback"), Step("Fuse"),
                   strip};
  return data;
}

std::vector<TokenId> Ids(const Tokenizer& tokenizer, std::string_view text,
                         const EncodeOptions& options) {
  Result<std::vector<TokenId>> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *std::move(ids) : std::vector<TokenId>();
}

std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::string_view text,
                                const EncodeOptions& options = kPlain) {
  std::vector<std::string> pieces;
  for (TokenId id : Ids(tokenizer, text, options)) {
    pieces.push_back(tokenizer.data().pieces[static_cast<size_t>(id)]);
  }
  return pieces;
}

TEST(TokenizerTest, MergesTheBestPairFirst) {
  auto tokenizer =
      Make(ByteLevel({{"l", "l"}, {"h", "e"}, {"he", "ll"}, {"hell", "o"}, {"e", "l"}}));
  EXPECT_THAT(Pieces(*tokenizer, "hello"), ElementsAre("hello"));
  EXPECT_THAT(Pieces(*tokenizer, "helo"), ElementsAre("he", "l", "o"));
  EXPECT_THAT(Pieces(*tokenizer, "elll"), ElementsAre("e", "ll", "l"));
  EXPECT_THAT(Ids(*tokenizer, "", kPlain), IsEmpty());
}

TEST(TokenizerTest, EqualPairsMergeFromTheLeft) {
  auto tokenizer = Make(ByteLevel({{"a", "a"}}));
  EXPECT_THAT(Pieces(*tokenizer, "aaa"), ElementsAre("aa", "a"));
}

// The scan of short words and the heap of long ones, against merging by the book.
TEST(TokenizerTest, WordsOfEveryLengthMergeByTheBook) {
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "b"},    {"ab", "ab"}, {"b", "a"},   {"c", "a"},
      {"abab", "c"}, {"c", "c"},   {"cc", "cc"}, {"ba", "ba"}};
  auto tokenizer = Make(ByteLevel(merges));
  uint32_t random = 1;
  for (size_t length = 1; length <= 200; ++length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) {
      random = random * 1664525 + 1013904223;
      text.push_back("abc"[random >> 16 & 3 ? random >> 20 & 1 : 2]);
    }
    std::vector<std::string> expected;
    for (char c : text) expected.emplace_back(1, c);
    for (size_t rank = 0; rank < merges.size();) {
      size_t at = 0;
      while (at + 1 < expected.size() &&
             (expected[at] != merges[rank].first || expected[at + 1] != merges[rank].second)) {
        ++at;
      }
      if (at + 1 >= expected.size()) {
        ++rank;
        continue;
      }
      expected[at] += expected[at + 1];
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(at) + 1);
      rank = 0;
    }
    EXPECT_EQ(Pieces(*tokenizer, text), expected) << text;
  }
}

TEST(TokenizerTest, IgnoreMergesTakesWholeWords) {
  TokenizerData data = ByteLevel({{"a", "b"}});
  data.pieces.push_back("abc");
  auto merged = Make(data);
  EXPECT_THAT(Pieces(*merged, "abc"), ElementsAre("ab", "c"));
  data.ignore_merges = true;
  EXPECT_THAT(Pieces(*Make(data), "abc"), ElementsAre("abc"));
}

TEST(TokenizerTest, MergesWithoutAListFollowTheIds) {
  TokenizerData data = ByteLevel({});
  data.pieces.insert(data.pieces.end(), {"bc", "ab", "abc"});
  data.derive_merges = true;
  EXPECT_THAT(Pieces(*Make(data), "abc"), ElementsAre("abc"));
  EXPECT_THAT(Pieces(*Make(data), "abd"), ElementsAre("ab", "d"));
}

// A piece that is not spelled in the byte alphabet must not stand for the bytes that it looks like.
TEST(TokenizerTest, UnspelledPiecesAreNotWords) {
  TokenizerData data = ByteLevel({{"\xC3\xA2", "\xC4\xA2"}, {"\xC3\xA2\xC4\xA2", "\xC4\xAF"}});
  data.pieces.insert(data.pieces.begin(), "\xE2\x80\x8D");  // as text; the last piece spells it
  auto tokenizer = Make(data);
  EXPECT_THAT(Ids(*tokenizer, "\xE2\x80\x8D", kPlain), ElementsAre(258));
}

TEST(TokenizerTest, BrokenUtf8BecomesReplacementCharacters) {
  auto tokenizer = Make(ByteLevel({}));
  EXPECT_THAT(Ids(*tokenizer,
                  "\xFF"
                  "a",
                  kPlain),
              ElementsAre(0xEF, 0xBF, 0xBD, 'a'));
}

TEST(TokenizerTest, MarksFallBackToBytes) {
  auto tokenizer = Make(Marks({"\xE2\x96\x81", "a", "b",
                               "\xE2\x96\x81"
                               "a",
                               "ab"},
                              true));
  EXPECT_THAT(Pieces(*tokenizer, "ab b"), ElementsAre("\xE2\x96\x81"
                                                      "a",
                                                      "b", "\xE2\x96\x81", "b"));
  EXPECT_THAT(Pieces(*tokenizer, "\xC3\xA9"), ElementsAre("\xE2\x96\x81", "<0xC3>", "<0xA9>"));
}

TEST(TokenizerTest, UnknownCharactersFuse) {
  TokenizerData data = Marks({"\xE2\x96\x81", "a"}, false);
  EXPECT_THAT(Pieces(*Make(data), "xya"), ElementsAre("\xE2\x96\x81", "<unk>", "a"));
  data.fuse_unknown = false;
  EXPECT_THAT(Pieces(*Make(data), "xya"), ElementsAre("\xE2\x96\x81", "<unk>", "<unk>", "a"));
}

// Words are encoded one by one only where no piece reaches over the mark.
TEST(TokenizerTest, PiecesMayReachOverAMark) {
  auto tokenizer = Make(Marks({"\xE2\x96\x81", "a", "b", "a\xE2\x96\x81",
                               "a\xE2\x96\x81"
                               "b"},
                              true));
  EXPECT_THAT(Pieces(*tokenizer, "a b"), ElementsAre("\xE2\x96\x81",
                                                     "a\xE2\x96\x81"
                                                     "b"));
  EXPECT_THAT(Pieces(*tokenizer, "b b"), ElementsAre("\xE2\x96\x81", "b", "\xE2\x96\x81", "b"));
}

TEST(TokenizerTest, ControlPiecesAreNeverMerged) {
  TokenizerData data = Marks({"<", "s", ">", "<s", "<s>", "\xE2\x96\x81"}, true);
  data.kinds[261] = TokenKind::kControl;
  EXPECT_THAT(Pieces(*Make(data), "<s>"), ElementsAre("\xE2\x96\x81", "<s", ">"));
}

TEST(TokenizerTest, UnigramTakesTheBestWay) {
  TokenizerData data;
  data.model = TokenizerModel::kUnigram;
  data.pieces = {"<unk>", "a", "b", "c", "ab", "bc", "abc"};
  data.scores = {0, -1, -2, -2, -2.5, -4, -9};
  data.unk_id = 0;
  auto tokenizer = Make(data);
  EXPECT_THAT(Pieces(*tokenizer, "abc"), ElementsAre("ab", "c"));
  EXPECT_THAT(Pieces(*tokenizer, "axyb"), ElementsAre("a", "<unk>", "b"));
  EXPECT_THAT(Pieces(*tokenizer, "x"), ElementsAre("<unk>"));
  std::string text(300, 'a');
  EXPECT_EQ(Ids(*tokenizer, text, kPlain).size(), 300u);
  data.unk_id.reset();
  EXPECT_THAT(TokenizerError(data), HasSubstr("has no unknown token"));
}

TokenizerData Unigram(const std::vector<std::pair<std::string, float>>& pieces) {
  TokenizerData data;
  data.model = TokenizerModel::kUnigram;
  data.pieces = {"<unk>"};
  data.scores = {0};
  data.unk_id = 0;
  for (const auto& [piece, score] : pieces) {
    data.pieces.push_back(piece);
    data.scores.push_back(score);
  }
  return data;
}

// As the package `tokenizers`: a later way must be better, so the piece that begins first stays.
TEST(TokenizerTest, UnigramKeepsTheFirstOfEqualWays) {
  EXPECT_THAT(Pieces(*Make(Unigram({{"a", -1}, {"b", -2}, {"ab", -3}})), "abab"),
              ElementsAre("ab", "ab"));
}

TokenizerData WordPiece() {
  TokenizerData data;
  data.model = TokenizerModel::kWordPiece;
  data.pieces = {"[UNK]", "un", "##aff", "##able", "##a", "able", ","};
  data.unk_id = 0;
  data.continuing_prefix = "##";
  data.max_chars_per_word = 10;
  data.normalizers = {Step("BertNormalizer")};
  data.pre_tokenizers = {Step("BertPreTokenizer")};
  return data;
}

TEST(TokenizerTest, WordPieceTakesTheLongest) {
  auto tokenizer = Make(WordPiece());
  EXPECT_THAT(Pieces(*tokenizer, "Unaffable, able"),
              ElementsAre("un", "##aff", "##able", ",", "able"));
  EXPECT_THAT(Pieces(*tokenizer, "unx able"), ElementsAre("[UNK]", "able"));
  EXPECT_THAT(Pieces(*tokenizer, "unaaaaaaaaa"), ElementsAre("[UNK]"));
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, "unaffable , able", kPlain), false),
            "unaffable, able");
}

TEST(TokenizerTest, AddsPrefixAndSuffix) {
  TokenizerData data = ByteLevel({});
  int32_t begin = Add(&data, "<s>");
  int32_t end = Add(&data, "</s>");
  data.prefix_ids = {begin};
  data.suffix_ids = {end};
  auto tokenizer = Make(data);
  EXPECT_THAT(Ids(*tokenizer, "a", {}), ElementsAre(begin, 'a', end));
  EXPECT_THAT(Ids(*tokenizer, "", {}), ElementsAre(begin, end));
  EXPECT_THAT(Ids(*tokenizer, "a", kPlain), ElementsAre('a'));
}

TEST(TokenizerTest, SpecialTextIsATokenOnlyWhenAsked) {
  TokenizerData data = ByteLevel({});
  int32_t special = Add(&data, "<s>");
  int32_t user = Add(&data, "<u>", false);
  auto tokenizer = Make(data);
  EXPECT_THAT(Ids(*tokenizer, "a<s><u>b", kPlain), ElementsAre('a', special, user, 'b'));
  EXPECT_THAT(Ids(*tokenizer, "<s><u>", kNoSpecial), ElementsAre('<', 's', '>', user));
}

TEST(TokenizerTest, TheLongestAddedTokenWins) {
  TokenizerData data = ByteLevel({});
  Add(&data, "<a", false);
  int32_t longer = Add(&data, "<a>", false);
  int32_t other = Add(&data, "b", false);
  auto tokenizer = Make(data);
  EXPECT_THAT(Ids(*tokenizer, "<a>b", kPlain), ElementsAre(longer, other));
}

TEST(TokenizerTest, AddedTokensStripAndStandAlone) {
  TokenizerData data = ByteLevel({});
  int32_t left = Add(&data, "<l>");
  data.added_tokens.back().left_strip = true;
  int32_t right = Add(&data, "<r>");
  data.added_tokens.back().right_strip = true;
  int32_t word = Add(&data, "on", false);
  data.added_tokens.back().single_word = true;
  auto tokenizer = Make(data);
  EXPECT_THAT(Ids(*tokenizer, "a \n<l> b", kPlain), ElementsAre('a', left, ' ', 'b'));
  EXPECT_THAT(Ids(*tokenizer, "a <r> \n b", kPlain), ElementsAre('a', ' ', right, 'b'));
  EXPECT_THAT(Ids(*tokenizer, "<r>  <l>", kPlain), ElementsAre(right, left));
  EXPECT_THAT(Ids(*tokenizer, "on,one", kPlain), ElementsAre(word, ',', 'o', 'n', 'e'));
}

TEST(TokenizerTest, AddedTokensMayMatchNormalizedText) {
  TokenizerData data = ByteLevel({});
  data.normalizers = {Step("Lowercase")};
  int32_t raw = Add(&data, "Raw", false);
  int32_t normalized = Add(&data, "Norm", false);
  data.added_tokens.back().normalized = true;
  auto tokenizer = Make(data);
  EXPECT_THAT(Ids(*tokenizer, "Raw", kPlain), ElementsAre(raw));
  EXPECT_THAT(Ids(*tokenizer, "raw", kPlain), ElementsAre('r', 'a', 'w'));
  EXPECT_THAT(Ids(*tokenizer, "NORM", kPlain), ElementsAre(normalized));
}

TEST(TokenizerTest, MetaspaceFirstMeansTheFirstOfTheText) {
  TokenizerData data = Marks({"\xE2\x96\x81", "a",
                              "\xE2\x96\x81"
                              "a"},
                             true);
  data.normalizers.clear();
  TextStep metaspace = Step("Metaspace");
  metaspace.behavior = "first";
  data.pre_tokenizers = {metaspace};
  int32_t special = Add(&data, "<s>");
  data.scores.push_back(0);
  data.kinds.push_back(TokenKind::kControl);
  auto tokenizer = Make(data);
  EXPECT_THAT(Ids(*tokenizer, "a<s>a", kPlain), ElementsAre(259, special, 258));
}

TEST(TokenizerTest, DecodesWithTheRulesForTheBeginning) {
  TokenizerData data = Marks({"\xE2\x96\x81", "a",
                              "\xE2\x96\x81"
                              "a"},
                             true);
  int32_t special = Add(&data, "<s>");
  data.scores.push_back(0);
  data.kinds.push_back(TokenKind::kControl);
  auto tokenizer = Make(data);
  const std::vector<TokenId> ids = {special, 259, 259};
  EXPECT_EQ(tokenizer->Decode(ids, false), "a a");
  EXPECT_EQ(tokenizer->Decode(ids, true), "<s> a a");
  EXPECT_EQ(tokenizer->PieceBytes(259, false), " a");
  EXPECT_EQ(tokenizer->FirstPieceBytes(259, false), "a");
  EXPECT_EQ(tokenizer->PieceBytes(1 + 0xC3, false), "\xC3");
  EXPECT_EQ(tokenizer->PieceBytes(special, false), "");
  EXPECT_EQ(tokenizer->PieceBytes(special, true), "<s>");
  EXPECT_EQ(tokenizer->PieceBytes(-1, true), "");
  EXPECT_EQ(tokenizer->PieceBytes(1 << 20, true), "");
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{1 + 0xC3, 258}, false),
            "\xEF\xBF\xBD"
            "a");
}

TEST(TokenizerTest, FindsPieces) {
  TokenizerData data = ByteLevel({{"a", "b"}});
  int32_t special = Add(&data, "<s>");
  // Not spelled in the byte alphabet, so no text gives it.
  const auto other = static_cast<int32_t>(data.pieces.size());
  data.pieces.push_back("a b");
  data.kinds.push_back(files::TokenKind::kNormal);
  auto tokenizer = Make(data);
  EXPECT_EQ(tokenizer->Find("a b"), other);
  EXPECT_EQ(tokenizer->Find("\xFF"), -1);
  EXPECT_EQ(tokenizer->Find("ab"), 256);
  EXPECT_EQ(tokenizer->Find("<s>"), special);
  EXPECT_EQ(tokenizer->Find("nothing"), -1);
  EXPECT_EQ(tokenizer->vocab_size(), 259);
}

TEST(TokenizerTest, RefusesWhatItCannotRun) {
  TokenizerData data = ByteLevel({});
  data.merges = {{"a", "zz"}};
  EXPECT_THAT(TokenizerError(data), HasSubstr("merge 0 of the tokenizer (\"a\" with \"zz\")"));
  data = ByteLevel({});
  Add(&data, std::string(5000, 'x'));
  EXPECT_THAT(TokenizerError(data), HasSubstr("has 5000 bytes; the limit is 256"));
  data = Marks({std::string(100'000, 'a')}, false);
  EXPECT_THAT(TokenizerError(data), HasSubstr("too long to derive its merges"));
  data = ByteLevel({});
  data.decoders = {Step("Morse")};
  EXPECT_THAT(TokenizerError(data), HasSubstr("\"Morse\" is not known"));
  data = WordPiece();
  data.max_chars_per_word = 0;
  EXPECT_THAT(TokenizerError(data), HasSubstr("0 characters per word"));
}

// Would take hours if it grew with the square of the length.
TEST(TokenizerTest, LongRunsOfOneCharacter) {
  auto bytes = Make(ByteLevel({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  EXPECT_EQ(Ids(*bytes, std::string(1'000'000, 'a'), kPlain).size(), 125'000u);
  auto marks = Make(Marks({"\xE2\x96\x81", "\xE2\x96\x81\xE2\x96\x81"}, true));
  EXPECT_EQ(Ids(*marks, std::string(999'999, ' '), kPlain).size(), 500'000u);
}

// What is still a word's first symbols then was given up within the word.
TEST(TokenizerTest, GivesUpWithinALongWord) {
  const std::atomic<bool> cancelled = true;
  const std::string word(100'000, 'a');
  ModelState state;
  state.cancel = Cancel(&cancelled);
  for (TokenizerData data : {ByteLevel({{"a", "a"}}), Unigram({{"a", -1}, {"aa", -1}})}) {
    Vocabulary vocabulary(data.pieces.size());
    for (size_t id = 0; id < data.pieces.size(); ++id) {
      vocabulary.Insert(data.pieces[id], static_cast<int32_t>(id));
    }
    auto model = data.model == TokenizerModel::kUnigram ? MakeUnigramModel(data, vocabulary)
                                                        : MakeBpeModel(data, vocabulary);
    ASSERT_TRUE(model.ok()) << model.status().message();
    std::vector<int32_t> ids;
    (*model)->Encode(word, &state, &ids);
    EXPECT_THAT(ids, IsEmpty());
    EncodeOptions options = kPlain;
    options.cancelled = &cancelled;
    EXPECT_EQ(Make(data)->Encode(word, options).status().code(), StatusCode::kCancelled);
    // The working memory that was left in the middle serves the next text.
    EXPECT_THAT(Ids(*Make(data), "aa", kPlain), ElementsAre(data.pieces.size() - 1));
  }
}

// Whose looking up takes time that grows with the square of a text, up to the pieces' length.
TEST(TokenizerTest, PiecesThatOverlapWithoutEndAreCutOff) {
  std::vector<std::pair<std::string, float>> pieces;
  for (int i = 4; i <= 4000; i += 4) pieces.emplace_back(std::string(i, 'a'), -i);
  TokenizerData words = WordPiece();
  words.normalizers = words.pre_tokenizers = {};
  words.max_chars_per_word = 1'000'000;
  words.pieces = {"[UNK]", "a", "##a", "##" + std::string(4000, 'a') + "b"};
  for (const TokenizerData& data : {Unigram(pieces), words}) {
    auto tokenizer = Make(data);
    const auto ids = tokenizer->Encode(std::string(100'000, 'a'), kPlain);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(ids.status().message(), HasSubstr("pieces overlap so much"));
    EXPECT_FALSE(Ids(*tokenizer, std::string(16, 'a'), kPlain).empty());  // the next text
  }
}

// The longest published pieces are 16 characters; the limit is four times what they take.
TEST(TokenizerTest, PiecesThatOverlapFourTimesAsMuchAsPublishedOnesAreCutOff) {
  const auto encode = [](int longest) {
    std::vector<std::pair<std::string, float>> pieces;
    for (int i = 1; i <= longest; ++i) pieces.emplace_back(std::string(i, 'a'), -1);
    return Make(Unigram(pieces))->Encode(std::string(100'000, 'a'), kPlain);
  };
  EXPECT_TRUE(encode(16).ok());
  EXPECT_TRUE(encode(64).ok());  // within the floor
  EXPECT_EQ(encode(70).status().code(), StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, AWordThatTheBudgetCutOffIsNotRemembered) {
  const TokenizerData data = Unigram({{"a", -1}, {"aa", -1}});
  Vocabulary vocabulary(data.pieces.size());
  for (size_t id = 0; id < data.pieces.size(); ++id) {
    vocabulary.Insert(data.pieces[id], static_cast<int32_t>(id));
  }
  auto model = MakeUnigramModel(data, vocabulary);
  ASSERT_TRUE(model.ok());
  ModelState state;
  std::vector<int32_t> ids;
  EXPECT_FALSE(state.budget.Spend(SIZE_MAX, Cancel()));
  (*model)->Encode("aaaa", &state, &ids);
  EXPECT_THAT(ids, IsEmpty());
  state.budget = PieceBudget();
  (*model)->Encode("aaaa", &state, &ids);
  EXPECT_EQ(ids.size(), 2u);
}

TEST(TokenizerTest, GivesUpAfterTheTokensThatWereAskedFor) {
  auto tokenizer = Make(ByteLevel({}));
  EncodeOptions options = kPlain;
  options.tokens_max = 10;
  std::string text;
  for (int word = 0; word < 1000; ++word) text += " ab";
  const size_t given = Ids(*tokenizer, text, options).size();
  EXPECT_GT(given, 10u);
  EXPECT_LT(given, 20u);
  options.tokens_max = 3000;
  EXPECT_EQ(Ids(*tokenizer, text, options), Ids(*tokenizer, text, kPlain));
}

TEST(TokenizerTest, TheLeastTokensAreNeverMoreThanThereAre) {
  TokenizerData strips = ByteLevel({{"a", "a"}});
  Add(&strips, "<strips>");
  strips.added_tokens[0].left_strip = strips.added_tokens[0].right_strip = true;
  TokenizerData composes = ByteLevel({{"a", "a"}});
  composes.normalizers = {Step("NFKC"), Step("Lowercase"), Replace("abc", "a")};
  TokenizerData drops = ByteLevel({{"a", "a"}});
  drops.normalizers = {Replace("a", "")};
  TokenizerData misses = ByteLevel({});
  misses.pieces['b'] = "bb";
  const std::string_view samples[] = {"aaaaaaaa",
                                      "abcabcabcabcabcabc",
                                      "                ",
                                      "<strips>                <strips>",
                                      "\xF0\x9D\x90\x80\xF0\x9D\x90\x80\xE2\x84\xAA\xE2\x84\xAA",
                                      "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
                                      "\xFF\xFF\xFF\xFF"};
  for (const TokenizerData& data :
       {ByteLevel({}), ByteLevel({{"a", "a"}}), strips, composes, drops, misses,
        Marks({"\xE2\x96\x81", "aa"}, true), Marks({"\xE2\x96\x81", "aa"}, false),
        Unigram({{"a", -1}}), WordPiece()}) {
    auto tokenizer = Make(data);
    for (const std::string_view sample : samples) {
      std::string text;
      for (int i = 0; i < 100; ++i) text += sample;
      EXPECT_LE(tokenizer->LeastTokens(text), Ids(*tokenizer, text, kPlain).size()) << text;
    }
  }
  const std::string text(1000, 'x');
  EXPECT_EQ(Make(ByteLevel({}))->LeastTokens(text), 1000u);
  EXPECT_EQ(Make(ByteLevel({{"a", "a"}}))->LeastTokens(text), 500u);
  EXPECT_EQ(Make(Marks({"aaaaaaaa"}, true))->LeastTokens(text), 125u);
  EXPECT_EQ(Make(Marks({"aaaaaaaa"}, false))->LeastTokens(text), 0u);  // fuses unknown characters
  EXPECT_EQ(Make(drops)->LeastTokens(text), 0u);
  EXPECT_EQ(Make(misses)->LeastTokens(text), 500u);
  EXPECT_EQ(Make(misses)->LeastTokens(std::string(1000, 'b')), 0u);
  EXPECT_EQ(Make(WordPiece())->LeastTokens(text), 0u);
}

// Each would need more memory than there is.
TEST(TokenizerTest, TextThatGrowsWithoutEndIsRefused) {
  const TextStep grow = Replace("a", std::string(10, 'a'));
  TokenizerData data = ByteLevel({});
  data.normalizers.assign(20, grow);
  auto refused = Make(data)->Encode(std::string(1000, 'a'), kPlain);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("normalizer makes the text longer than 20096"));
  EXPECT_EQ(Make(data)->Encode("b", kPlain)->size(), 1u);
  // By little for each of many parts.
  data = ByteLevel({});
  TextStep prepend = Step("Prepend");
  prepend.content = std::string(2000, 'a');
  data.normalizers = {prepend};
  Add(&data, "<s>");
  std::string text;
  for (int part = 0; part < 1000; ++part) text += "<s>b";
  EXPECT_EQ(Make(data)->Encode(text, kPlain).status().code(), StatusCode::kInvalidArgument);
  data.normalizers.assign(33, Step("Lowercase"));
  EXPECT_THAT(TokenizerError(data), HasSubstr("33 normalizers; the limit is 32"));
  // Every second step doubles the number of parts.
  data = ByteLevel({});
  data.pre_tokenizers.clear();
  for (int i = 0; i < 16; ++i) {
    TextStep mark = Step("Metaspace");
    mark.content = i % 2 == 0 ? "x" : "y";
    mark.behavior = "always";
    mark.options["split"] = false;
    TextStep split = Step("Split");
    split.pattern = ".";
    split.pattern_is_regex = true;
    data.pre_tokenizers.push_back(mark);
    data.pre_tokenizers.push_back(split);
  }
  refused = Make(data)->Encode("a", kPlain);
  EXPECT_THAT(refused.status().message(), HasSubstr("pre-tokenizer writes more than 4160 bytes"));
  data.pre_tokenizers.resize(33, Step("Digits"));
  EXPECT_THAT(TokenizerError(data), HasSubstr("33 pre-tokenizers; the limit is 32"));
  TextStep mark = Step("Metaspace");
  mark.content = "ab";
  data.pre_tokenizers = {mark};
  EXPECT_THAT(TokenizerError(data), HasSubstr("must be one character"));
  data = ByteLevel({});
  data.decoders.assign(20, grow);
  EXPECT_THAT(TokenizerError(data), HasSubstr("decoded to more than"));
  data.decoders.assign(33, Step("Fuse"));
  EXPECT_THAT(TokenizerError(data), HasSubstr("33 decoders; the limit is 32"));
  data = ByteLevel({});
  data.word_suffix = std::string(65, 'w');
  EXPECT_THAT(TokenizerError(data), HasSubstr("65 bytes; the limit is 64"));
  data = WordPiece();
  data.pieces.push_back(std::string(5000, 'a'));
  EXPECT_THAT(TokenizerError(data), HasSubstr("5000 bytes; the limit is 4096"));
}

// Other ids than the tokenizer's own would be worse than none.
TEST(TokenizerTest, AnExpressionThatTakesTooManyStepsIsAnError) {
  const std::string text(2000, 'a');
  TokenizerData data = ByteLevel({});
  data.pre_tokenizers = {Step("Split")};
  data.pre_tokenizers[0].pattern = "(?:a?){60}b";
  data.pre_tokenizers[0].pattern_is_regex = true;
  Result<std::vector<TokenId>> refused = Make(data)->Encode(text, kPlain);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("pre-tokenizer takes more than 193536 steps"));
  EXPECT_TRUE(Make(data)->Encode("a", kPlain).ok());
  data.normalizers = {Step("Replace")};
  data.normalizers[0].pattern = "(?:a?){60}b";
  data.normalizers[0].pattern_is_regex = true;
  data.pre_tokenizers.clear();
  refused = Make(data)->Encode(text, kPlain);
  EXPECT_THAT(refused.status().message(), HasSubstr("normalizer takes more than 193536 steps"));
}

TEST(TokenizerTest, ThreadsShareATokenizer) {
  auto tokenizer = Make(ByteLevel({{"l", "l"}, {"h", "e"}, {"he", "ll"}}));
  const std::string text = "hello hell held well 12345 hello";
  const std::vector<TokenId> expected = Ids(*tokenizer, text, kPlain);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        wrong[i] += Ids(*tokenizer, text, kPlain) != expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

}  // namespace
}  // namespace sluice::text
