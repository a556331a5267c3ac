// Configs of models whose attention chooses what it sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ConfigError;
using testing::GoodConfig;
using ::testing::HasSubstr;

Result<ModelConfig> ReadSparse(const std::string& class_name, const std::string& text) {
  return testing::ConfigWith({{"hidden_size", 64},
                              {"intermediate_size", 96},
                              {"num_hidden_layers", 4},
                              {"num_attention_heads", 4},
                              {"vocab_size", 100},
                              {"eos_token_id", 2},
                              {"architectures", {class_name}}},
                             text);
}

TEST(HfSparseTest, IndexersOfSparseAttention) {
  const ModelConfig deepseek =
      GoodConfig(ReadSparse("DeepseekV32ForCausalLM", R"({"kv_lora_rank":32,"index_topk":7,
      "qk_rope_head_dim":16,"index_n_heads":3,"layer_types":["indexed_attention"]})"));
  EXPECT_EQ(deepseek.latent.indexer.heads, 3);
  EXPECT_EQ(deepseek.latent.indexer.head_dim, 128);
  EXPECT_EQ(deepseek.latent.indexer.top_k, 7);
  EXPECT_FALSE(deepseek.latent.indexer.interleaved);
  EXPECT_TRUE(deepseek.rope.interleaved);
  const ModelConfig glm = GoodConfig(ReadSparse("GlmMoeDsaForCausalLM", R"({"index_topk_freq":1,
      "indexer_types":["full","full","full","full"],"index_topk_pattern":"FFFF"})"));
  EXPECT_TRUE(glm.latent.indexer.interleaved);
  EXPECT_EQ(glm.latent.indexer.top_k, 2048);
  EXPECT_EQ(glm.latent.q_rank, 2048);
  EXPECT_FALSE(
      GoodConfig(ReadSparse("GlmMoeDsaForCausalLM", R"({"indexer_rope_interleave":false})"))
          .latent.indexer.interleaved);
  EXPECT_EQ(
      GoodConfig(ReadSparse("DeepseekV3ForCausalLM", R"({"index_topk":7})")).latent.indexer.heads,
      0);
  // What each layer is told counts before what the layers are by their number.
  EXPECT_EQ(GoodConfig(ReadSparse("GlmMoeDsaForCausalLM", R"({"index_topk_freq":4,
      "indexer_types":["full","full","full","full"]})"))
                .latent.indexer.heads,
            32);
}

TEST(HfSparseTest, LayersMaySeeWhatAnotherOneHasChosen) {
  const auto reused = [](const std::string& text) {
    std::string letters;
    for (const LayerConfig& layer : GoodConfig(ReadSparse("GlmMoeDsaForCausalLM", text)).layers)
      letters += layer.reuses_positions ? 'S' : 'F';
    return letters;
  };
  EXPECT_EQ(reused("{}"), "FFFF");
  EXPECT_EQ(reused(R"({"index_topk_freq":4})"), "FFSS");
  EXPECT_EQ(reused(R"({"index_topk_freq":2,"index_topk_pattern":null})"), "FFSF");
  EXPECT_EQ(reused(R"({"index_topk_freq":2,"index_skip_topk_offset":1})"), "FSFS");
  EXPECT_EQ(reused(R"({"index_topk_pattern":"FSSF"})"), "FSSF");
  EXPECT_EQ(reused(R"({"index_topk_pattern":["full","full","shared","full"]})"), "FFSF");
  EXPECT_EQ(reused(R"({"index_topk_freq":2,"index_topk_pattern":"FSSF",
      "indexer_types":["full","shared","full","full"]})"),
            "FSFF");
}

TEST(HfSparseTest, IndexersThatCannotBeAreRefused) {
  for (const auto& [text, message] :
       {std::pair(R"({"index_topk":0})", "\"index_topk\" is 0"),
        std::pair(R"({"index_topk":1048577})", "\"index_topk\" is 1048577"),
        std::pair(R"({"index_topk":-3})", "\"index_topk\" is -3"),
        std::pair(R"({"index_topk":2.5})", "\"index_topk\" is 2.5"),
        std::pair(R"({"index_n_heads":0})", "\"index_n_heads\" is 0"),
        std::pair(R"({"index_n_heads":100000})", "\"index_n_heads\" is 100000"),
        std::pair(R"({"index_head_dim":5000})", "\"index_head_dim\" is 5000"),
        std::pair(R"({"index_head_dim":32})", "\"index_head_dim\" is 32, but RoPE rotates 64"),
        std::pair(R"({"q_lora_rank":null})", "\"q_lora_rank\" is null"),
        std::pair(R"({"index_topk_freq":-1})", "\"index_topk_freq\" is -1"),
        std::pair(R"({"index_topk_pattern":"SFFF"})", "but there is none before it"),
        std::pair(R"({"index_topk_pattern":"FFX-"})", "gives layer 2 a name"),
        std::pair(R"({"index_topk_pattern":"FFF"})", "as many names as layers (4)"),
        std::pair(R"({"indexer_types":["full","none","full","full"]})", "gives layer 1 a name"),
        std::pair(R"({"indexer_types":3})", "as many names as layers (4)"),
        std::pair(R"({"indexer_types":[]})", "as many names as layers (4)"),
        std::pair(R"({"indexer_types":["full","full","full"]})", "as many names as layers (4)")}) {
    EXPECT_THAT(ConfigError(ReadSparse("GlmMoeDsaForCausalLM", text)), HasSubstr(message));
  }
}

}  // namespace
}  // namespace sluice::files
