// What --draft-model names, beside the model: what every kind of draft refuses is the engine's
// test.
#include "exec/draft_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "files/safetensors.h"
#include "files/safetensors_writer.h"
#include "files/test_files.h"

namespace sluice::exec {
namespace {

std::string Folder(const std::string& name) {
  return std::string(SLUICE_SOURCE_DIR) + "/tests/golden/drafts/" + name;
}

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

}  // namespace
}  // namespace sluice::exec
