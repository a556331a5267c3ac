// What --experts-on takes, and how many layers it moves by itself.
#include "exec/experts_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Six layers, of which all but the first have experts.
files::ModelConfig SixLayers() {
  files::ModelConfig config;
  config.num_layers = 6;
  config.layers.resize(6);
  for (int i = 1; i < 6; ++i) config.layers[i].experts = true;
  return config;
}

Result<std::vector<int>> Of(const std::string& text, const files::ModelConfig& config,
                            int ranks = 1) {
  EngineOptions options;
  options.experts_on = text;
  options.expert_ranks = ranks;
  return LayersOnHost(config, options);
}

TEST(ExpertsOn, NamesLayersOfTheHost) {
  const files::ModelConfig config = SixLayers();
  EXPECT_THAT(*Of("auto", config), IsEmpty());
  EXPECT_THAT(*Of("device", config), IsEmpty());
  EXPECT_THAT(*Of("host", config), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(*Of("host:3", config), ElementsAre(3));
  EXPECT_THAT(*Of("host:0-2", config), ElementsAre(1, 2));
  EXPECT_THAT(*Of("host:5,0-1,5", config), ElementsAre(1, 5));
}

TEST(ExpertsOn, RefusesWhatItCannotDoWithOneSentence) {
  const files::ModelConfig config = SixLayers();
  for (const char* const text : {"", "cpu", "host:", "host:a", "host:1-", "host:-1", "host:2-1",
                                 "host:1,", "host:,1", "host:1 ", "host:99999999999", "Host"}) {
    const Status status = Of(text, config).status();
    EXPECT_EQ(status.field(), "experts-on") << text;
    EXPECT_THAT(status.message(), HasSubstr("is none of auto, device, host and host:LAYERS"))
        << text;
  }
  EXPECT_THAT(Of("host:2-6", config).status().message(),
              HasSubstr("names layer 6; the model has 6, from 0 on"));
  EXPECT_THAT(Of("host:0", config).status().message(),
              HasSubstr("none of these layers has experts; the first that has some is layer 1"));
  EXPECT_THAT(Of("host", config, 2).status().message(), HasSubstr("--expert-ranks 2"));
  EXPECT_TRUE(Of("device", config, 2).ok());
  EXPECT_TRUE(Of("auto", config, 2).ok());
  files::ModelConfig dense = config;
  for (files::LayerConfig& layer : dense.layers) layer.experts = false;
  EXPECT_THAT(Of("host", dense).status().message(), HasSubstr("the model has no experts"));
  EXPECT_THAT(Of("host:1", dense).status().message(), HasSubstr("the model has no experts"));
  EXPECT_TRUE(Of("auto", dense).ok());
}

TEST(ExpertsOn, TheHostHasRoomForWeightsAndForAStep) {
  HostNeed need = {.weights = 700, .buffers = 200, .device = 0, .max_tokens = 64};
  EXPECT_EQ(*LeftOnHost(need, 1000), 100u);
  EXPECT_EQ(*LeftOnHost(need, 900), 0u);
  const Status buffers = LeftOnHost(need, 899).status();
  EXPECT_EQ(buffers.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(buffers.field(), "max-batch-tokens");
  EXPECT_THAT(buffers.message(), HasSubstr("a step of 64 tokens needs 200 B there"));
  EXPECT_THAT(LeftOnHost(need, 699).status().message(), HasSubstr("weights need 700 B there"));
  need.device = 100;  // of a device that shares the memory
  EXPECT_EQ(*LeftOnHost(need, 1000), 0u);
  EXPECT_FALSE(LeftOnHost(need, 999).ok());
}

TEST(ExpertsOn, TakesAsFewLayersAsFit) {
  for (size_t all = 1; all <= 9; ++all) {
    for (size_t least = 1; least <= all; ++least) {
      size_t asked = 0;
      EXPECT_EQ(FewestThatFit(all,
                              [&](size_t count) {
                                ++asked;
                                return count >= least;
                              }),
                least);
      EXPECT_LE(asked, 4u);
    }
  }
}

}  // namespace
}  // namespace sluice::exec
