#include "cli/load/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace sluice::load {
namespace {

using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  ~DatasetTest() override { std::filesystem::remove(path_); }

  Result<std::vector<DatasetEntry>> Read(const std::string& text, size_t most = 100) {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadDataset(path_, most);
  }
  std::string MessageOf(const std::string& text) {
    const auto entries = Read(text);
    EXPECT_FALSE(entries.ok()) << text;
    EXPECT_EQ(entries.status().code(), StatusCode::kInvalidArgument);
    return entries.status().message();
  }

  const std::string path_ = ::testing::TempDir() + "/sluice_dataset_test.jsonl";
};

TEST_F(DatasetTest, AnObjectALine) {
  const auto entries = Read(
      "\n{\"prompt\": \"a\\nb\", \"output_len\": 3}\r\n\n"
      "{\"prompt\": [5, 6], \"output_tokens\": 4}\n{\"prompt\": \"c\"}");
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ(std::get<std::string>((*entries)[0].prompt), "a\nb");
  EXPECT_EQ((*entries)[0].output_tokens, 3);
  EXPECT_EQ(std::get<std::vector<int32_t>>((*entries)[1].prompt), (std::vector<int32_t>{5, 6}));
  EXPECT_EQ((*entries)[1].output_tokens, 4);
  EXPECT_FALSE((*entries)[2].output_tokens);
}

TEST_F(DatasetTest, TheConversationsOfShareGpt) {
  const auto entries = Read(
      R"([{"id": "1", "conversations": [{"from": "human", "value": "a } \" ]"},
          {"from": "gpt", "value": "b\\"}, {"from": "human", "value": "c"}]},
         {"conversations": []}, {"conversations": [{"value": "x"}, {"value": ""}]},
         {"conversations": [{"value": "d"}, {"value": "e"}]}])");
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ(std::get<std::string>((*entries)[0].prompt), "a } \" ]");
  EXPECT_EQ((*entries)[0].answer, "b\\");
  EXPECT_EQ(std::get<std::string>((*entries)[1].prompt), "d");
}

TEST_F(DatasetTest, NoMoreIsReadThanIsAskedFor) {
  auto entries = Read("{\"prompt\": \"a\"}\nnot read", 1);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  EXPECT_EQ(entries->size(), 1u);
  entries = Read(R"([{"conversations": [{"value": "d"}, {"value": "e"}]}, not read)", 1);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  EXPECT_EQ(entries->size(), 1u);
}

TEST_F(DatasetTest, WhatIsWrongHasItsLine) {
  EXPECT_THAT(MessageOf("{\"prompt\": \"a\"}\n\n{\"prompt\": }\n"), HasSubstr("line 3: "));
  EXPECT_THAT(MessageOf("{\"prompt\": \"a\"}\nhello"), HasSubstr("line 2: "));
  EXPECT_THAT(MessageOf("{\"prompt\": \"a\"}\n[1]"), HasSubstr("line 2: it is no object"));
  EXPECT_THAT(MessageOf("{\"text\": \"a\"}"), HasSubstr("line 1: it has no prompt"));
  EXPECT_THAT(MessageOf("{\"prompt\": [1, -2]}"), HasSubstr("list of token ids"));
  EXPECT_THAT(MessageOf("{\"prompt\": \"a\", \"output_len\": 0}"), HasSubstr("output_len is 0"));
  EXPECT_THAT(MessageOf("{\"prompt\": \"a\", \"output_len\": 2.5}"), HasSubstr("2.5"));
  EXPECT_THAT(MessageOf("[\n{\"conversations\": 4}]"), HasSubstr("line 2: an item has no list"));
  EXPECT_THAT(MessageOf("[\n\n4]"), HasSubstr("line 3: an item of the list is no object"));
  EXPECT_THAT(MessageOf("[{\"conversations\": [{\"value\": 4}, {}]}]"), HasSubstr("has no text"));
  EXPECT_THAT(MessageOf("[{\"conversations\": ["), HasSubstr("ends in the middle"));
  EXPECT_THAT(MessageOf(""), HasSubstr("has no prompts"));
  EXPECT_THAT(MessageOf(" \n\n"), HasSubstr("has no prompts"));
  EXPECT_THAT(MessageOf("[]"), HasSubstr("has no prompts"));
  EXPECT_EQ(ReadDataset(path_ + ".none", 1).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice::load
