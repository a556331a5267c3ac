#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/gguf.h"
#include "files/gguf_pre_tokenizers.h"
#include "files/test_files.h"
#include "files/tokenizer_data.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Result<TokenizerData> ReadGgufTokenizer(const GgufWriter& writer) {
  const auto bytes = writer.Bytes();
  auto file = GgufFile::FromMemory(bytes, "tiny.gguf");
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return file.status();
  return TokenizerFromGguf(**file);
}

std::string GgufTokenizerError(const GgufWriter& writer) {
  Result<TokenizerData> data = ReadGgufTokenizer(writer);
  if (data.ok()) return "no error";
  EXPECT_EQ(data.status().code(), StatusCode::kBadModel);
  return data.status().message();
}

GgufWriter Writer(const std::string& model, const std::vector<std::string>& pieces,
                  const std::vector<int32_t>& kinds) {
  GgufWriter writer;
  writer.String("general.architecture", "llama").String("tokenizer.ggml.model", model);
  writer.Strings("tokenizer.ggml.tokens", pieces);
  writer.Array<int32_t>("tokenizer.ggml.token_type", 5, kinds);
  return writer;
}

GgufWriter ByteLevel(const char* pre) {
  GgufWriter writer =
      Writer("gpt2", {"a", "b", "ab", "<|im_end|>", "tool", "[PAD5]"}, {1, 1, 1, 3, 4, 4});
  if (pre != nullptr) writer.String("tokenizer.ggml.pre", pre);
  writer.Strings("tokenizer.ggml.merges", {"a b"});
  return writer;
}

GgufWriter Marks() {
  GgufWriter writer = Writer("llama", {"<unk>", "<s>", "</s>", "<0x41>", "a"}, {2, 3, 3, 6, 1});
  writer.Array<float>("tokenizer.ggml.scores", 6, {0, 0, 0, 0, -1});
  return writer;
}

TEST(GgufTokenizerTest, ReadsByteLevelBpe) {
  GgufWriter writer = ByteLevel("llama-bpe");
  writer.U32("tokenizer.ggml.bos_token_id", 3);
  Result<TokenizerData> data = ReadGgufTokenizer(writer);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->model, TokenizerModel::kByteBpe);
  EXPECT_THAT(data->merges, ElementsAre(Pair("a", "b")));
  EXPECT_TRUE(data->ignore_merges);
  EXPECT_THAT(data->prefix_ids, ElementsAre(3));  // this pre-tokenizer adds one unless told not to
  ASSERT_EQ(data->added_tokens.size(), 2u);       // no padding
  EXPECT_TRUE(data->added_tokens[0].special);
  EXPECT_EQ(data->added_tokens[1].text, "tool");
  EXPECT_FALSE(data->added_tokens[1].special);
  EXPECT_THAT(data->end_of_generation_ids, ElementsAre(3));
  writer.Bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_THAT(ReadGgufTokenizer(writer)->prefix_ids, IsEmpty());
}

TEST(GgufTokenizerTest, QwenNormalizesAndOldFilesGoByArchitecture) {
  EXPECT_EQ(ReadGgufTokenizer(ByteLevel("qwen2"))->normalizers.at(0).type, "NFC");
  EXPECT_THAT(ReadGgufTokenizer(ByteLevel(nullptr))->normalizers, IsEmpty());
  EXPECT_EQ(FindGgufPreTokenizer("", "gptneox")->normalizers.at(0).type, "NFC");
  EXPECT_EQ(FindGgufPreTokenizer("default", "falcon")->pre_tokenizers.at(0).type, "Punctuation");
  EXPECT_FALSE(FindGgufPreTokenizer("no-such", "llama").has_value());
  EXPECT_THAT(GgufTokenizerError(ByteLevel("no-such")), HasSubstr("the pre-tokenizer \"no-such\""));
}

TEST(GgufTokenizerTest, ReadsSentencePiece) {
  Result<TokenizerData> data = ReadGgufTokenizer(Marks());
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->model, TokenizerModel::kSentencePieceBpe);
  EXPECT_TRUE(data->derive_merges);
  EXPECT_TRUE(data->byte_fallback);
  EXPECT_EQ(data->normalizers.at(0).type, "Prepend");
  EXPECT_THAT(data->prefix_ids, ElementsAre(1));
  EXPECT_EQ(data->kinds[3], TokenKind::kByte);
  GgufWriter writer = Marks();
  writer.Bool("tokenizer.ggml.add_space_prefix", false);
  data = ReadGgufTokenizer(writer);
  EXPECT_EQ(data->normalizers.at(0).type, "Replace");
  EXPECT_EQ(data->decoders.back().type, "Fuse");
}

TEST(GgufTokenizerTest, ReadsWordPieceInBertsSpelling) {
  GgufWriter writer = Writer("bert",
                             {"[UNK]",
                              "\xE2\x96\x81"
                              "a",
                              "b", "[X]"},
                             {1, 1, 1, 1});
  writer.U32("tokenizer.ggml.unknown_token_id", 0);
  writer.U32("tokenizer.ggml.cls_token_id", 1).U32("tokenizer.ggml.seperator_token_id", 2);
  Result<TokenizerData> data = ReadGgufTokenizer(writer);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_THAT(data->pieces, ElementsAre("[UNK]", "a", "##b", "[X]"));
  EXPECT_THAT(data->prefix_ids, ElementsAre(1));
  EXPECT_THAT(data->suffix_ids, ElementsAre(2));
}

TEST(GgufTokenizerTest, ReadsUnigram) {
  GgufWriter writer = Writer("t5", {"<pad>", "</s>", "<unk>", "a"}, {3, 3, 2, 1});
  writer.Array<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -1});
  writer.Array<int8_t>("tokenizer.ggml.precompiled_charsmap", 1, {1, -1});
  writer.Bool("tokenizer.ggml.remove_extra_whitespaces", true);
  Result<TokenizerData> data = ReadGgufTokenizer(writer);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->model, TokenizerModel::kUnigram);
  EXPECT_EQ(data->normalizers.at(0).precompiled, "\x01\xFF");
  EXPECT_EQ(data->pre_tokenizers.at(0).type, "WhitespaceSplit");
  EXPECT_THAT(data->suffix_ids, ElementsAre(1));
}

TEST(GgufTokenizerTest, Phi3StripsBehindItsTokens) {
  GgufWriter writer = Marks();
  writer.String("general.name", "Phi 3 Mini");
  EXPECT_FALSE(ReadGgufTokenizer(writer)->added_tokens.at(2).right_strip);
  writer = Marks();
  writer.String("general.name", "Phi-3-mini");
  Result<TokenizerData> data = ReadGgufTokenizer(writer);
  EXPECT_FALSE(data->added_tokens.at(1).right_strip);  // <s>
  EXPECT_TRUE(data->added_tokens.at(2).right_strip);   // </s>
}

TEST(GgufTokenizerTest, AModelMayComeWithoutOne) {
  for (const char* name : {"none", "no_vocab"}) {
    GgufWriter writer;
    writer.String("tokenizer.ggml.model", name);
    const Result<TokenizerData> data = ReadGgufTokenizer(writer);
    ASSERT_TRUE(data.ok()) << data.status().message();
    EXPECT_EQ(data->model, TokenizerModel::kNone);
    EXPECT_TRUE(data->pieces.empty());
  }
}

TEST(GgufTokenizerTest, NamesWhatIsWrong) {
  EXPECT_THAT(GgufTokenizerError(GgufWriter()), HasSubstr("has no tokenizer"));
  EXPECT_THAT(GgufTokenizerError(Writer("gpt2", {}, {})), HasSubstr("has no pieces"));
  EXPECT_THAT(GgufTokenizerError(Writer("odd", {"a"}, {1})), HasSubstr("\"odd\" is not known"));
  EXPECT_THAT(GgufTokenizerError(Writer("gpt2", {"a"}, {1, 1})),
              HasSubstr("1 pieces but 2 token types"));
  EXPECT_THAT(GgufTokenizerError(Writer("gpt2", {"a"}, {9})), HasSubstr("token 0 has the type 9"));
  EXPECT_THAT(GgufTokenizerError(Writer("gpt2", {"a"}, {1})), HasSubstr("has no merges"));
  EXPECT_THAT(GgufTokenizerError(Writer("llama", {"a"}, {1})), HasSubstr("1 pieces but 0 scores"));
  GgufWriter writer = ByteLevel("gpt-2");
  writer.U32("tokenizer.ggml.eos_token_id", 6);
  EXPECT_THAT(GgufTokenizerError(writer),
              HasSubstr("eos_token_id is 6; the tokenizer has 6 pieces"));
  writer = ByteLevel("gpt-2");
  writer.Bool("tokenizer.ggml.add_bos_token", true);
  EXPECT_THAT(GgufTokenizerError(writer), HasSubstr("adds a BOS token but has none"));
  writer = Writer("gpt2", {"a"}, {1});
  writer.Strings("tokenizer.ggml.merges", {"ab"});
  EXPECT_THAT(GgufTokenizerError(writer), HasSubstr("merge 0 of the tokenizer is \"ab\""));
  writer = Writer("gpt2", {"a"}, {1});
  writer.U32("tokenizer.ggml.merges", 1);
  EXPECT_THAT(GgufTokenizerError(writer), HasSubstr("tokenizer.ggml.merges has the wrong type"));
}

}  // namespace
}  // namespace sluice::files
