// What --dump-activations takes and writes.
#include "exec/activation_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/source_dir_fixture.h"
#include "exec/local_runner.h"
#include "files/safetensors.h"

namespace sluice::exec {
namespace {

using ::testing::HasSubstr;

TEST(ActivationDump, ReadsFolderLayersAndSteps) {
  const auto wanted = ParseDump("/tmp/a:b:0,3,11:2-5");
  ASSERT_TRUE(wanted.ok()) << wanted.status().message();
  EXPECT_EQ(wanted->folder, "/tmp/a:b");
  EXPECT_THAT(wanted->layers, ::testing::ElementsAre(0, 3, 11));
  EXPECT_EQ(wanted->first_step, 2);
  EXPECT_EQ(wanted->last_step, 5);
  EXPECT_EQ(ParseDump("x:7:9")->steps(), 1);
  for (const char* const text :
       {"x", ":", "::", "x:1", ":1:2", "x::2", "x:1:", "x:1,:2", "x:1,1:2", "x:2,1:2", "x:a:2",
        "x:1:3-2", "x:1:-3", "x:1:2-", "x:-1:2", "x:1:99999999999", "x:1 :2"}) {
    const Status status = ParseDump(text).status();
    EXPECT_EQ(status.field(), "dump-activations") << text;
    EXPECT_THAT(status.message(), HasSubstr("is not FOLDER:LAYERS:STEPS")) << text;
  }
}

class DumpedSteps : public ::testing::Test {
 protected:
  DumpedSteps() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~DumpedSteps() override { std::filesystem::remove_all(folder_); }

  static EngineOptions Options(const std::string& model) {
    EngineOptions options;
    options.model = SourceDir() + "/tests/golden/models/" + model;
    options.device = "cpu";
    options.threads = 1;
    options.max_model_len = 64;
    options.max_num_seqs = 2;
    options.max_batch_tokens = 16;
    options.block_size = 8;
    options.kernel_block_size = 4;
    options.kv_memory = "1MiB";
    options.speculate = "none";
    return options;
  }
  static Result<std::unique_ptr<LocalRunner>> Open(const EngineOptions& options) {
    SLUICE_ASSIGN_OR_RETURN(const files::ModelFiles files, files::OpenModel(options.model));
    return LocalRunner::Open(files, {}, options, {});
  }
  Status Refused(const std::string& model, const std::string& what) {
    EngineOptions options = Options(model);
    options.dump_activations = what;
    return Open(options).status();
  }
  // A step over these tokens of one sequence.
  static batch::StepResult Run(LocalRunner& runner, uint64_t step, int first,
                               std::vector<int32_t> tokens) {
    batch::BatchPlan plan;
    plan.step = step;
    plan.entries.push_back({.sequence = 5,
                            .told_whole = step,
                            .first_position = first,
                            .query_tokens = static_cast<int32_t>(tokens.size()),
                            .logits_count = 1});
    plan.logits_rows.push_back({.token = static_cast<int32_t>(tokens.size()) - 1});
    plan.tokens = tokens;
    for (const batch::KvGroup& group : runner.Info().kv_groups) {
      batch::GroupTable& table = plan.groups.emplace_back();
      for (int at = 0; at < first + static_cast<int>(tokens.size());
           at += group.kernel_block_tokens)
        table.ids.push_back(static_cast<int32_t>(table.ids.size()));
      table.begin = {0, static_cast<int32_t>(table.ids.size())};
      table.first = {0};
    }
    if (first == 0) {
      batch::SlotStart& start = plan.starts.emplace_back();
      start.sampling.temperature = 0;
      start.sampling.top_logprobs = 3;
      start.prompt_tokens = static_cast<int32_t>(tokens.size());
      start.history = tokens;
    }
    batch::StepResult result;
    auto launched = runner.Launch(&plan, nullptr);
    EXPECT_TRUE(launched.ok()) << launched.status().message();
    if (launched.ok()) {
      const Status status = launched->Finish(&result);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return result;
  }
  std::string File(int step) const {
    return folder_ + "/step-00000" + std::to_string(step) + ".safetensors";
  }

  // A step's file. Spans point into `bytes`.
  struct Dump {
    std::vector<char> bytes;
    std::vector<files::FileTensor> tensors;

    std::span<const std::byte> operator[](const std::string& name) const { return Find(name).data; }
    const files::FileTensor& Find(const std::string& name) const {
      static const files::FileTensor kNone;
      for (const files::FileTensor& tensor : tensors) {
        if (tensor.name == name) return tensor;
      }
      ADD_FAILURE() << name;
      return kNone;
    }
    std::vector<int32_t> Numbers(const std::string& name) const {
      std::vector<int32_t> values((*this)[name].size() / sizeof(int32_t));
      std::memcpy(values.data(), (*this)[name].data(), (*this)[name].size());
      return values;
    }
  };
  Dump Read(int step) const {
    Dump dump;
    std::ifstream file(File(step), std::ios::binary);
    dump.bytes.assign(std::istreambuf_iterator<char>(file), {});
    auto tensors = files::ParseSafetensors(std::as_bytes(std::span(dump.bytes)));
    EXPECT_TRUE(tensors.ok()) << tensors.status().message();
    if (tensors.ok()) dump.tensors = *std::move(tensors);
    return dump;
  }

  const std::string folder_ = ::testing::TempDir() + "sluice_dump_" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(DumpedSteps, HaveTheChosenLayersOfTheChosenStepsAndChangeNothing) {
  EngineOptions options = Options("llama");
  const auto plain = Open(options);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  const auto layers = files::OpenModel(options.model)->config.num_layers;
  ASSERT_GE(layers, 2);
  options.dump_activations = folder_ + ":0," + std::to_string(layers - 1) + ":1-2";
  const auto dumping = Open(options);
  ASSERT_TRUE(dumping.ok()) << dumping.status().message();
  const std::vector<std::vector<int32_t>> steps = {{5, 6, 7, 8, 9}, {10}, {11, 12, 13}, {14}};
  int first = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const batch::StepResult expected = Run(**plain, i + 1, first, steps[i]);
    EXPECT_EQ(Run(**dumping, i + 1, first, steps[i]), expected);
    first += static_cast<int>(steps[i].size());
  }
  EXPECT_FALSE(std::filesystem::exists(File(0)));
  EXPECT_FALSE(std::filesystem::exists(File(3)));
  const Dump dump = Read(2);
  EXPECT_THAT(dump.Numbers("token_ids"), ::testing::ElementsAre(11, 12, 13));
  EXPECT_THAT(dump.Numbers("positions"), ::testing::ElementsAre(6, 7, 8));
  EXPECT_THAT(dump.Numbers("sequences"), ::testing::ElementsAre(5, 5, 5));
  const std::string last = "layers." + std::to_string(layers - 1) + ".hidden";
  const int hidden = files::OpenModel(options.model)->config.hidden_size;
  EXPECT_EQ(dump.Find("layers.0.hidden").shape, (std::vector<int64_t>{3, hidden}));
  EXPECT_FALSE(std::ranges::equal(dump["layers.0.hidden"], dump[last]));
  EXPECT_FALSE(
      std::ranges::all_of(dump["layers.0.hidden"], [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(dump.tensors.size(), 5u);
}

// The same tokens in other chunks give the same numbers, which is what such files are compared for.
TEST_F(DumpedSteps, AreThoseOfAnotherChunk) {
  EngineOptions options = Options("llama");
  options.dump_activations = folder_ + ":1:0-1";
  {
    const auto one = Open(options);
    Run(**one, 1, 0, {5, 6, 7, 8, 9, 10});
  }
  const Dump whole = Read(0);
  const auto two = Open(options);
  Run(**two, 1, 0, {5, 6, 7});
  Run(**two, 2, 3, {8, 9, 10});
  const Dump rest = Read(1);
  const std::span<const std::byte> all = whole["layers.1.hidden"];
  EXPECT_TRUE(std::ranges::equal(rest["layers.1.hidden"], all.last(all.size() / 2)));
}

TEST_F(DumpedSteps, WhatCannotBeIsRefused) {
  EXPECT_THAT(Refused("llama", folder_ + ":0,99:0").message(), HasSubstr("names layer 99; the"));
  EXPECT_THAT(Refused("llama", folder_ + "/none:0:0").message(), HasSubstr("is not a folder"));
  EXPECT_THAT(Refused("llama", folder_ + ":0:0-99999999").message(),
              HasSubstr("the limit is 1073741824"));
  EXPECT_THAT(Refused("gemma2", folder_ + ":0:0").message(), HasSubstr("end in a norm"));
  EngineOptions options = Options("mimo");
  options.speculate = "mtp";
  options.dump_activations = folder_ + ":0:0";
  EXPECT_THAT(Open(options).status().message(), HasSubstr("take --speculate none"));
}

}  // namespace
}  // namespace sluice::exec
