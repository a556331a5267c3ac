// What --draft-model names, beside the model: what every kind of draft refuses is the engine's
// test.
#include "exec/draft_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/source_dir_fixture.h"
#include "files/safetensors.h"
#include "files/safetensors_writer.h"
#include "files/test_files.h"

namespace sluice::exec {
namespace {

std::string Folder(const std::string& name) { return SourceDir() + "/tests/golden/drafts/" + name; }

// Whether the head of eagle3, with this embedding put beside it, is loaded with it.
bool LoadsEmbedding(const files::FileTensor& table, std::span<const std::byte> bytes) {
  const auto head = files::OpenSafetensors(Folder("eagle3")).value();
  const files::testing::TempFolder folder;
  std::vector<files::SafetensorsTensor> tensors;
  for (const files::FileTensor& t : head->tensors())
    tensors.push_back({t.name, t.dtype, t.shape, {t.data}});
  tensors.push_back({"embed_tokens.weight", table.dtype, table.shape, {bytes}});
  EXPECT_TRUE(files::WriteSafetensors(folder.path() + "/model.safetensors", tensors, {}).ok());
  std::filesystem::copy_file(Folder("eagle3") + "/config.json", folder.path() + "/config.json");
  EngineOptions options;
  options.speculate = "eagle3";
  options.draft_model = folder.path();
  const auto draft = OpenDraft(files::OpenModel(Folder("target")).value(), options);
  EXPECT_TRUE(draft.ok()) << draft.status().message();
  return draft.ok() && draft->eagle->config.own_embedding;
}

// Many heads were published with a copy of the model's embedding.
TEST(DraftFiles, AnEmbeddingThatIsTheModelsIsNotLoadedAgain) {
  const auto model = files::OpenSafetensors(Folder("target")).value();
  const files::FileTensor& table = *model->Find("model.embed_tokens.weight");
  EXPECT_FALSE(LoadsEmbedding(table, table.data));
  std::vector<std::byte> other(table.data.begin(), table.data.end());
  other.back() ^= std::byte{1};
  EXPECT_TRUE(LoadsEmbedding(table, other));
}

// Without texts only the sizes can be compared.
TEST(DraftFiles, AVocabularyWithoutATokenizerIsThatOfItsSize) {
  namespace fs = std::filesystem;
  const files::testing::TempFolder ids_alone;
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(fs::path(Folder("target")) / name, fs::path(ids_alone.path()) / name);
  const auto open = [](const std::string& target, const std::string& draft) {
    EngineOptions options;
    options.speculate = "model";
    options.draft_model = draft;
    return OpenDraft(files::OpenModel(target).value(), options).status();
  };
  const std::string whole = Folder("target"), bare = ids_alone.path();
  EXPECT_TRUE(open(bare, whole).ok()) << open(bare, whole).message();
  EXPECT_TRUE(open(whole, bare).ok()) << open(whole, bare).message();
  EXPECT_TRUE(open(bare, bare).ok()) << open(bare, bare).message();
  const std::string other = SourceDir() + "/tests/golden/models/llama";
  EXPECT_THAT(open(bare, other).message(), ::testing::HasSubstr(" tokens, not "));
}

// By form: which proposer it is, and how many tokens it guesses.
TEST(DraftFiles, AHeadWithoutFilesHasTheSizesOfTheModel) {
  const files::ModelFiles target = files::OpenModel(Folder("target")).value();
  struct Case {
    const char *name, *proposer;
    int guesses, layers;
  };
  for (const auto& [name, proposer, guesses, layers] :
       {Case{"eagle", "eagle", 128, 1}, Case{"eagle3", "eagle3", 128, 1},
        Case{"eagle3:48", "eagle3", 48, 1}, Case{"block:128", "block", 128, 1},
        Case{"dflash", "block", 128, 5}}) {
    EngineOptions options;
    options.draft_model = std::string("synthetic:") + name;
    const auto draft = OpenDraft(target, options);
    ASSERT_TRUE(draft.ok()) << draft.status().message();
    ASSERT_NE(draft->eagle, nullptr) << name;
    EXPECT_STREQ(draft->proposer(), proposer);
    const files::EagleConfig& config = draft->eagle->config;
    EXPECT_EQ(config.draft_vocab_size, guesses) << name;
    EXPECT_EQ(config.layer.num_layers, layers) << name;
    EXPECT_EQ(config.layer.hidden_size, target.config.hidden_size);
    options.speculate = "ngram";
    EXPECT_FALSE(OpenDraft(target, options).ok()) << name;
  }
}

TEST(DraftFiles, AHeadWithoutFilesThatCannotBeIsRefused) {
  const files::ModelFiles target = files::OpenModel(Folder("target")).value();
  EngineOptions options;
  const auto error = [&](const std::string& name) {
    options.draft_model = name;
    const Status status = OpenDraft(target, options).status();
    EXPECT_EQ(status.field(), "draft-model") << name;
    return std::string(status.message());
  };
  for (const char* const tokens : {"", "0", "129", "many", "8:"})
    EXPECT_THAT(error(std::string("synthetic:eagle3:") + tokens),
                ::testing::HasSubstr("names no number of 1 to 128 tokens"));
  EXPECT_THAT(error("synthetic:eagle:16"), ::testing::HasSubstr("all of its tokens"));
  for (const char* const name : {"synthetic:nope", "synthetic:eagle2:bf16", "synthetic:"}) {
    EXPECT_THAT(error(name),
                ::testing::AllOf(::testing::HasSubstr("is not known; heads are synthetic:eagle, "
                                                      "synthetic:eagle3, synthetic:block, "
                                                      "synthetic:dflash; of models: "),
                                 ::testing::HasSubstr("smollm2-135m, tiny")));
  }
  options.speculate = "eagle3";
  EXPECT_THAT(error("synthetic:tiny"),
              ::testing::HasSubstr("is a model and no head; heads are synthetic:eagle, "));
  options.speculate = "auto";
  // Of a model without files, as before.
  EXPECT_THAT(error("synthetic:tiny:bf16"), ::testing::HasSubstr("vocabulary"));
}

}  // namespace
}  // namespace sluice::exec
