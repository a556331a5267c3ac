// Drafts that are taken by lot, for load tests: as many as are asked for, from drafts of the host
// and of the device, and every answer says so.
#include <cmath>

#include "base/source_dir_fixture.h"
#include "engine/device_drafts_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

EngineOptions SyntheticOptions(const std::string& proposer, double share) {
  EngineOptions options = TinyOptions(proposer == "ngram" ? "qwen3" : "mimo");
  options.speculate = proposer;
  options.speculate_tokens = 3;
  options.speculate_adapt = false;
  options.speculate_synthetic = share;
  options.draft_wait_us = 10'000'000;
  return options;
}

// Each draft is tried once all before it in its step were taken, so of the tries as many are taken
// as were asked for, but for what is right by itself.
TEST(Synthetic, TheShareThatIsAskedForIsTaken) {
  for (const char* const proposer : {"ngram", "mtp"}) {
    for (const double share : {0.3, 0.7, 1.0}) {
      const auto engine = OpenTiny(SyntheticOptions(proposer, share));
      double accepted = 0, rejected = 0;
      for (int i = 0; i < 20; ++i) {
        std::vector<int32_t> prompt = {20, 33, 46, 20, 33, 46, 20 + i, 33};
        Request request = TinyRequest(std::move(prompt), 60);
        request.sampling.temperature = 1.0;
        request.sampling.seed = 900 + i;
        const auto answer = Ask(*engine, request);
        ASSERT_TRUE(answer->error.ok()) << answer->error.message();
        EXPECT_EQ(answer->usage.synthetic_acceptance, share);
        EXPECT_EQ(answer->usage.completion_tokens, 60);
        accepted += answer->usage.accepted_tokens;
        rejected += answer->usage.rejected_tokens;
      }
      ExpectNothingLeft(*engine);
      // Of three drafts share + share^2 + share^3 are taken.
      const double expected = (share + share * share + share * share * share) / 3;
      EXPECT_GE(accepted / (accepted + rejected), expected - 0.12) << proposer << " " << share;
      if (share == 1.0) {
        // But for those behind the end of an answer.
        EXPECT_LT(rejected, 20 * 3) << proposer;
      }
      if (proposer == std::string("ngram")) {
        EXPECT_LE(accepted / (accepted + rejected), expected + 0.12) << share;
      }
    }
  }
}

TEST(Synthetic, TheSameSeedGivesTheSameText) {
  const auto one = OpenTiny(SyntheticOptions("mtp", 0.5)),
             other = OpenTiny(SyntheticOptions("mtp", 0.5));
  Request request = TinyRequest(RandomPrompt(5, 3), 40);
  request.sampling.temperature = 1.0;
  request.sampling.seed = 4;
  EXPECT_EQ(Ask(*one, request)->choices[0].ids, Ask(*other, request)->choices[0].ids);
}

TEST(Synthetic, WithoutDraftsItIsRefused) {
  EngineOptions options = SyntheticOptions("ngram", 0.5);
  options.speculate = "none";
  const Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.field(), "speculate-synthetic");
  EXPECT_THAT(status.message(), HasSubstr("takes a share of drafts, and there are none"));
}

TEST(Synthetic, OthersDoNotSpeakOfIt) {
  const auto engine = OpenTiny(SyntheticOptions("ngram", 0.0));
  EXPECT_EQ(Ask(*engine, TinyRequest({20, 33}, 4))->usage.synthetic_acceptance, 0.0);
}

// Heads without files guess at random, so a lot alone says which drafts count.
TEST(Synthetic, HeadsWithoutFilesDraft) {
  for (const char* const head : {"eagle", "eagle3", "eagle3:48", "block", "dflash"}) {
    EngineOptions options = TinyOptions();
    options.model = SourceDir() + "/tests/golden/drafts/target";
    options.speculate = "none";
    Request request = TinyRequest(RandomPrompt(9, 5), 40);
    const auto expected = Of(*Ask(*OpenTiny(options), request));
    options.speculate = "auto";
    options.draft_model = std::string("synthetic:") + head;
    options.speculate_tokens = 3;
    options.speculate_adapt = false;
    EXPECT_TRUE(Of(*Ask(*OpenTiny(options), request)) == expected) << head;
    options.speculate_synthetic = 1.0;
    const Usage usage = Ask(*OpenTiny(options), request)->usage;
    EXPECT_EQ(usage.completion_tokens, 40) << head;
    EXPECT_GE(usage.accepted_tokens, 25) << head;
  }
}

}  // namespace
}  // namespace sluice::engine
