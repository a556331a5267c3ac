// What is wrong with the files of a tokenizer is said in a sentence.
#include "files/folder_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/source_dir_fixture.h"
#include "files/sentencepiece_model.h"
#include "files/test_files.h"
#include "files/vocabulary_files.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Bytes(const std::string& name) {
  std::ifstream stream(SourceDir() + "/tests/golden/tokenizers/" + name, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string SentencePieceError(std::string_view model) {
  const auto read = ReadSentencePieceModel(model);
  if (read.ok()) return "no error";
  EXPECT_EQ(read.status().code(), StatusCode::kBadModel);
  return read.status().message();
}

TEST(SentencePieceModelTest, AnyEndAndAnyByteIsReadOrRefusedWithASentence) {
  const std::string whole = Bytes("t5/spiece.model");
  ASSERT_EQ(SentencePieceError(whole), "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string error = SentencePieceError(whole.substr(0, size));
    EXPECT_TRUE(error == "no error" || error.find("damaged") != std::string::npos) << error;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\0', '\x7F', '\xFF'}) {
      std::string changed = whole;
      changed[at] = byte;
      EXPECT_NE(SentencePieceError(changed), "");
    }
  }
}

TEST(SentencePieceModelTest, WhatIsNotSupportedIsNamed) {
  // A piece "a", then a trainer's fields.
  const auto with = [](const std::string& trainer) {
    return std::string(
               "\x0A\x03\x0A\x01"
               "a") +
           '\x12' + static_cast<char>(trainer.size()) + trainer;
  };
  EXPECT_EQ(SentencePieceError(with("\x18\x02")), "no error");
  EXPECT_THAT(SentencePieceError(with("\x18\x03")), HasSubstr("the model type 3"));
  EXPECT_THAT(SentencePieceError(with("\xC0\x01\x01")), HasSubstr("treat_whitespace_as_suffix"));
  EXPECT_THAT(SentencePieceError(std::string("\x0A\x03\x0A\x01\xFF")), HasSubstr("not UTF-8"));
  EXPECT_THAT(SentencePieceError(""), HasSubstr("no pieces"));
  EXPECT_THAT(SentencePieceError("{\"model\": {}}"), HasSubstr("damaged"));
}

TEST(VocabularyFilesTest, LinesThatAreNoneAreNamed) {
  const auto merges = [](std::string_view lines) {
    TokenizerData data;
    return ReadMerges(lines, &data).message();
  };
  EXPECT_EQ(merges("#version: 0.2\na b\r\n"), "");
  EXPECT_THAT(merges("a b\nab\n"), HasSubstr("line 2 is \"ab\"; it must be two pieces"));
  const auto vocab = [](std::string_view json) {
    TokenizerData data;
    return ReadVocabJson(json, &data).message();
  };
  EXPECT_THAT(vocab(R"({"a": 0, "b": 0})"), HasSubstr("the pieces \"a\" and \"b\" have one id, 0"));
  EXPECT_THAT(vocab(R"({"a": 99999999999})"), HasSubstr("must be an integer from 0"));
  EXPECT_THAT(vocab("[]"), HasSubstr("not an object"));
  const auto tiktoken = [](std::string_view lines) {
    TokenizerData data;
    return ReadTiktoken(lines, &data).message();
  };
  EXPECT_EQ(tiktoken("IQ== 0\nIg== 1\n"), "");
  EXPECT_THAT(tiktoken("IQ== 0\nIg== 5\n"), HasSubstr("line 2 has the id 5"));
  EXPECT_THAT(tiktoken("I!== 0\n"), HasSubstr("line 1 is"));
  EXPECT_THAT(tiktoken("IQ==\n"), HasSubstr("a piece in base64, a space and its id"));
  EXPECT_THAT(tiktoken("\n"), HasSubstr("no pieces"));
}

class FolderTokenizerTest : public ::testing::Test {
 protected:
  void Write(const char* name, std::string_view bytes) const { folder_.Write(name, bytes); }
  std::string ErrorWith(std::string_view config) const {
    const auto read = ReadFolderTokenizer(folder_.path(), config);
    return read.ok() ? "no error" : read.status().message();
  }
  testing::TempFolder folder_;
};

// As in tokenizer.json.
TEST_F(FolderTokenizerTest, IdsThatNoPieceHasAreOthersToTakeOrUnused) {
  Write("vocab.json", R"({"a": 0, "b": 3})");
  Write("merges.txt", "");
  Write("added_tokens.json", R"({"<x>": 1})");
  const auto read = ReadFolderTokenizer(folder_.path(), "");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->pieces[1], "<x>");
  EXPECT_EQ(read->kinds[2], TokenKind::kUnused);
}

TEST_F(FolderTokenizerTest, AnyFileBesideAVocabularyMeansThatThereIsToBeOne) {
  Write("config.json", "{}");
  Write("model.safetensors", "");
  EXPECT_FALSE(MeansTokenizer(folder_.path()));
  EXPECT_TRUE(MeansTokenizer(folder_.path() + "/missing"));  // reading it says what is wrong
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
        "merges.txt", "chat_template.jinja", "chat_template.json", "tokenizer.json.part"}) {
    Write(name, "{}");
    EXPECT_TRUE(MeansTokenizer(folder_.path())) << name;
    std::filesystem::remove(std::filesystem::path(folder_.path()) / name);
  }
  EXPECT_FALSE(MeansTokenizer(folder_.path()));
}

TEST_F(FolderTokenizerTest, FilesThatAreMissingAndClassesThatAreNotKnownAreNamed) {
  EXPECT_THAT(ErrorWith(""), HasSubstr("nor tokenizer.model, spiece.model"));
  EXPECT_EQ(ReadFolderTokenizer(folder_.path(), "").status().code(), StatusCode::kNotFound);
  Write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  EXPECT_THAT(ErrorWith(""), HasSubstr("nor tokenizer.model"));
  Write("merges.txt", "a b\n");
  EXPECT_EQ(ErrorWith(""), "no error");
  Write("merges.txt", "a b\nab\n");
  EXPECT_THAT(ErrorWith(""), StartsWith("merges.txt: line 2 is \"ab\""));
  Write("merges.txt", "a b\n");
  Write("vocab.json", R"({"a": 0, "b": 0})");
  EXPECT_THAT(ErrorWith(""), StartsWith("vocab.json: the pieces"));
  Write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  EXPECT_THAT(ErrorWith(R"({"tokenizer_class": "CLIPTokenizer"})"),
              HasSubstr("vocab.json: the tokenizer_class \"CLIPTokenizer\""));
  EXPECT_THAT(ErrorWith("[]"), HasSubstr("tokenizer_config.json"));
  Write("added_tokens.json", R"({"<x>": "y"})");
  EXPECT_THAT(ErrorWith(""), HasSubstr("added_tokens.json gives \"<x>\" an id that is none"));
  Write("added_tokens.json", R"({"<x>": 3})");
  EXPECT_EQ(ErrorWith(""), "no error");
  EXPECT_THAT(ErrorWith(R"({"added_tokens_decoder": {"x": {"content": "a"}}})"),
              HasSubstr("what is no token"));
  EXPECT_THAT(ErrorWith(R"({"added_tokens_decoder": {"3": "<x>"}})"),
              HasSubstr("what is no token"));
  Write("tokenizer.model", Bytes("t5/spiece.model"));
  EXPECT_THAT(ErrorWith(R"({"tokenizer_class": "XLMRobertaTokenizer"})"),
              HasSubstr("numbers the pieces"));
  Write("tokenizer.model", "damaged");
  EXPECT_THAT(ErrorWith(""), HasSubstr("tokenizer.model: the SentencePiece model"));
}

TEST_F(FolderTokenizerTest, TokensOfTheJsonFilesAreAdded) {
  Write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})");
  Write("merges.txt", "a b\n");
  Write("added_tokens.json", R"({"<x>": 4, "<y>": 5})");
  Write("special_tokens_map.json",
        R"({"additional_special_tokens": ["<x>"], "pad_token": {"content": "<y>"}})");
  const auto data = ReadFolderTokenizer(folder_.path(), "");
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_THAT(data->pieces, ElementsAre("a", "b", "ab", "<|endoftext|>", "<x>", "<y>"));
  EXPECT_TRUE(data->added_tokens.size() == 3 && data->added_tokens[1].special);
  EXPECT_EQ(data->pad_id, 5);
  EXPECT_EQ(data->eos_id, 3);
}

}  // namespace
}  // namespace sluice::files
