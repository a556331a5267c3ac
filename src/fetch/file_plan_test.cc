#include "fetch/file_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace sluice::fetch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::string kCommit(40, 'c');

HubListing ListingOf(const std::vector<std::string>& names) {
  HubListing listing{kCommit, {}};
  for (const std::string& name : names) listing.files.push_back({name, 10, {}});
  return listing;
}

std::vector<std::string> Chosen(const std::vector<std::string>& names,
                                const std::string& selector = "") {
  const auto plan = ChooseFiles(ListingOf(names), "a/b", selector);
  if (!plan.ok()) return {plan.status().message()};
  std::vector<std::string> chosen;
  for (const HubFile& file : plan->files) chosen.push_back(file.name);
  if (!plan->gguf.empty()) {
    EXPECT_EQ(chosen.front(), plan->gguf);
  }
  return chosen;
}

Status Refused(const std::vector<std::string>& names, const std::string& selector = "") {
  const auto plan = ChooseFiles(ListingOf(names), "a/b", selector);
  return plan.ok() ? OkStatus() : plan.status();
}

TEST(FilePlanTest, AFolderHasItsWeightsTextsAndNothingElse) {
  EXPECT_THAT(Chosen({"README.md", "config.json", "tokenizer.json", "model.safetensors",
                      "pytorch_model.bin", "onnx/model.onnx", "chat_template.jinja", "x.py",
                      "original/config.json", "onnx/model.safetensors"}),
              UnorderedElementsAre("config.json", "tokenizer.json", "model.safetensors",
                                   "chat_template.jinja"));
}

TEST(FilePlanTest, OfSeveralCopiesOfTheWeightsOneIsFetched) {
  EXPECT_THAT(Chosen({"config.json", "model.safetensors", "model.fp16.safetensors"}),
              UnorderedElementsAre("config.json", "model.safetensors"));
  EXPECT_THAT(
      Chosen({"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
              "model-00002-of-00002.safetensors", "consolidated.safetensors",
              "consolidated-00001-of-00002.safetensors"}),
      UnorderedElementsAre("config.json", "model.safetensors.index.json",
                           "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
  EXPECT_THAT(Chosen({"config.json", "a.safetensors", "b.safetensors"}),
              UnorderedElementsAre("config.json", "a.safetensors", "b.safetensors"));
}

TEST(FilePlanTest, ModulesOfSentenceTransformersComeWithTheirFolders) {
  const std::vector<std::string> files = {"config.json",
                                          "model.safetensors",
                                          "1_Pooling/config.json",
                                          "2_Dense/model.safetensors",
                                          "2_Dense/pytorch_model.bin",
                                          "x_Dense/config.json",
                                          "1_Pooling/deeper/config.json"};
  EXPECT_THAT(Chosen(files), UnorderedElementsAre("config.json", "model.safetensors"));
  std::vector<std::string> with = files;
  with.push_back("modules.json");
  EXPECT_THAT(Chosen(with),
              UnorderedElementsAre("config.json", "model.safetensors", "modules.json",
                                   "1_Pooling/config.json", "2_Dense/model.safetensors"));
}

TEST(FilePlanTest, AQuantizationIsAWordOfAFilesName) {
  const std::vector<std::string> files = {"x-Q4_K_M.gguf", "x.q8_0.gguf",     "x-IQ4_K_M.gguf",
                                          "x-Q4_K.gguf",   "mmproj-f16.gguf", "BF16/x-BF16.gguf"};
  EXPECT_THAT(Chosen(files), UnorderedElementsAre("x-Q4_K_M.gguf"));
  EXPECT_THAT(Chosen(files, "q4_k_m"), UnorderedElementsAre("x-Q4_K_M.gguf"));
  EXPECT_THAT(Chosen(files, "Q8_0"), UnorderedElementsAre("x.q8_0.gguf"));
  EXPECT_THAT(Chosen(files, "Q4_K"), UnorderedElementsAre("x-Q4_K.gguf"));
  EXPECT_THAT(Chosen(files, "x-IQ4_K_M.gguf"), UnorderedElementsAre("x-IQ4_K_M.gguf"));
  EXPECT_THAT(Chosen({"x.q8_0.gguf", "x-Q2_K.gguf"}), UnorderedElementsAre("x.q8_0.gguf"));
  EXPECT_THAT(Chosen({"only.gguf"}), UnorderedElementsAre("only.gguf"));
  EXPECT_EQ(Refused(files, "F16").code(), StatusCode::kInvalidArgument);
}

TEST(FilePlanTest, AChoiceThatIsNoneListsWhatThereIs) {
  const Status none = Refused({"x-Q2_K.gguf", "x-Q3_K.gguf"}, "Q4_K_M");
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(none.message(), AllOf(HasSubstr("Q4_K_M"), HasSubstr("\"x-Q2_K.gguf\""),
                                    HasSubstr("\"x-Q3_K.gguf\""), HasSubstr("a/b:FILE")));
  const Status several = Refused({"x-Q2_K.gguf", "x-Q3_K.gguf"});
  EXPECT_EQ(several.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(several.message(), HasSubstr("2 GGUF files"));
  EXPECT_EQ(Refused({"config.json", "model.safetensors"}, "Q4_0").code(),
            StatusCode::kInvalidArgument);
  std::vector<std::string> many;
  for (int i = 0; i < 4000; ++i) many.push_back("x-" + std::to_string(i) + ".gguf");
  EXPECT_LT(Refused(many).message().size(), 2000u);
}

TEST(FilePlanTest, PartsComeTogether) {
  const std::vector<std::string> parts = {"Q4_K_M/x-Q4_K_M-00001-of-00003.gguf",
                                          "Q4_K_M/x-Q4_K_M-00002-of-00003.gguf",
                                          "Q4_K_M/x-Q4_K_M-00003-of-00003.gguf"};
  std::vector<std::string> all = {"x-Q2_K.gguf"};
  all.insert(all.end(), parts.begin(), parts.end());
  for (const std::string& selector : {std::string(), std::string("q4_k_m"), parts[0]}) {
    EXPECT_THAT(Chosen(all, selector), ElementsAreArray(parts)) << selector;
  }
  EXPECT_THAT(Refused(all, parts[1]).message(), HasSubstr("name the first, \"" + parts[0]));
  all.pop_back();
  const Status missing = Refused(all);
  EXPECT_EQ(missing.code(), StatusCode::kBadModel);
  EXPECT_THAT(missing.message(), HasSubstr("but not \"" + parts[2]));
}

TEST(FilePlanTest, PicklesAreRefusedAndSaidWhy) {
  const Status pickle = Refused({"config.json", "pytorch_model.bin"});
  EXPECT_EQ(pickle.code(), StatusCode::kBadModel);
  EXPECT_THAT(pickle.message(), HasSubstr("pickle"));
  EXPECT_FALSE(Refused({"config.json", "pytorch_model.bin"}, "pytorch_model.bin").ok());
  EXPECT_EQ(Refused({"README.md"}).code(), StatusCode::kBadModel);
  EXPECT_EQ(Refused({"model.safetensors"}).code(), StatusCode::kBadModel);
  EXPECT_EQ(Refused({"config.json", "config.json", "model.safetensors"}).code(), StatusCode::kIo);
}

TEST(HubListingTest, SizesAndChecksumsAreThoseOfTheFilesThemselves) {
  const std::string sha256(64, 'A'), git(40, 'b');
  const Json json = {{"sha", kCommit},
                     {"siblings",
                      {{{"rfilename", "config.json"}, {"size", 5}, {"blobId", git}},
                       {{"rfilename", "model.safetensors"},
                        {"size", 1000},
                        {"blobId", git},
                        {"lfs", {{"sha256", sha256}, {"size", 1000}, {"pointerSize", 134}}}},
                       {{"rfilename", "unknown.json"}}}}};
  const auto listing = ParseHubListing(json.dump());
  ASSERT_TRUE(listing.ok()) << listing.status().message();
  EXPECT_EQ(listing->commit, kCommit);
  ASSERT_EQ(listing->files.size(), 3u);
  EXPECT_EQ(listing->files[0].checksum, (Checksum{Checksum::Kind::kGitBlob, git}));
  EXPECT_EQ(listing->files[1].checksum, (Checksum{Checksum::Kind::kSha256, std::string(64, 'a')}));
  EXPECT_EQ(listing->files[1].size, 1000u);
  EXPECT_FALSE(listing->files[2].size);
  EXPECT_EQ(listing->files[2].checksum, Checksum());
}

TEST(HubListingTest, WhatIsNoListingIsAnErrorAndNotACrash) {
  for (
      const char* text :
      {"", "null", "[]", "{}", "<html>", R"({"sha":"main","siblings":[]})",
       R"({"sha":"cccccccccccccccccccccccccccccccccccccccc"})",
       R"({"sha":"cccccccccccccccccccccccccccccccccccccccc","siblings":[1]})",
       R"({"sha":"cccccccccccccccccccccccccccccccccccccccc","siblings":[{"rfilename":"a","size":-1}]})",
       R"({"sha":"cccccccccccccccccccccccccccccccccccccccc","siblings":[{"rfilename":"a","size":1e300}]})",
       R"({"sha":"cccccccccccccccccccccccccccccccccccccccc","siblings":[{"rfilename":"a","size":"5"}]})"}) {
    const auto listing = ParseHubListing(text);
    ASSERT_FALSE(listing.ok()) << text;
    EXPECT_EQ(listing.status().code(), StatusCode::kIo) << text;
  }
  const auto outside = ParseHubListing(
      R"({"sha":"cccccccccccccccccccccccccccccccccccccccc","siblings":[{"rfilename":"../x.gguf"}]})");
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(outside.status().code(), StatusCode::kBadModel);
  Json many = {{"sha", kCommit}, {"siblings", Json::array()}};
  for (size_t i = 0; i <= kListedFilesMax; ++i) {
    many["siblings"].push_back({{"rfilename", "f" + std::to_string(i)}});
  }
  EXPECT_FALSE(ParseHubListing(many.dump()).ok());
  many["siblings"].erase(0);
  EXPECT_TRUE(ParseHubListing(many.dump()).ok());
  EXPECT_FALSE(ParseHubListing(std::string(kListingBytesMax + 1, ' ')).ok());
}

}  // namespace
}  // namespace sluice::fetch
