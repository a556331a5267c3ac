#include "files/synthetic_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "files/repeated_block.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

ModelFiles OpenWithDtype(std::string_view model, std::string_view dtype) {
  auto files = OpenModel(SyntheticPath(model, dtype));
  EXPECT_TRUE(files.ok()) << files.status().message();
  return std::move(files).value();
}

int64_t Elements(const FileTensor& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.shape) count *= dim;
  return count;
}

double ValueAt(const FileTensor& tensor, size_t i) {
  if (tensor.dtype == DType::kF8E4M3) {
    return F8E4M3ToF32(static_cast<uint8_t>(tensor.data[i]));
  }
  if (tensor.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, tensor.data.data() + i * sizeof value, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, tensor.data.data() + i * sizeof bits, sizeof bits);
  return tensor.dtype == DType::kF16 ? F16ToF32(bits) : BF16ToF32(bits);
}

TEST(RepeatedBlock, RepeatsAndEndsWithAWholePeriod) {
  std::vector<std::byte> period(8192);
  for (size_t i = 0; i < period.size(); ++i) period[i] = static_cast<std::byte>(i * 7 / 5);
  const auto block = RepeatedBlock::Make(period, 3 * period.size() + 1);
  ASSERT_TRUE(block.ok()) << block.status().message();
  const std::span<const std::byte> bytes = (*block)->bytes();
  ASSERT_EQ(bytes.size(), 4 * period.size());
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], period[i % period.size()]) << i;
}

TEST(SyntheticModel, ParameterCountsAreThePublishedOnes) {
  struct Case {
    std::string name;
    int64_t parameters;
  };
  for (const Case& c :
       {Case{"llama-3.1-8b", 8'030'261'248}, Case{"qwen3-8b", 8'190'735'360},
        Case{"smollm2-135m", 134'515'008}, Case{"qwen3-30b-a3b", 30'532'122'624},
        Case{"mixtral-8x7b", 46'702'792'704}, Case{"deepseek-v2-lite", 15'706'484'224}}) {
    for (const std::string dtype : {"bf16", "fp8"}) {
      int64_t parameters = 0;
      const ModelFiles files = OpenWithDtype(c.name, dtype);
      for (const FileTensor& tensor : files.tensors->tensors()) {
        parameters += Elements(tensor);
      }
      EXPECT_EQ(parameters, c.parameters) << c.name << " " << dtype;
    }
  }
}

TEST(SyntheticModel, GptOssHasItsExpertsInMxfp4) {
  const ModelFiles files = OpenWithDtype("gpt-oss-20b", "mxfp4");
  const FileTensor* blocks = files.tensors->Find("model.layers.23.mlp.experts.gate_up_proj_blocks");
  const FileTensor* scales = files.tensors->Find("model.layers.23.mlp.experts.gate_up_proj_scales");
  ASSERT_TRUE(blocks != nullptr && scales != nullptr);
  EXPECT_EQ(blocks->shape, (std::vector<int64_t>{32, 5760, 90, 16}));
  EXPECT_EQ(scales->data.size(), size_t{32} * 5760 * 90);
  EXPECT_EQ(scales->data.front(), scales->data.back());
  int64_t parameters = 0;
  const ModelFiles whole = OpenWithDtype("gpt-oss-20b", "bf16");
  for (const FileTensor& tensor : whole.tensors->tensors()) {
    parameters += Elements(tensor);
  }
  EXPECT_EQ(parameters, 20'914'757'184);
  const auto refused = OpenModel(SyntheticPath("gpt-oss-20b", "q8_0"));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("mxfp4, bf16 and f16 are"));
}

TEST(SyntheticModel, ConfigsAreThePublishedOnes) {
  const ModelConfig llama = OpenWithDtype("llama-3.1-8b", "bf16").config;
  EXPECT_EQ(llama.rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(llama.rope.factor, 8);
  EXPECT_EQ(llama.rope.original_context, 8192);
  EXPECT_EQ(llama.rope.theta, 500000);
  EXPECT_EQ(llama.context_length, 131072);
  EXPECT_EQ(llama.qk_norm, QkNormKind::kNone);
  const ModelConfig qwen = OpenWithDtype("qwen3-8b", "bf16").config;
  EXPECT_EQ(qwen.qk_norm, QkNormKind::kHead);
  EXPECT_EQ(qwen.head_dim, 128);
  EXPECT_FALSE(qwen.tied_embeddings);
  EXPECT_EQ(qwen.num_layers, 36);
  const ModelConfig experts = OpenWithDtype("qwen3-30b-a3b", "q4_k").config;
  EXPECT_EQ(experts.experts.count, 128);
  EXPECT_EQ(experts.experts.per_token, 8);
  EXPECT_TRUE(experts.experts.renormalize);
  const ModelConfig cut = OpenWithDtype("qwen3-30b-a3b-6layers", "q4_k").config;
  EXPECT_EQ(cut.num_layers, 6);
  EXPECT_EQ(cut.experts.width, experts.experts.width);
}

TEST(SyntheticModel, EveryTensorHasItsBytesAndCanBeFound) {
  for (const std::string dtype : {"bf16", "f16", "fp8"}) {
    const ModelFiles files = OpenWithDtype("llama-3.1-8b", dtype);
    EXPECT_EQ(files.tensors->tensors().size(), 2u + 1 + 32 * 9);
    for (const FileTensor& tensor : files.tensors->tensors()) {
      EXPECT_EQ(tensor.data.size(), RowBytes(tensor.dtype, static_cast<size_t>(Elements(tensor))));
      EXPECT_EQ(files.tensors->Find(tensor.name), &tensor);
      // The ends can be read.
      EXPECT_TRUE(std::isfinite(ValueAt(tensor, 0)));
      EXPECT_TRUE(std::isfinite(ValueAt(tensor, static_cast<size_t>(Elements(tensor)) - 1)));
    }
    EXPECT_EQ(files.tensors->Find("model.layers.32.mlp.up_proj.weight"), nullptr);
    const DType layers = dtype == "fp8"   ? DType::kF8E4M3
                         : dtype == "f16" ? DType::kF16
                                          : DType::kBF16;
    EXPECT_EQ(files.tensors->Find("model.layers.31.mlp.up_proj.weight")->dtype, layers);
    EXPECT_EQ(files.tensors->Find("lm_head.weight")->dtype,
              dtype == "f16" ? DType::kF16 : DType::kBF16);
  }
}

TEST(SyntheticModel, ValuesKeepTheSizeOfActivationsAndLayersDiffer) {
  for (const std::string dtype : {"bf16", "f16", "fp8"}) {
    const ModelFiles files = OpenWithDtype("tiny", dtype);
    const FileTensor& first = *files.tensors->Find("model.layers.0.mlp.up_proj.weight");
    const FileTensor& second = *files.tensors->Find("model.layers.1.mlp.up_proj.weight");
    const auto count = static_cast<size_t>(Elements(first));
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; ++i) {
      sum += ValueAt(first, i);
      squares += ValueAt(first, i) * ValueAt(first, i);
    }
    EXPECT_NEAR(sum / count, 0, 0.01) << dtype;
    EXPECT_NEAR(std::sqrt(squares / count), 1 / std::sqrt(64.0), 0.01) << dtype;
    EXPECT_NE(std::memcmp(first.data.data(), second.data.data(), first.data.size()), 0);
    EXPECT_EQ(ValueAt(*files.tensors->Find("model.norm.weight"), 63), 1);
  }
}

TEST(SyntheticModel, ScalesAreOfEachRowOrBlock) {
  for (const auto& [dtype, name, shape, inputs] :
       {std::tuple<std::string, std::string, std::vector<int64_t>, F8Inputs>{
            "fp8-row", "_scale", {14336}, F8Inputs::kToken},
        {"fp8-block", "_scale_inv", {112, 32}, F8Inputs::kBlock}}) {
    const ModelFiles files = OpenWithDtype("llama-3.1-8b", dtype);
    EXPECT_EQ(files.tensors->tensors().size(), 2u + 1 + 32 * (9 + 7));
    ASSERT_TRUE(files.config.quantization.has_value());
    EXPECT_EQ(files.config.quantization->inputs, inputs);
    const FileTensor* scales = files.tensors->Find("model.layers.31.mlp.up_proj.weight" + name);
    ASSERT_NE(scales, nullptr);
    EXPECT_EQ(scales->shape, shape);
    EXPECT_EQ(scales->dtype, DType::kF32);
    EXPECT_EQ(scales->data.size(), static_cast<size_t>(Elements(*scales)) * sizeof(float));
    EXPECT_EQ(ValueAt(*scales, static_cast<size_t>(Elements(*scales)) - 1), 1);
  }
  EXPECT_FALSE(OpenWithDtype("tiny", "fp8").config.quantization.has_value());
}

TEST(SyntheticModel, OpenedTwiceItIsTheSame) {
  const ModelFiles one = OpenWithDtype("tiny", "bf16"), two = OpenWithDtype("tiny", "bf16");
  for (const FileTensor& tensor : one.tensors->tensors()) {
    const FileTensor& other = *two.tensors->Find(tensor.name);
    ASSERT_EQ(std::memcmp(tensor.data.data(), other.data.data(), tensor.data.size()), 0);
  }
}

TEST(SyntheticModel, UnknownNamesAreRefusedWithTheKnownOnes) {
  for (const std::string path :
       {"synthetic:gpt-5:bf16", "synthetic:", "synthetic::", "synthetic:llama-3.1-8b:bf16:bf16"}) {
    const Status status = OpenModel(path).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(status.message(),
                HasSubstr("llama-3.1-8b, qwen3-8b, qwen3-30b-a3b, qwen3-30b-a3b-6layers, "
                          "mixtral-8x7b, gpt-oss-20b, deepseek-v2-lite, deepseek-v3-6layers, "
                          "smollm2-135m, tiny"))
        << path;
  }
  const Status status = OpenText("synthetic:tiny:q4_1").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("bf16, f16, fp8"));
}

TEST(SyntheticModel, IsItsOwnPathAndName) {
  EXPECT_EQ(*ResolveModel("synthetic:tiny:bf16"), "synthetic:tiny:bf16");
  EXPECT_EQ(ModelName(OpenWithDtype("llama-3.1-8b", "bf16")), "synthetic:llama-3.1-8b:bf16");
  ModelFiles file;
  file.path = "/models/SmolLM2.Q4_1.gguf";
  EXPECT_EQ(ModelName(file), "SmolLM2.Q4_1");
}

}  // namespace
}  // namespace sluice::files
