// Drafts of a head in the checkpoint: requests of every kind get the answers that they get without,
// beside others, in any chunks, from the prefix cache and through preemption, and most drafts of a
// head that has learned what its model draws are right.
#include <algorithm>

#include "base/source_dir_fixture.h"
#include "engine/device_drafts_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

EngineOptions MtpOptions(int drafts) {
  EngineOptions options = TinyOptions("mimo");
  options.speculate = drafts > 0 ? "mtp" : "none";
  options.speculate_tokens = std::max(1, drafts);
  options.speculate_adapt = false;  // what pays is a matter of time
  return options;
}

class Mtp : public DeviceDraftsTest {
 protected:
  Mtp() : DeviceDraftsTest(MtpOptions(0)) {}
};

TEST_F(Mtp, RequestsOfEveryKindGetTheSameAnswer) {
  for (const int drafts : {1, 3, 8}) {
    const auto engine = OpenTiny(MtpOptions(drafts));
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 50) << drafts;
    EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  }
}

TEST_F(Mtp, AsManyAsPayChangeNothing) { ExpectSameAsManyAsPay(MtpOptions(8)); }

TEST_F(Mtp, ChunksChangeNothing) { ExpectSameInChunks(MtpOptions(3)); }

TEST_F(Mtp, PreemptionChangesNothing) {
  EngineOptions options = MtpOptions(3);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const std::string tight = std::to_string(OpenTiny(options)->Info().kv_bytes * 5 / 4) + "B";
  options = MtpOptions(3);
  options.kv_memory = tight;
  const auto engine = OpenTiny(options);
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:num_preemptions_total"), 0) << "the test shows nothing";
  EXPECT_GT(Accepted(*engine), 10);
}

// Chance would be one in 128; a head that reads the states of the position before gets a third. The
// head has learned from texts of 24 tokens.
TEST_F(Mtp, MostDraftsAreRight) {
  const auto engine = OpenTiny(MtpOptions(2));
  int accepted = 0, rejected = 0, tokens = 0;
  for (int i = 0; i < 40; ++i) {
    Request request = TinyRequest(RandomPrompt(2 + i % 5, 70 + i), 18);
    const Usage usage = Ask(*engine, request)->usage;
    accepted += usage.accepted_tokens;
    rejected += usage.rejected_tokens;
    tokens += usage.completion_tokens;
  }
  Settle(*engine);
  EXPECT_GT(accepted, 0.7 * (accepted + rejected)) << accepted << " of " << accepted + rejected;
  EXPECT_GT(accepted, tokens / 2);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_accepted_tokens_total"), accepted);
  EXPECT_EQ(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"), accepted + rejected);
}

// The same model with a second head, for the draft behind the first one's.
EngineOptions TwoHeads(int drafts) {
  EngineOptions options = MtpOptions(drafts);
  options.model = SourceDir() + "/tests/golden/drafts/mimo_heads";
  return options;
}

TEST_F(Mtp, SeveralHeadsChangeNothing) {
  for (const int drafts : {1, 2, 5}) {
    const auto engine = OpenTiny(TwoHeads(drafts));
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 50) << drafts;
  }
  ExpectSameInChunks(TwoHeads(3));
  ExpectSameAsManyAsPay(TwoHeads(8));
}

// The second head was taught the second token; that of the first alone is right more seldom.
TEST_F(Mtp, MostDraftsOfSeveralHeadsAreRight) {
  const auto engine = OpenTiny(TwoHeads(2));
  int accepted = 0, rejected = 0;
  for (int i = 0; i < 40; ++i) {
    Request request = TinyRequest(RandomPrompt(2 + i % 5, 70 + i), 18);
    const Usage usage = Ask(*engine, request)->usage;
    accepted += usage.accepted_tokens;
    rejected += usage.rejected_tokens;
  }
  EXPECT_GT(accepted, 0.7 * (accepted + rejected)) << accepted << " of " << accepted + rejected;
}

// A head more than there are drafts would be of no use.
TEST(MtpOpen, AsManyHeadsAreLoadedAsThereAreDrafts) {
  const int64_t one = OpenTiny(TwoHeads(1))->Info().weight_bytes;
  EXPECT_EQ(one, OpenTiny(MtpOptions(1))->Info().weight_bytes);
  EXPECT_GT(OpenTiny(TwoHeads(2))->Info().weight_bytes, one + 50'000);
}

TEST(MtpOpen, HeadsThatAreNotThereAreNamed) {
  EngineOptions options = TinyOptions("qwen2");
  options.speculate = "mtp";
  const Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "speculate");
  EXPECT_THAT(status.message(), HasSubstr("has none; leave --speculate out or choose ngram"));
}

TEST(MtpOpen, AutoTakesTheHeadThatIsThere) {
  EngineOptions options = MtpOptions(2);
  options.speculate = "auto";
  const auto engine = OpenTiny(options);
  Request request = TinyRequest(RandomPrompt(5, 71), 18);
  EXPECT_GT(Ask(*engine, request)->usage.accepted_tokens, 0);
  EXPECT_EQ(engine->Info().weight_bytes, OpenTiny(MtpOptions(2))->Info().weight_bytes);
}

TEST(MtpOpen, AutoIsContentWithoutMemoryForTheHead) {
  EngineOptions options = MtpOptions(0);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const int64_t without = OpenTiny(options)->Info().kv_bytes;
  options.speculate = "auto";
  options.kv_memory = std::to_string(without);
  const auto engine = OpenTiny(options);
  EXPECT_EQ(engine->Info().max_model_len, options.max_model_len);
  EXPECT_EQ(engine->Info().weight_bytes, OpenTiny(MtpOptions(0))->Info().weight_bytes);
}

TEST(MtpOpen, HeadsTakeMemoryOnlyWhereTheyAreAskedFor) {
  const EngineInfo with = OpenTiny(MtpOptions(2))->Info(),
                   without = OpenTiny(MtpOptions(0))->Info();
  EXPECT_GT(with.weight_bytes, without.weight_bytes + 50'000);
}

}  // namespace
}  // namespace sluice::engine
