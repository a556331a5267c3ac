#include "files/tokenizer_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/str_cat.h"
#include "files/config_check.h"
#include "files/gguf.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

TokenizerData GoodTokenizer() {
  TokenizerData data;
  data.pieces = {"a", "b", "<s>"};
  data.scores = {-1.0f, -2.0f, 0.0f};
  data.kinds = {TokenKind::kNormal, TokenKind::kNormal, TokenKind::kControl};
  data.bos_id = data.unk_id = data.pad_id = data.eos_id = 2;
  data.prefix_ids = data.suffix_ids = data.end_of_generation_ids = {2};
  AddedToken token;
  token.id = 2;
  token.text = "<s>";
  data.added_tokens = {token};
  return data;
}

std::string ErrorAfter(const std::function<void(TokenizerData*)>& change) {
  TokenizerData data = GoodTokenizer();
  change(&data);
  const Status status = FinishTokenizer(data);
  if (status.ok()) return "no error";
  EXPECT_EQ(status.code(), StatusCode::kBadModel);
  return status.message();
}

TEST(TokenizerCheckTest, TakesAGoodOne) {
  EXPECT_EQ(ErrorAfter([](TokenizerData*) {}), "no error");
  EXPECT_EQ(ErrorAfter([](TokenizerData* data) { data->scores.clear(); }), "no error");
}

TEST(TokenizerCheckTest, RefusesMalformedPieces) {
  struct Case {
    std::function<void(TokenizerData*)> change;
    const char* message;
  };
  const Case cases[] = {
      {[](TokenizerData* data) { data->pieces.clear(); }, "an empty vocabulary"},
      {[](TokenizerData* data) { data->pieces.resize(static_cast<size_t>(kVocabRange.max) + 1); },
       "4194305 pieces; the limit is 4194304"},
      {[](TokenizerData* data) { data->scores.pop_back(); }, "3 pieces but 2 scores"},
      {[](TokenizerData* data) { data->kinds.pop_back(); }, "3 pieces but 2 kinds"},
      {[](TokenizerData* data) { data->scores[1] = std::numeric_limits<float>::quiet_NaN(); },
       "score of piece 1"},
      {[](TokenizerData* data) { data->scores[1] = std::numeric_limits<float>::infinity(); },
       "score of piece 1"},
      {[](TokenizerData* data) { data->pieces[1] = "\xFF"; },
       "piece 1 of the tokenizer is not UTF-8"},
      {[](TokenizerData* data) { data->added_tokens[0].text = "\xC3"; },
       "added token 2 of the tokenizer is not UTF-8"},
  };
  for (const Case& bad : cases) EXPECT_THAT(ErrorAfter(bad.change), HasSubstr(bad.message));
}

TEST(TokenizerCheckTest, RefusesIdsOutsideThePieces) {
  for (const int32_t id : {-1, 3}) {
    const std::pair<std::function<void(TokenizerData*)>, const char*> cases[] = {
        {[&](TokenizerData* data) { data->bos_id = id; }, "BOS"},
        {[&](TokenizerData* data) { data->eos_id = id; }, "EOS"},
        {[&](TokenizerData* data) { data->unk_id = id; }, "unknown"},
        {[&](TokenizerData* data) { data->pad_id = id; }, "padding"},
        {[&](TokenizerData* data) { data->prefix_ids = {id}; }, "prefix"},
        {[&](TokenizerData* data) { data->suffix_ids = {id}; }, "suffix"},
        {[&](TokenizerData* data) { data->end_of_generation_ids = {id}; }, "end-of-generation"},
        {[&](TokenizerData* data) { data->added_tokens[0].id = id; }, "added token"},
    };
    for (const auto& [change, what] : cases) {
      EXPECT_THAT(ErrorAfter(change), HasSubstr(StrCat(what, " id ", id, " is outside its 3")));
    }
  }
}

// Both readers end with the check.
TEST(TokenizerCheckTest, FilesAreChecked) {
  testing::GgufWriter writer;
  writer.String("general.architecture", "llama").String("tokenizer.ggml.model", "llama");
  writer.Strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "\xFF"});
  writer.Array<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -1});
  const auto bytes = writer.Bytes();
  const auto file = GgufFile::FromMemory(bytes, "tiny.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(TokenizerFromGguf(**file).status().message(), HasSubstr("piece 3"));
  const auto json = TokenizerFromJson(
      R"({"model": {"type": "Unigram", "vocab": [["a", 0.0], ["b", 1e300]]}})", "");
  EXPECT_THAT(json.status().message(), HasSubstr("score of piece 1"));
}

}  // namespace
}  // namespace sluice::files
