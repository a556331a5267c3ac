#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "files/model_files.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;

class ModelCacheTest : public ::testing::Test {
 protected:
  ModelCacheTest() { setenv("SLUICE_CACHE", cache_.path().c_str(), 1); }
  ~ModelCacheTest() override { unsetenv("SLUICE_CACHE"); }

  std::string ErrorOf(const std::string& name) {
    auto path = ResolveModel(name);
    if (path.ok()) return "no error";
    EXPECT_EQ(path.status().code(), StatusCode::kNotFound);
    return path.status().message();
  }

  TempFolder cache_;
};

TEST_F(ModelCacheTest, APathIsItself) {
  TempFolder folder;
  const std::string path = folder.Write("x.gguf", "GGUF");
  EXPECT_EQ(*ResolveModel(path), path);
  EXPECT_EQ(*ResolveModel(folder.path()), folder.path());
}

TEST_F(ModelCacheTest, ANameIsLookedUpWithAndWithoutItsSuffix) {
  const std::string path = cache_.Write("tiny.gguf", "GGUF");
  EXPECT_EQ(*ResolveModel("tiny"), path);
  EXPECT_EQ(*ResolveModel("tiny.gguf"), path);
  std::filesystem::create_directories(cache_.path() + "/org/model");
  EXPECT_EQ(*ResolveModel("org/model"), cache_.path() + "/org/model");
}

TEST_F(ModelCacheTest, AnUnknownNameIsToldWhatTheCacheHolds) {
  EXPECT_THAT(ErrorOf("absent"), Not(HasSubstr("holds")));
  cache_.Write("tiny.gguf", "GGUF");
  cache_.Write("notes.txt", "");
  EXPECT_THAT(ErrorOf("absent"), HasSubstr("it holds \"tiny.gguf\""));
  EXPECT_THAT(ErrorOf("absent"), Not(HasSubstr("notes")));
}

TEST_F(ModelCacheTest, AModelOfTheHubIsListedWithItsOwner) {
  std::filesystem::create_directories(cache_.path() + "/org/model");
  cache_.Write("org/model/config.json", "{}");
  EXPECT_THAT(ErrorOf("absent"), HasSubstr("it holds \"org/model\""));
}

TEST_F(ModelCacheTest, ANameCannotLeadOutOfTheCache) {
  cache_.Write("tiny.gguf", "GGUF");
  const std::string name = std::filesystem::path(cache_.path()).filename().string();
  EXPECT_THAT(ErrorOf("../" + name + "/tiny.gguf"), Not(HasSubstr("cache")));
  EXPECT_THAT(ErrorOf("/nonexistent/tiny.gguf"), Not(HasSubstr("cache")));
  EXPECT_EQ(ResolveModel("").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ModelCacheTest, WithoutSluiceCacheItIsInXdgCacheHome) {
  TempFolder xdg;
  std::filesystem::create_directories(xdg.path() + "/sluice/other");
  setenv("XDG_CACHE_HOME", xdg.path().c_str(), 1);
  EXPECT_FALSE(ResolveModel("other").ok());  // SLUICE_CACHE comes first
  unsetenv("SLUICE_CACHE");
  EXPECT_EQ(*ResolveModel("other"), xdg.path() + "/sluice/other");
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace sluice::files
