// Trees of what heads and a second model guess: requests of every kind get the answers that they
// get without, whichever branch was right, and of as many drafts more are right than of chains.
#include <cstdio>
#include <string_view>

#include "base/source_dir_fixture.h"
#include "engine/device_drafts_fixture.h"

namespace sluice::engine {
namespace {

// `head`: of a folder, or "mtp", or "model", which is the model itself.
EngineOptions TreeOptions(const std::string& head, int drafts) {
  EngineOptions options = TinyOptions(head == "mtp" ? "mimo" : "llama");
  if (head == "mtp" || head == "model") {
    options.speculate = head;
    if (head == "model") options.draft_model = options.model;
  } else {
    options.model = DraftFolder("target");
    options.speculate = head.substr(0, head.find('_'));
    if (options.speculate == "eagle1") options.speculate = "eagle";
    if (options.speculate == "dflash") options.speculate = "block";
    options.draft_model = DraftFolder(head);
  }
  options.speculate_tokens = drafts;
  options.speculate_tree = true;
  options.speculate_adapt = false;  // what pays is a matter of time
  return options;
}

EngineOptions Without(EngineOptions options) {
  options.speculate = "none";
  options.draft_model.clear();
  options.speculate_tree = false;
  return options;
}

class HeadTrees : public DeviceDraftsTest, public ::testing::WithParamInterface<const char*> {
 protected:
  HeadTrees() : DeviceDraftsTest(Without(TreeOptions(GetParam(), 3))) {}
};
INSTANTIATE_TEST_SUITE_P(All, HeadTrees,
                         ::testing::Values("mtp", "eagle3", "eagle1", "block", "dflash", "model"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(HeadTrees, RequestsOfEveryKindGetTheSameAnswer) {
  for (const int drafts : {1, 4, 8}) {
    const auto engine = OpenTiny(TreeOptions(GetParam(), drafts));
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 20) << drafts;
    if (drafts > 1) {
      EXPECT_GT(Metric(*engine, "sluice_aside_accepted_tokens_total"), 3) << drafts;
    }
    EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  }
}

TEST_P(HeadTrees, AsManyAsPayChangeNothing) { ExpectSameAsManyAsPay(TreeOptions(GetParam(), 8)); }

TEST_P(HeadTrees, ChunksChangeNothing) {
  for (const int tokens : {12, 19}) {
    EngineOptions options = TreeOptions(GetParam(), 3);
    options.max_batch_tokens = tokens;
    const auto engine = OpenTiny(options);
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 3) << tokens;
  }
}

TEST_P(HeadTrees, PreemptionChangesNothing) {
  EngineOptions options = TreeOptions(GetParam(), 4);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const std::string tight = std::to_string(OpenTiny(options)->Info().kv_bytes * 5 / 4) + "B";
  options = TreeOptions(GetParam(), 4);
  options.kv_memory = tight;
  const auto engine = OpenTiny(options);
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:num_preemptions_total"), 0) << "the test shows nothing";
}

// Of sampled answers: what is likeliest comes seldom enough that the next ones do, too.
double TokensOfAStep(const EngineOptions& options) {
  const auto engine = OpenTiny(options);
  int64_t accepted = 0, tokens = 0;
  for (int i = 0; i < 80; ++i) {
    Request request = TinyRequest(RandomPrompt(2 + i % 5, 70 + i), 18);
    request.sampling.temperature = 1.0;
    request.sampling.seed = 100 + i;
    const Usage usage = Ask(*engine, request)->usage;
    accepted += usage.accepted_tokens;
    tokens += usage.completion_tokens;
  }
  return static_cast<double>(tokens) / static_cast<double>(tokens - accepted);
}

// The head of mimo is so sure of its first guess that a second one comes as seldom as what it
// costs, the drafts that the next step has less: it loses nothing by it.
TEST(HeadTreesTest, HoldMoreOfWhatIsDrawnThanChainsOfAsMany) {
  for (const char* const head : {"mtp", "eagle3", "eagle1", "block"}) {
    EngineOptions options = TreeOptions(head, 8);
    const double tree = TokensOfAStep(options);
    options.speculate_tree = false;
    const double chain = TokensOfAStep(options);
    std::printf("%s: %.3f tokens in a step with trees, %.3f with chains\n", head, tree, chain);
    const bool sure = std::string_view(head) == "mtp";
    EXPECT_GT(tree, (sure ? 0.99 : 1.0) * chain) << head;
  }
}

}  // namespace
}  // namespace sluice::engine
