// What golden tests of heads that draft have alike: a folder of tests/golden/drafts for each, with
// the reference's answer, and the model that all of them draft for.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "model_runner.h"

namespace sluice::golden {

// By the name of a head.
class HeadGolden : public ::testing::TestWithParam<const char*> {
 protected:
  HeadGolden()
      : files_(files::OpenEagle(Folder(GetParam())).value()),
        expected_(*ParseJson(Read("expected.json"), "expected.json")),
        prompt_(expected_["prompt"].get<std::vector<int>>()),
        drafts_(expected_["drafts"].get<std::vector<int>>()) {
    const std::string bytes = Read("draft_logprobs.bin");
    log_probs_.resize(bytes.size() / sizeof(float));
    std::memcpy(log_probs_.data(), bytes.data(), bytes.size());
  }
  static std::string Folder(const std::string& name) {
    return SourceDir() + "/tests/golden/drafts/" + name;
  }
  static std::string Read(const std::string& name) {
    std::ifstream file(Folder(GetParam()) + "/" + name, std::ios::binary);
    EXPECT_TRUE(file.good()) << name;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::unique_ptr<ModelRunner> Open(DType type = DType::kF32) {
    model::ModelOptions options;
    options.max_tokens = options.max_logits_rows = 128;
    options.max_model_len = 64;
    options.activation = options.kv_dtype = type;
    options.kernel_block_tokens = 8;
    auto runner =
        ModelRunner::Open(files::OpenModel(Folder("target")).value(), options, 2, {.threads = 1});
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    if (!runner.ok()) return nullptr;
    const Status beside = (*runner)->PutBeside(files_);
    EXPECT_TRUE(beside.ok()) << beside.message();
    return beside.ok() ? std::move(runner).value() : nullptr;
  }

  const files::EagleFiles files_;
  const Json expected_;
  const std::vector<int> prompt_, drafts_;
  std::vector<float> log_probs_;
};

}  // namespace sluice::golden
