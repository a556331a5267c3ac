#include "weights/file_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/str_cat.h"
#include "files/test_files.h"

namespace sluice::weights {
namespace {

using ::testing::HasSubstr;

// Matrices of 30 layers, one row each: those that read the hidden state have `hidden` columns, the
// down projection `inner`.
std::vector<std::byte> ModelOf30Layers(int64_t hidden, int64_t inner, bool output) {
  files::testing::GgufWriter file;
  file.String("general.architecture", "llama")
      .U32("llama.block_count", 30)
      .U32("llama.attention.head_count", 9)
      .U32("llama.attention.head_count_kv", 3)
      .Add("token_embd.weight", DType::kF16, {2, hidden})
      .Add("output_norm.weight", DType::kF32, {hidden});
  if (output) file.Add("output.weight", DType::kF16, {2, hidden});
  for (int i = 0; i < 30; ++i) {
    const std::string block = StrCat("blk.", i, ".");
    for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_up"}) {
      file.Add(block + part + ".weight", DType::kF16, {1, hidden});
    }
    file.Add(block + "ffn_down.weight", DType::kF16, {1, inner})
        .Add(block + "attn_norm.weight", DType::kF32, {hidden})
        .Add(block + "ffn_gate_inp.weight", DType::kF16, {2, hidden})
        .Add(block + "attn_q.bias", DType::kF32, {1, hidden});
  }
  return file.Bytes();
}

class Types {
 public:
  Types(std::string_view name, const std::vector<std::byte>& bytes) {
    const auto file = files::GgufFile::FromMemory(bytes, "tiny.gguf").value();
    const auto types = TensorTypes(FindFileType(name).value(), *file);
    for (size_t i = 0; i < types.size(); ++i) types_[file->tensors()[i].name] = types[i];
  }
  DType Of(const std::string& name) const { return types_.at(name); }
  // The layers whose `part` has the format.
  std::set<int> Layers(const std::string& part, DType dtype) const {
    std::set<int> layers;
    for (int i = 0; i < 30; ++i) {
      if (Of(StrCat("blk.", i, ".", part, ".weight")) == dtype) layers.insert(i);
    }
    return layers;
  }

 private:
  std::map<std::string, DType> types_;
};

const std::set<int> kSensitive = {0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 26, 27, 28, 29};

// What llama-quantize prints for SmolLM2-135M, whose hidden state is no multiple of 256.
TEST(TensorTypes, AreThoseOfLlamaQuantizeWhereRowsDoNotFit) {
  const auto bytes = ModelOf30Layers(576, 1536, false);
  const Types q4("Q4_K_M", bytes);
  EXPECT_EQ(q4.Of("token_embd.weight"), DType::kQ8_0);
  EXPECT_EQ(q4.Layers("ffn_down", DType::kQ6_K), kSensitive);
  EXPECT_EQ(q4.Layers("ffn_down", DType::kQ4_K).size(), 16u);
  EXPECT_EQ(q4.Layers("attn_v", DType::kQ8_0), kSensitive);
  EXPECT_EQ(q4.Layers("attn_v", DType::kQ5_0).size(), 16u);
  EXPECT_EQ(q4.Layers("attn_q", DType::kQ5_0).size(), 30u);
  const Types small("Q4_K_S", bytes);
  EXPECT_EQ(small.Layers("attn_v", DType::kQ5_1), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(small.Layers("ffn_down", DType::kQ5_K), (std::set<int>{0, 1, 2}));
  const Types q3("Q3_K_M", bytes);
  EXPECT_EQ(q3.Layers("attn_v", DType::kQ5_1), (std::set<int>{0, 1}));
  EXPECT_EQ(q3.Layers("ffn_down", DType::kQ5_K), (std::set<int>{0}));
  EXPECT_EQ(q3.Layers("attn_output", DType::kQ5_0).size(), 30u);
  EXPECT_EQ(q3.Layers("attn_k", DType::kQ4_0).size(), 30u);
  const Types q2("Q2_K", bytes);
  EXPECT_EQ(q2.Layers("ffn_down", DType::kQ3_K).size(), 30u);
  EXPECT_EQ(q2.Layers("attn_v", DType::kQ4_0).size(), 30u);
  EXPECT_EQ(Types("Q5_K_M", bytes).Layers("attn_v", DType::kQ5_1).size(), 16u);
  EXPECT_EQ(Types("Q6_K", bytes).Layers("attn_v", DType::kQ8_0).size(), 30u);
}

TEST(TensorTypes, WholeBlocksGetTheFormatItself) {
  const auto tied = ModelOf30Layers(512, 512, false), untied = ModelOf30Layers(512, 512, true);
  EXPECT_EQ(Types("Q4_K_M", tied).Of("token_embd.weight"), DType::kQ6_K);
  EXPECT_EQ(Types("Q4_K_M", untied).Of("token_embd.weight"), DType::kQ4_K);
  EXPECT_EQ(Types("Q4_K_M", untied).Of("output.weight"), DType::kQ6_K);
  EXPECT_EQ(Types("Q8_0", untied).Of("output.weight"), DType::kQ8_0);
  EXPECT_EQ(Types("Q4_0", untied).Of("output.weight"), DType::kQ6_K);
  EXPECT_EQ(Types("Q4_K_M", tied).Layers("attn_v", DType::kQ6_K), kSensitive);
  EXPECT_EQ(Types("Q3_K_L", tied).Layers("attn_output", DType::kQ5_K).size(), 30u);
}

TEST(TensorTypes, NormsGatesAndVectorsStay) {
  for (const FileType& type : FileTypes()) {
    const Types types(type.name, ModelOf30Layers(576, 1536, false));
    EXPECT_EQ(types.Of("output_norm.weight"), DType::kF32);
    EXPECT_EQ(types.Of("blk.0.attn_norm.weight"), DType::kF32);
    EXPECT_EQ(types.Of("blk.0.ffn_gate_inp.weight"), DType::kF16);
    EXPECT_EQ(types.Of("blk.0.attn_q.bias"), DType::kF32);
    if (!IsQuantized(type.dtype)) {
      EXPECT_EQ(types.Of("token_embd.weight"), type.dtype);
      EXPECT_EQ(types.Layers("ffn_down", type.dtype).size(), 30u);
    }
  }
}

TEST(TensorTypes, RowsThatNoBlockFitsAreF16) {
  const Types types("Q4_K_M", ModelOf30Layers(40, 40, true));
  EXPECT_EQ(types.Of("token_embd.weight"), DType::kF16);
  EXPECT_EQ(types.Layers("ffn_down", DType::kF16).size(), 30u);
}

TEST(FindFileType, KnowsNamesInAnyCaseAndListsThem) {
  EXPECT_EQ(FindFileType("q4_k_m").value().number, 15u);
  EXPECT_EQ(FindFileType("Q4_K").value().name, "Q4_K_M");
  const Status status = FindFileType("Q9").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("Q9"));
  for (const FileType& type : FileTypes()) {
    EXPECT_THAT(status.message(), HasSubstr(std::string(type.name)));
  }
}

}  // namespace
}  // namespace sluice::weights
