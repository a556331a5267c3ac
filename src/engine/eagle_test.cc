// Drafts of heads of EAGLE's, EAGLE-3's, parallel EAGLE's and DFlash's form: requests of every kind
// get the answers that they get without, beside others, in any chunks, from the prefix cache and
// through preemption, and most drafts of a head that has learned what its model draws are right.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "engine/device_drafts_fixture.h"
#include "files/test_files.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

EngineOptions EagleOptions(int drafts, const std::string& head = "eagle3") {
  EngineOptions options = TinyOptions();
  options.model = DraftFolder("target");
  options.speculate = drafts > 0 ? head.substr(0, head.find('_')) : "none";
  if (options.speculate == "eagle1") options.speculate = "eagle";
  if (options.speculate == "dflash") options.speculate = "block";
  if (drafts > 0) options.draft_model = DraftFolder(head);
  options.speculate_tokens = std::max(1, drafts);
  options.speculate_adapt = false;  // what pays is a matter of time
  return options;
}

// By the name of a head that has learned.
class Eagle : public DeviceDraftsTest, public ::testing::WithParamInterface<const char*> {
 protected:
  Eagle() : DeviceDraftsTest(EagleOptions(0)) {}
};
INSTANTIATE_TEST_SUITE_P(All, Eagle, ::testing::Values("eagle3", "eagle1", "block", "dflash"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(Eagle, RequestsOfEveryKindGetTheSameAnswer) {
  for (const int drafts : {1, 3, 8}) {
    const auto engine = OpenTiny(EagleOptions(drafts, GetParam()));
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 50) << drafts;
    EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  }
}

TEST_P(Eagle, OneThatIsOftenWrongChangesNothing) {
  const auto engine = OpenTiny(EagleOptions(3, std::string(GetParam()) + "_own"));
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"), 50);
}

TEST_P(Eagle, AsManyAsPayChangeNothing) { ExpectSameAsManyAsPay(EagleOptions(8, GetParam())); }

TEST_P(Eagle, ChunksChangeNothing) { ExpectSameInChunks(EagleOptions(3, GetParam())); }

TEST_P(Eagle, PreemptionChangesNothing) {
  EngineOptions options = EagleOptions(3, GetParam());
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const std::string tight = std::to_string(OpenTiny(options)->Info().kv_bytes * 5 / 4) + "B";
  options = EagleOptions(3, GetParam());
  options.kv_memory = tight;
  const auto engine = OpenTiny(options);
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:num_preemptions_total"), 0) << "the test shows nothing";
  EXPECT_GT(Accepted(*engine), 10);
}

// Chance would be one in 128. The head has learned from texts of 24 tokens.
TEST_P(Eagle, MostDraftsAreRight) {
  const auto engine = OpenTiny(EagleOptions(2, GetParam()));
  int accepted = 0, rejected = 0;
  for (int i = 0; i < 40; ++i) {
    Request request = TinyRequest(RandomPrompt(2 + i % 5, 70 + i), 18);
    const Usage usage = Ask(*engine, request)->usage;
    accepted += usage.accepted_tokens;
    rejected += usage.rejected_tokens;
  }
  EXPECT_GT(accepted, 0.5 * (accepted + rejected)) << accepted << " of " << accepted + rejected;
}

TEST(EagleOpen, AutoTakesTheHeadThatIsNamed) {
  for (const char* const head : {"eagle3", "eagle1", "block", "dflash"}) {
    EngineOptions options = EagleOptions(2, head);
    options.speculate = "auto";
    const auto engine = OpenTiny(options);
    EXPECT_GT(Ask(*engine, TinyRequest(RandomPrompt(5, 71), 18))->usage.accepted_tokens, 0) << head;
  }
}

class EagleMemory : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, EagleMemory,
                         ::testing::Values("eagle3", "eagle1", "eagle1_own", "block", "dflash"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(EagleMemory, ItTakesMemoryOfThePlan) {
  EngineOptions options = EagleOptions(0);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const EngineInfo without = OpenTiny(options)->Info();
  options = EagleOptions(2, GetParam());
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const EngineInfo with = OpenTiny(options)->Info();
  EXPECT_GT(with.weight_bytes, without.weight_bytes);
  EXPECT_GT(with.kv_bytes, without.kv_bytes);
  EXPECT_EQ(with.kv_blocks, without.kv_blocks);
  options.kv_memory = std::to_string(without.kv_bytes) + "B";
  const Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("or leave --draft-model out"));
}

EngineOptions Beside(const std::string& model, const std::string& head = "eagle3") {
  EngineOptions options = EagleOptions(2, head);
  options.model = TinyOptions(model).model;
  return options;
}

TEST(EagleOpen, WhatCannotWorkIsRefused) {
  EngineOptions options = EagleOptions(2);
  options.draft_model.clear();
  ExpectRefused(options, "speculate", "needs a head that guesses; name it with --draft-model");
  options = EagleOptions(2);
  options.speculate = "model";
  ExpectRefused(options, "draft-model", "choose --speculate eagle3");
  options = EagleOptions(2);
  options.draft_model = TinyOptions("qwen3").model;
  ExpectRefused(options, "draft-model", "names no head of EAGLE's form but \"Qwen3ForCausalLM\"");
  ExpectRefused(Beside("llama"), "draft-model", "its vocabulary has 128 tokens, not 320");
  ExpectRefused(Beside("qwen3"), "draft-model", "it reads layer 3 of 2");
  ExpectRefused(Beside("qwen3_fp8_block"), "draft-model", "hidden states of 64 numbers, not 160");
  ExpectRefused(Beside("gemma3"), "draft-model", "whose layers end in a norm");
  ExpectRefused(Beside("qwen3_next"), "draft-model", "has recurrent layers");
  ExpectRefused(Beside("mistral"), "draft-model", "have windows");
}

TEST(EagleOpen, TheFormMustBeTheOneThatIsNamed) {
  EngineOptions options = EagleOptions(2, "eagle1");
  options.speculate = "eagle3";
  ExpectRefused(options, "draft-model",
                "is a head of EAGLE's first form; choose --speculate eagle");
  options.speculate = "model";
  ExpectRefused(options, "draft-model",
                "is a head of EAGLE's first form; choose --speculate eagle");
  options = EagleOptions(2);
  options.speculate = "eagle";
  ExpectRefused(options, "draft-model", "is a head of EAGLE-3's form; choose --speculate eagle3");
  options.draft_model.clear();
  ExpectRefused(options, "speculate", "needs a head that guesses; name it with --draft-model");
  options = EagleOptions(2);
  options.speculate = "block";
  ExpectRefused(options, "draft-model", "is a head of EAGLE-3's form; choose --speculate eagle3");
  options = EagleOptions(2, "block");
  options.speculate = "eagle3";
  ExpectRefused(options, "draft-model",
                "is a head of parallel EAGLE's form; choose --speculate block");
}

TEST(EagleOpen, WhatAHeadOfDFlashsFormCannotDoIsRefused) {
  ExpectRefused(Beside("llama", "dflash"), "draft-model", "its vocabulary has 128 tokens, not 320");
  ExpectRefused(Beside("gemma3", "dflash"), "draft-model",
                "--speculate block does not work with gemma3, whose layers end in a norm");
  EngineOptions options = EagleOptions(2, "dflash");
  options.speculate = "eagle3";
  ExpectRefused(options, "draft-model", "is a head of DFlash's form; choose --speculate block");
}

TEST(EagleOpen, WhatABlockCannotDoIsRefused) {
  ExpectRefused(Beside("llama", "block"), "draft-model", "its vocabulary has 128 tokens, not 320");
  ExpectRefused(Beside("gemma3", "block"), "draft-model",
                "--speculate block does not work with gemma3, whose layers end in a norm");
  ExpectRefused(Beside("qwen3_next", "block"), "draft-model",
                "--speculate block works with models of attention alone");
  EngineOptions options = EagleOptions(2, "block");
  options.draft_model.clear();
  ExpectRefused(options, "speculate",
                "--speculate block needs a head that guesses; name it with --draft-model");
  options = EagleOptions(5, "block");
  options.draft_model = DraftFolder("speculators_peagle");
  ExpectRefused(options, "speculate-tokens",
                "--speculate-tokens 5 is above the 4 that the head of --draft-model");
}

// Heads in the format of speculators draft as those in formats of their own.
TEST(EagleOpen, HeadsOfSpeculatorsWork) {
  const Request request = TinyRequest(RandomPrompt(9, 73), 20);
  const auto plain = Ask(*OpenTiny(EagleOptions(0)), request);
  for (const char* const head : {"speculators_eagle", "speculators_eagle_norms", "eagle1_norms",
                                 "speculators_eagle3", "speculators_peagle"}) {
    EngineOptions options = EagleOptions(3, head);
    options.speculate = "auto";
    const auto with = Ask(*OpenTiny(options), request);
    EXPECT_TRUE(Of(*with) == Of(*plain)) << head;
    EXPECT_GT(with->usage.accepted_tokens + with->usage.rejected_tokens, 0) << head;
  }
}

TEST(EagleOpen, WhatTheFirstFormCannotDoIsRefused) {
  ExpectRefused(Beside("llama", "eagle1"), "draft-model", "its vocabulary has 128 tokens, not 320");
  ExpectRefused(Beside("qwen3_fp8_block", "eagle1"), "draft-model",
                "hidden states of 64 numbers, not 160");
  ExpectRefused(Beside("granite", "eagle1"), "draft-model", "whose logits are scaled");
  ExpectRefused(Beside("qwen3_next", "eagle1"), "draft-model",
                "--speculate eagle works with models of attention alone");
  ExpectRefused(Beside("mistral", "eagle1"), "draft-model", "--speculate eagle needs a model with");
}

// It reads what any final norm gives, and guesses by any output matrix.
TEST(EagleOpen, TheFirstFormWorksBesideModelsOfOtherForms) {
  for (const char* const model : {"gemma2", "olmo2", "phi2", "mixtral", "deepseek_v2"}) {
    EngineOptions options = Beside(model, "eagle1_own");
    options.kv_memory = "8MiB";
    const Request request = TinyRequest(RandomPrompt(9, 72), 20);
    const auto with = Ask(*OpenTiny(options), request);
    options.speculate = "none";
    options.draft_model.clear();
    EXPECT_TRUE(Of(*with) == Of(*Ask(*OpenTiny(options), request))) << model;
    EXPECT_GT(with->usage.accepted_tokens + with->usage.rejected_tokens, 0) << model;
  }
}

// Of a block as long as its guesses take one pass, whose tokens may be more than a step's.
TEST(EagleOpen, ABlockMayHaveMoreTokensThanAStep) {
  EngineOptions options = EagleOptions(8, "block");
  options.max_num_seqs = 16;
  options.max_batch_tokens = 48;  // a block is 112
  const auto engine = OpenTiny(options);
  std::vector<std::shared_ptr<Answer>> answers;
  for (uint32_t i = 0; i < 16; ++i) {
    auto [answer, sink] = Answer::Make();
    ASSERT_TRUE(engine->Submit(TinyRequest(RandomPrompt(1, 80 + i), 24), sink).ok());
    answers.push_back(answer);
  }
  const auto plain = OpenTiny(EagleOptions(0));
  for (uint32_t i = 0; i < 16; ++i) {
    answers[i]->Wait();
    const auto alone = Ask(*plain, TinyRequest(RandomPrompt(1, 80 + i), 24));
    EXPECT_TRUE(Of(*answers[i]) == Of(*alone)) << i;
  }
  EXPECT_GT(Accepted(*engine), 20);
}

// Files of a head of the first form whose config.json says something else of them.
TEST(EagleOpen, FilesThatDoNotFitTogetherAreNamed) {
  struct Case {
    const char *key, *said;
    int value;
  };
  for (const Case& c :
       {Case{"vocab_size", "its vocabulary has 100 tokens, not 128", 100},
        {"hidden_size", "hidden states of 32 numbers, not 64", 32},
        {"intermediate_size",
         "tensor \"layers.0.mlp.gate_proj.weight\" has shape [96, 64] but the model's config asks "
         "for [80, 64]",
         80},
        {"num_hidden_layers",
         "the model's files have no tensor \"layers.1.input_layernorm.weight\"", 2}}) {
    const files::testing::TempFolder folder;
    std::stringstream text;
    text << std::ifstream(DraftFolder("eagle1") + "/config.json").rdbuf();
    Json config = *ParseJson(text.str(), "config.json");
    config[c.key] = c.value;
    if (config.contains("head_dim")) config["head_dim"] = 16;
    folder.Write("config.json", DumpJson(config));
    std::filesystem::copy_file(DraftFolder("eagle1") + "/model.safetensors",
                               folder.path() + "/model.safetensors");
    EngineOptions options = EagleOptions(2, "eagle1");
    options.draft_model = folder.path();
    const Status status = Engine::Open(options, {}).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(c.said));
    EXPECT_EQ(std::count(status.message().begin(), status.message().end(), '\n'), 0);
  }
}

// Of a head whose file lacks a tensor, that one is named, as the file spells the others.
TEST(EagleOpen, AMissingTensorIsNamedAsTheFileSpellsIt) {
  for (const auto& [head, name] :
       {std::pair("eagle3", "midlayer.mlp.down_proj.weight"),
        std::pair("speculators_eagle3", "layers.0.mlp.down_proj.weight"),
        std::pair("speculators_eagle", "transformer.mlp.down_proj.weight"),
        std::pair("dflash", "layers.0.mlp.down_proj.weight")}) {
    const files::testing::TempFolder folder;
    std::filesystem::copy_file(DraftFolder(head) + "/config.json", folder.path() + "/config.json");
    std::stringstream text;
    text << std::ifstream(DraftFolder(head) + "/model.safetensors", std::ios::binary).rdbuf();
    std::string bytes = text.str();
    const size_t at = bytes.find(name);
    ASSERT_NE(at, std::string::npos) << head;
    bytes[at + std::string_view(name).size() - 1] = '_';
    std::ofstream(folder.path() + "/model.safetensors", std::ios::binary) << bytes;
    EngineOptions options = EagleOptions(2);
    options.speculate = "auto";
    options.draft_model = folder.path();
    const Status status = Engine::Open(options, {}).status();
    EXPECT_FALSE(status.ok()) << head;
    EXPECT_THAT(status.message(), HasSubstr(std::string("no tensor \"") + name + "\"")) << head;
  }
}

}  // namespace
}  // namespace sluice::engine
