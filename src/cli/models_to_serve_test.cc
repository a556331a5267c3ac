#include "cli/models_to_serve.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"

#include "base/source_dir_fixture.h"

namespace sluice::cli {
namespace {

const std::string kTiny = SourceDir() + "/tests/golden/gguf/llama-F32.gguf";
const std::string kOther = SourceDir() + "/tests/golden/gguf/qwen2-F32.gguf";

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
  auto one = ModelsToServe({kTiny}, Options(), false, "all", "", {});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_NE(one->front().loaded, nullptr);
  EXPECT_EQ(one->front().name, "llama-F32");
  auto two = ModelsToServe({kTiny, "b=" + kOther}, Options(), false, "b", "", {});
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

TEST(ModelsToServeTest, ModelsDoNotWriteOverEachOthersActivations) {
  EngineOptions options = Options();
  options.dump_activations = ::testing::TempDir() + ":0:0-3";
  const Status status =
      ModelsToServe({"a=" + kTiny, "b=" + kOther}, options, false, "none", "", {}).status();
  EXPECT_EQ(status.field(), "dump-activations");
  EXPECT_NE(status.message().find("\"a\" and \"b\""), std::string::npos) << status.message();
  EXPECT_TRUE(ModelsToServe({"a=" + kTiny}, options, false, "none", "", {}).ok());
}

TEST(ModelsToServeTest, ActivationsAreThoseOfTheFirstLoading) {
  EngineOptions options = Options();
  const std::string folder = ::testing::TempDir() + "models_to_serve_dump";
  std::filesystem::create_directory(folder);
  options.dump_activations = folder + ":0:0-3";
  auto models = ModelsToServe({"a=" + kTiny}, options, false, "none", "", {});
  ASSERT_TRUE(models.ok()) << models.status().message();
  ASSERT_TRUE(models->front().open().ok());
  // It is not even looked at any more.
  std::filesystem::remove(folder);
  const auto again = models->front().open();
  EXPECT_TRUE(again.ok()) << again.status().message();
}

ModelTable Table(const std::string& name, const std::map<std::string, std::string>& values) {
  ModelTable table{name, "s.toml, line 1", {}};
  int line = 1;
  for (const auto& [key, value] : values) {
    table.settings[key] = {{value}, "s.toml, line " + std::to_string(++line)};
  }
  return table;
}

TEST(ModelsToServeTest, ATableHasOptionsOfItsModelAlone) {
  EngineOptions options = Options();
  options.max_model_len = 48;
  const std::vector<ModelTable> tables = {
      Table("a", {{"model", kTiny}, {"max-model-len", "32"}, {"prefix-cache", "false"}}),
      Table("b", {{"max-num-seqs", "3"}}), Table("qwen2-F32", {{"max-num-seqs", "5"}})};
  auto models = ModelsToServe({"a", "b=" + kTiny, kOther}, options, false, "none", "", tables);
  ASSERT_TRUE(models.ok()) << models.status().message();
  const auto info = [&](size_t i) {
    auto engine = models->at(i).open();
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? (*engine)->Info() : EngineInfo();
  };
  EXPECT_EQ(models->at(0).name, "a");
  EXPECT_EQ(info(0).max_model_len, 32);
  EXPECT_EQ(info(0).max_num_seqs, 64);
  EXPECT_EQ(info(1).max_model_len, 48);
  EXPECT_EQ(info(1).max_num_seqs, 3);
  EXPECT_EQ(models->at(2).name, "qwen2-F32");
  EXPECT_EQ(info(2).max_num_seqs, 5);
  // The need is that of the model's own options, too.
  const Result<int64_t> few = models->at(1).need(), many = models->at(0).need();
  ASSERT_TRUE(few.ok() && many.ok());
  EXPECT_NE(*few, *many);
}

TEST(ModelsToServeTest, ErrorsOfATableNameItsLine) {
  const auto message = [](const std::string& word, const ModelTable& table) {
    return ModelsToServe({word}, Options(), false, "all", "", {table}).status().message();
  };
  EXPECT_EQ(message("a", Table("a", {})),
            "s.toml, line 1: the table of the model \"a\" does not say where it is; write model = "
            "there, or a=MODEL on the command line");
  EXPECT_TRUE(message("a=" + kTiny, Table("a", {{"threads", "-1"}}))
                  .starts_with("s.toml, line 2: threads is \"-1\"; "));
  EXPECT_TRUE(message("a=" + kTiny, Table("a", {{"kv-memory", "5"}}))
                  .starts_with("s.toml, line 2: kv-memory is \"5\"; \"5\" has no unit"));
  // What only the engine finds out is told with the line, too.
  const std::string unknown = message("a=" + kTiny, Table("a", {{"kv-dtype", "f7"}}));
  EXPECT_TRUE(unknown.ends_with(" (kv-dtype is set by s.toml, line 2)")) << unknown;
  const std::string missing = message("a", Table("a", {{"model", "/no/such.gguf"}}));
  EXPECT_NE(missing.find("/no/such.gguf"), std::string::npos) << missing;
}

// Also of a model that was loaded again.
TEST(ModelsToServeTest, ATraceNamesEachModel) {
  const std::string path = ::testing::TempDir() + "/sluice_models_to_serve_trace.json";
  const auto models =
      ModelsToServe({"a=" + kTiny, "b=" + kOther}, Options(), false, "none", path, {});
  ASSERT_TRUE(models.ok()) << models.status().message();
  {
    const auto first = models->at(0).open(), second = models->at(1).open();
    ASSERT_TRUE(first.ok() && second.ok());
  }
  ASSERT_TRUE(models->at(1).open().ok());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::vector<std::string> names;
  for (const Json& event : Json::parse(text.str())) {
    if (event.at("name") == "process_name") names.push_back(event.at("args").at("name"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "b"}));
}

TEST(ModelsToServeTest, WrongNamesAreErrors) {
  const auto field = [](const std::vector<std::string>& words, const std::string& preload,
                        const EngineOptions& options) {
    return ModelsToServe(words, options, false, preload, "", {}).status().field();
  };
  EXPECT_EQ(field({kTiny, kTiny}, "all", Options()), "model");
  EXPECT_EQ(field({kTiny, "b=" + kTiny}, "c", Options()), "preload");
  EngineOptions named = Options();
  named.served_model_name = "x";
  EXPECT_EQ(field({kTiny, kOther}, "all", named), "served-model-name");
}

}  // namespace
}  // namespace sluice::cli
