#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "files/tokenizer_data.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Json Tiny() {
  return Json::parse(R"({
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": true},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
    "decoder": {"type": "ByteLevel"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}},
                 {"SpecialToken": {"id": "</s>", "type_id": 0}}],
      "special_tokens": {"<s>": {"ids": [3]}, "</s>": {"ids": [4]}}},
    "added_tokens": [{"id": 3, "content": "<s>", "special": true},
      {"id": 4, "content": "</s>", "special": true, "lstrip": true},
      {"id": 5, "content": "word", "single_word": true}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3}, "merges": ["a b"],
      "ignore_merges": true}})");
}

Result<TokenizerData> ReadTokenizerJson(const Json& json, std::string_view config = "") {
  return TokenizerFromJson(json.dump(), config);
}

std::string TokenizerJsonError(const Json& json) {
  Result<TokenizerData> data = ReadTokenizerJson(json);
  if (data.ok()) return "no error";
  EXPECT_EQ(data.status().code(), StatusCode::kBadModel);
  return data.status().message();
}

// A list of names, each of a list of ids: the product of two lengths.
TEST(TokenizerJsonTest, BoundsTheTokensAroundAText) {
  Json json = Tiny();
  Json& single = json["post_processor"]["single"];
  for (int i = 0; i < 40; ++i) single.push_back(single[0]);
  EXPECT_EQ(TokenizerJsonError(json), "no error");
  json["post_processor"]["special_tokens"]["<s>"]["ids"] = std::vector<int>(40, 3);
  EXPECT_THAT(TokenizerJsonError(json), HasSubstr("more than 1024 tokens around a text"));
  Json processor = Tiny()["post_processor"];
  json["post_processor"] = {{"type", "Sequence"},
                            {"processors", std::vector<Json>(1025, processor)}};
  EXPECT_THAT(TokenizerJsonError(json), HasSubstr("more than 1024 tokens around a text"));
}

TEST(TokenizerJsonTest, ReadsByteLevelBpe) {
  Result<TokenizerData> data = ReadTokenizerJson(Tiny());
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->model, TokenizerModel::kByteBpe);
  EXPECT_THAT(data->pieces, ElementsAre("a", "b", "ab", "<s>", "</s>", "word"));
  EXPECT_THAT(data->merges, ElementsAre(Pair("a", "b")));
  EXPECT_TRUE(data->ignore_merges);
  EXPECT_FALSE(data->derive_merges);
  ASSERT_EQ(data->normalizers.size(), 2u);
  EXPECT_EQ(data->normalizers[1].pattern, " ");
  EXPECT_FALSE(data->normalizers[1].pattern_is_regex);
  ASSERT_EQ(data->pre_tokenizers.size(), 2u);
  EXPECT_EQ(data->pre_tokenizers[0].pattern, "a+");
  EXPECT_TRUE(data->pre_tokenizers[0].pattern_is_regex);
  EXPECT_TRUE(data->pre_tokenizers[0].options["invert"]);
  EXPECT_FALSE(data->pre_tokenizers[1].options["use_regex"]);
  EXPECT_THAT(data->prefix_ids, ElementsAre(3));
  EXPECT_THAT(data->suffix_ids, ElementsAre(4));
  ASSERT_EQ(data->added_tokens.size(), 3u);
  EXPECT_TRUE(data->added_tokens[1].left_strip);
  EXPECT_FALSE(data->added_tokens[1].normalized);
  EXPECT_TRUE(data->added_tokens[2].single_word);
  EXPECT_TRUE(data->added_tokens[2].normalized);
  EXPECT_EQ(data->kinds[3], TokenKind::kControl);
  EXPECT_EQ(data->kinds[5], TokenKind::kUserDefined);
}

TEST(TokenizerJsonTest, ReadsMergesAsPairs) {
  Json json = Tiny();
  json["model"]["merges"] = Json::parse(R"([["a", "b"]])");
  Result<TokenizerData> data = ReadTokenizerJson(json);
  ASSERT_TRUE(data.ok());
  EXPECT_THAT(data->merges, ElementsAre(Pair("a", "b")));
  json["model"]["merges"] = Json::array();
  data = ReadTokenizerJson(json);
  ASSERT_TRUE(data.ok());
  EXPECT_FALSE(data->derive_merges);
}

TEST(TokenizerJsonTest, TheConfigNamesTokensAndDecidesAboutTheEnds) {
  Result<TokenizerData> data =
      ReadTokenizerJson(Tiny(), R"({"bos_token": "<s>", "eos_token": {"content": "</s>"},
                       "add_bos_token": false, "add_eos_token": true, "pad_token": null})");
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->bos_id, 3);
  EXPECT_EQ(data->eos_id, 4);
  EXPECT_FALSE(data->pad_id.has_value());
  EXPECT_THAT(data->prefix_ids, IsEmpty());
  EXPECT_THAT(data->suffix_ids, ElementsAre(4));
  EXPECT_THAT(data->end_of_generation_ids, ElementsAre(4));
}

TEST(TokenizerJsonTest, TheConfigsExpressionReplacesTheOnlyOne) {
  const std::string config = R"({"pretokenize_regex": "b+"})";
  EXPECT_EQ(ReadTokenizerJson(Tiny(), config)->pre_tokenizers[0].pattern, "b+");
  Json json = Tiny();
  auto& steps = json["pre_tokenizer"]["pretokenizers"];
  steps.push_back(steps[0]);
  EXPECT_EQ(ReadTokenizerJson(json, config)->pre_tokenizers[0].pattern, "a+");
}

TEST(TokenizerJsonTest, ReadsUnigram) {
  Json json = Json::parse(R"({"added_tokens": [{"id": 3, "content": "<mask>", "special": true}],
    "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "add_prefix_space": true},
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.5], ["b", -2]]}})");
  Result<TokenizerData> data = ReadTokenizerJson(json);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->model, TokenizerModel::kUnigram);
  EXPECT_THAT(data->scores, ElementsAre(0, -1.5, -2, 0));
  EXPECT_EQ(data->unk_id, 0);
  EXPECT_EQ(data->pre_tokenizers[0].behavior, "always");
  json["model"]["unk_id"] = 7;
  EXPECT_THAT(TokenizerJsonError(json), HasSubstr("unknown id 7 is outside its 3 pieces"));
  json["model"]["vocab"][1] = {"a"};
  EXPECT_THAT(TokenizerJsonError(json), HasSubstr("piece 1 of the tokenizer is not a pair"));
}

TEST(TokenizerJsonTest, ReadsWordPieceAndItsPostProcessors) {
  Json json = Json::parse(R"({
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
    "normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null},
    "model": {"vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, "unk_token": "[UNK]",
      "max_input_chars_per_word": 50}})");
  Result<TokenizerData> data = ReadTokenizerJson(json);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->model, TokenizerModel::kWordPiece);
  EXPECT_EQ(data->continuing_prefix, "##");
  EXPECT_EQ(data->max_chars_per_word, 50);
  EXPECT_EQ(data->unk_id, 0);
  EXPECT_THAT(data->prefix_ids, ElementsAre(1));
  EXPECT_THAT(data->suffix_ids, ElementsAre(2));
  EXPECT_EQ(data->normalizers[0].options.count("strip_accents"), 0u);
  EXPECT_THAT(data->between_ids, ElementsAre(2));
  json["post_processor"]["type"] = "RobertaProcessing";
  EXPECT_THAT(ReadTokenizerJson(json)->between_ids, ElementsAre(2, 2));
}

TEST(TokenizerJsonTest, ATemplateSaysWhatStandsBetweenTwoTexts) {
  Json json = Tiny();
  Json& processor = json["post_processor"];
  const auto token = [](const char* id) { return Json{{"SpecialToken", {{"id", id}}}}; };
  const auto text = [](const char* id) { return Json{{"Sequence", {{"id", id}}}}; };
  EXPECT_TRUE(ReadTokenizerJson(json)->between_ids.empty());
  processor["pair"] = {token("<s>"),  text("A"), token("</s>"),
                       token("</s>"), text("B"), token("</s>")};
  EXPECT_THAT(ReadTokenizerJson(json)->between_ids, ElementsAre(4, 4));
  // What stands around a pair is what stands around a text, or nobody knows how to make one.
  processor["pair"] = {text("A"), token("</s>"), text("B"), token("</s>")};
  EXPECT_TRUE(ReadTokenizerJson(json)->between_ids.empty());
}

TEST(TokenizerJsonTest, NamesWhatIsWrong) {
  auto with = [](const char* pointer, Json value) {
    Json json = Tiny();
    json[Json::json_pointer(pointer)] = std::move(value);
    return TokenizerJsonError(json);
  };
  EXPECT_THAT(TokenizerJsonError(Json::array()), HasSubstr("is not an object"));
  EXPECT_THAT(TokenizerJsonError(Json::object()), HasSubstr("has no model"));
  EXPECT_THAT(with("/model/vocab", Json::object()), HasSubstr("at least one piece"));
  EXPECT_THAT(with("/model/vocab/a", -1), HasSubstr("the piece \"a\" has the id -1"));
  EXPECT_THAT(with("/model/vocab/a", 1e18), HasSubstr("has the id"));
  EXPECT_THAT(with("/model/vocab/a", "0"), HasSubstr("has the id"));
  EXPECT_THAT(with("/model/vocab/b", 0), HasSubstr("id 0 belongs to both"));
  EXPECT_THAT(with("/model/merges", {"ab"}), HasSubstr("merge 0 of the tokenizer"));
  EXPECT_THAT(with("/model/merges", "x"), HasSubstr("merges are not a list"));
  EXPECT_THAT(with("/model/type", "Neural"), HasSubstr("\"Neural\" is not known"));
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("ByteLevel before the model"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(with("/model/byte_fallback", 1), HasSubstr("neither true nor false"));
  EXPECT_THAT(with("/added_tokens/2/id", 0), HasSubstr("id 0 belongs to both"));
  EXPECT_THAT(with("/added_tokens/0/id", 9), HasSubstr("the vocabulary gives it 3"));
  EXPECT_THAT(with("/added_tokens/1", {{"id", 3}, {"content", "<s>"}}),
              HasSubstr("adds the token id 3 twice"));
  EXPECT_THAT(with("/added_tokens/0", 5), HasSubstr("an added token without an id"));
  EXPECT_THAT(with("/normalizer", 5), HasSubstr("the normalizer is not an object"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/pattern", 5), HasSubstr("neither a Regex"));
  EXPECT_THAT(with("/post_processor/single/0/SpecialToken/id", "?"), HasSubstr("does not declare"));
  EXPECT_THAT(with("/post_processor/type", "Odd"), HasSubstr("\"Odd\" is not known"));
  EXPECT_THAT(TokenizerFromJson("{", "").status().message(), HasSubstr("not valid JSON"));
  EXPECT_THAT(TokenizerFromJson(Tiny().dump(), "[]").status().message(),
              HasSubstr("tokenizer_config.json is not an object"));
}

TEST(TokenizerJsonTest, ReadsBase64Maps) {
  Json json = Tiny();
  json["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAEC/w=="}};
  Result<TokenizerData> data = ReadTokenizerJson(json);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->normalizers[0].precompiled, std::string("\x00\x01\x02\xFF", 4));
  json["normalizer"]["precompiled_charsmap"] = "A*";
  EXPECT_THAT(TokenizerJsonError(json), HasSubstr("not base64"));
}

}  // namespace
}  // namespace sluice::files
