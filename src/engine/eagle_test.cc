// Drafts of a head of EAGLE-3's form: requests of every kind get the answers that they get without,
// beside others, in any chunks, from the prefix cache and through preemption, and most drafts of a
// head that has learned what its model draws are right.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/device_drafts_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

std::string Folder(const std::string& name) {
  return std::string(SLUICE_SOURCE_DIR) + "/tests/golden/drafts/" + name;
}

EngineOptions Options(int drafts, const std::string& head = "eagle3") {
  EngineOptions options = TinyOptions();
  options.model = Folder("target");
  options.speculate = drafts > 0 ? "eagle3" : "none";
  if (drafts > 0) options.draft_model = Folder(head);
  options.speculate_tokens = std::max(1, drafts);
  options.speculate_adapt = false;  // what pays is a matter of time
  return options;
}

class Eagle : public DeviceDraftsTest {
 protected:
  Eagle() : DeviceDraftsTest(Options(0)) {}
};

TEST_F(Eagle, RequestsOfEveryKindGetTheSameAnswer) {
  for (const int drafts : {1, 3, 8}) {
    const auto engine = OpenTiny(Options(drafts));
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 50) << drafts;
    EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  }
}

TEST_F(Eagle, OneThatIsOftenWrongChangesNothing) {
  const auto engine = OpenTiny(Options(3, "eagle3_own"));
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"), 50);
}

TEST_F(Eagle, AsManyAsPayChangeNothing) { ExpectSameAsManyAsPay(Options(8)); }

TEST_F(Eagle, ChunksChangeNothing) { ExpectSameInChunks(Options(3)); }

TEST_F(Eagle, PreemptionChangesNothing) {
  EngineOptions options = Options(3);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const std::string tight = std::to_string(OpenTiny(options)->Info().kv_bytes * 5 / 4) + "B";
  options = Options(3);
  options.kv_memory = tight;
  const auto engine = OpenTiny(options);
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:num_preemptions_total"), 0) << "the test shows nothing";
  EXPECT_GT(Accepted(*engine), 10);
}

// Chance would be one in 128. The head has learned from texts of 24 tokens.
TEST_F(Eagle, MostDraftsAreRight) {
  const auto engine = OpenTiny(Options(2));
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
  EngineOptions options = Options(2);
  options.speculate = "auto";
  const auto engine = OpenTiny(options);
  EXPECT_GT(Ask(*engine, TinyRequest(RandomPrompt(5, 71), 18))->usage.accepted_tokens, 0);
}

TEST(EagleOpen, ItTakesMemoryOfThePlan) {
  EngineOptions options = Options(0);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const EngineInfo without = OpenTiny(options)->Info();
  options = Options(2);
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

void ExpectRefused(const EngineOptions& options, const std::string& field,
                   const std::string& said) {
  const Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.field(), field) << status.message();
  EXPECT_THAT(status.message(), HasSubstr(said));
  EXPECT_EQ(std::count(status.message().begin(), status.message().end(), '\n'), 0);
}

EngineOptions Beside(const std::string& model) {
  EngineOptions options = Options(2);
  options.model = TinyOptions(model).model;
  return options;
}

TEST(EagleOpen, WhatCannotWorkIsRefused) {
  EngineOptions options = Options(2);
  options.draft_model.clear();
  ExpectRefused(options, "speculate", "needs a head that guesses; name it with --draft-model");
  options = Options(2);
  options.speculate = "model";
  ExpectRefused(options, "draft-model", "choose --speculate eagle3");
  options = Options(2);
  options.draft_model = TinyOptions("qwen3").model;
  ExpectRefused(options, "draft-model", "names no head of EAGLE-3's form but \"Qwen3ForCausalLM\"");
  ExpectRefused(Beside("llama"), "draft-model", "its vocabulary has 128 tokens, not 320");
  ExpectRefused(Beside("qwen3"), "draft-model", "it reads layer 3 of 2");
  ExpectRefused(Beside("qwen3_fp8_block"), "draft-model", "hidden states of 64 numbers, not 160");
  ExpectRefused(Beside("gemma3"), "draft-model", "whose layers end in a norm");
  ExpectRefused(Beside("qwen3_next"), "draft-model", "has recurrent layers");
  ExpectRefused(Beside("mistral"), "draft-model", "have windows");
}

}  // namespace
}  // namespace sluice::engine
