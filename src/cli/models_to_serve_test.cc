#include "cli/models_to_serve.h"

#include <gtest/gtest.h>

#include <fstream>

namespace sluice::cli {
namespace {

const std::string kTiny = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/gguf/llama-F32.gguf";
const std::string kOther = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/gguf/qwen2-F32.gguf";

EngineOptions Options() {
  EngineOptions options;
  options.device = "cpu";
  options.threads = 1;
  return options;
}

TEST(ModelsToServeTest, ANameStandsBeforeAModel) {
  EXPECT_EQ(ReadNamedModel("small=/models/a.gguf").name, "small");
  EXPECT_EQ(ReadNamedModel("small=/models/a=b.gguf").model, "/models/a=b.gguf");
  EXPECT_EQ(ReadNamedModel("/models/a=b.gguf").name, "");
  EXPECT_EQ(ReadNamedModel("=a.gguf").model, "=a.gguf");
  const std::string there = ::testing::TempDir() + "models_to_serve=x.gguf";
  std::ofstream(there) << "x";
  EXPECT_EQ(ReadNamedModel(there).model, there);
}

TEST(ModelsToServeTest, OneIsLoadedAtOnceAndSeveralByTheServer) {
  auto one = ModelsToServe({kTiny}, Options(), false, "all", "");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_NE(one->front().loaded, nullptr);
  EXPECT_EQ(one->front().name, "llama-F32");
  auto two = ModelsToServe({kTiny, "b=" + kOther}, Options(), false, "b", "");
  ASSERT_TRUE(two.ok()) << two.status().message();
  EXPECT_EQ(two->at(0).loaded, nullptr);
  EXPECT_FALSE(two->at(0).at_start);
  EXPECT_EQ(two->at(1).name, "b");
  EXPECT_TRUE(two->at(1).at_start);
  const Result<int64_t> need = two->at(1).need();
  ASSERT_TRUE(need.ok()) << need.status().message();
  auto engine = two->at(1).open();
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const EngineInfo info = (*engine)->Info();
  EXPECT_EQ(info.model_name, "b");
  EXPECT_GE(*need, info.weight_bytes + info.kv_bytes);
  EXPECT_LE(*need, info.weight_bytes + info.kv_bytes + (64 << 20));
}

TEST(ModelsToServeTest, WrongNamesAreErrors) {
  const auto field = [](const std::vector<std::string>& words, const std::string& preload,
                        const EngineOptions& options) {
    return ModelsToServe(words, options, false, preload, "").status().field();
  };
  EXPECT_EQ(field({kTiny, kTiny}, "all", Options()), "model");
  EXPECT_EQ(field({kTiny, "b=" + kTiny}, "c", Options()), "preload");
  EngineOptions named = Options();
  named.served_model_name = "x";
  EXPECT_EQ(field({kTiny, kOther}, "all", named), "served-model-name");
  EXPECT_EQ(ModelsToServe({kTiny, kOther}, Options(), false, "all", "t.json").status().field(),
            "trace");
}

}  // namespace
}  // namespace sluice::cli
