// Drafts that are verified by rejection, in an engine: greedy answers are those without drafts,
// sampled ones have their distribution, a seed gives the same answer again, and more drafts count
// than where a draft has to be what is drawn.
#include <cmath>

#include "base/source_dir_fixture.h"
#include "engine/device_drafts_fixture.h"

namespace sluice::engine {
namespace {

// The head guesses 112 of 128 tokens.
EngineOptions VerifiedEagle(const std::string& verify) {
  EngineOptions options = TinyOptions();
  options.model = DraftFolder("target");
  options.speculate = "eagle3";
  options.draft_model = DraftFolder("eagle3");
  options.speculate_tokens = 3;
  options.speculate_adapt = false;  // what pays is a matter of time
  options.max_queue = 4096;
  options.speculate_verify = verify;
  return options;
}

EngineOptions Block(const std::string& head = "block") {
  EngineOptions options = VerifiedEagle("rejection");
  options.speculate = "block";
  options.draft_model = DraftFolder(head);
  return options;
}

EngineOptions PlainTarget() {
  EngineOptions options = VerifiedEagle("exact");
  options.speculate = "none";
  options.draft_model.clear();
  return options;
}

EngineOptions Mimo(const std::string& speculate) {
  EngineOptions options = TinyOptions("mimo");
  options.speculate = speculate;
  options.speculate_tokens = 3;
  options.speculate_adapt = false;
  options.speculate_verify = "rejection";
  return options;
}

EngineOptions WithTrees(EngineOptions options) {
  options.speculate_tree = true;
  return options;
}

Request Sampled(uint64_t seed, int tokens) {
  Request request = TinyRequest(RandomPrompt(4, 5), tokens);
  request.sampling.temperature = 1.3;
  request.sampling.seed = seed;
  return request;
}

constexpr int kAnswers = 2400, kPlaces = 4;

// How often each token comes at each place of an answer.
using Counts = std::vector<std::vector<int>>;
Counts Count(Engine& engine) {
  Counts counts(kPlaces, std::vector<int>(128));
  constexpr int kChoices = 8;
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < kAnswers / kChoices; ++i) {
    Request request = Sampled(1 + static_cast<uint64_t>(i), kPlaces);
    request.n = kChoices;
    auto [answer, sink] = Answer::Make();
    const Status status = engine.Submit(std::move(request), sink).status();
    EXPECT_TRUE(status.ok()) << status.message();
    if (status.ok()) answers.push_back(answer);
  }
  for (const auto& answer : answers) {
    answer->Wait();
    for (const auto& [number, choice] : answer->choices) {
      for (int place = 0; place < kPlaces; ++place) ++counts[place][choice.ids[place]];
    }
  }
  return counts;
}

// That two samples of the same size have one distribution: standard deviations of chi-square's cube
// root, which is nearly normal (Wilson and Hilferty).
double Deviations(const std::vector<int>& a, const std::vector<int>& b) {
  double sum = 0.0, rest_a = 0.0, rest_b = 0.0;
  int cells = 0;
  const auto cell = [&](double x, double y) {
    sum += (x - y) * (x - y) / (x + y);
    ++cells;
  };
  for (size_t id = 0; id < a.size(); ++id) {
    if (a[id] + b[id] >= 10) {
      cell(a[id], b[id]);
    } else {
      rest_a += a[id];
      rest_b += b[id];
    }
  }
  if (rest_a + rest_b >= 10.0) cell(rest_a, rest_b);
  const double freedom = std::max(1, cells - 1), share = 2.0 / (9.0 * freedom);
  return (std::cbrt(sum / freedom) - (1.0 - share)) / std::sqrt(share);
}

TEST(RejectionInEngines, AnswersHaveTheDistributionOfThoseWithoutDrafts) {
  const auto plain = OpenTiny(PlainTarget());
  const Counts without = Count(*plain);
  for (const EngineOptions& options : {VerifiedEagle("rejection"), Block(), Block("dflash"),
                                       WithTrees(VerifiedEagle("rejection")), WithTrees(Block())}) {
    const auto rejecting = OpenTiny(options);
    const Counts with = Count(*rejecting);
    EXPECT_GT(Accepted(*rejecting), 0.2 * kAnswers) << "the test shows little";
    for (int place = 0; place < kPlaces; ++place)
      EXPECT_LT(Deviations(without[place], with[place]), 3.1)
          << options.draft_model << " " << place;
  }
  EXPECT_GT(Deviations(without[0], without[2]), 10.0) << "the test tells nothing apart";
}

TEST(RejectionInEngines, MoreDraftsCountThanThoseThatAreWhatIsDrawn) {
  std::map<std::string, double> shares;
  for (const char* verify : {"exact", "rejection"}) {
    const auto engine = OpenTiny(VerifiedEagle(verify));
    int accepted = 0, rejected = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const Usage usage = Ask(*engine, Sampled(seed, 20))->usage;
      accepted += usage.accepted_tokens;
      rejected += usage.rejected_tokens;
    }
    shares[verify] = double(accepted) / (accepted + rejected);
  }
  EXPECT_GT(shares["rejection"], shares["exact"] + 0.05);
}

TEST(RejectionInEngines, ASeedGivesTheSameAnswerAgain) {
  for (const EngineOptions& options : {VerifiedEagle("rejection"), Block(), Mimo("mtp")}) {
    const auto first = OpenTiny(options), second = OpenTiny(options);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const auto a = Ask(*first, Sampled(seed, 30)), b = Ask(*second, Sampled(seed, 30));
      EXPECT_EQ(a->choices, b->choices) << options.speculate;
      EXPECT_EQ(a->choices.at(0).ids.size(), 30u);
    }
  }
}

// Which of them come in time is chance, and so is the answer.
TEST(RejectionInEngines, DraftsOfTheHostAreTakenToo) {
  const auto engine = OpenTiny(Mimo("ngram"));
  Request request = Sampled(1, 60);
  request.sampling.temperature = 0.3;
  EXPECT_EQ(Ask(*engine, request)->choices.at(0).ids.size(), 60u);
}

// Whatever they ask, greedy answers are those without drafts, and others are as long.
class RejectingEngine : public DeviceDraftsTest {
 protected:
  RejectingEngine() : DeviceDraftsTest(PlainTarget()) {}
};
TEST_F(RejectingEngine, TakesRequestsOfEveryKind) {
  for (const bool other : {false, true}) {
    EngineOptions options = VerifiedEagle("rejection");
    options.prefix_cache = other;
    options.speculate_tree = other;
    const auto engine = OpenTiny(options);
    std::vector<std::shared_ptr<Answer>> answers;
    for (Request& request : Requests()) {
      auto [answer, sink] = Answer::Make();
      ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
      answers.push_back(answer);
    }
    const std::vector<Request> requests = Requests();
    for (size_t i = 0; i < answers.size(); ++i) {
      answers[i]->Wait();
      const Expected got = Of(*answers[i]);
      EXPECT_EQ(got.prompt, expected_[i].prompt) << i;
      if (requests[i].sampling.temperature == 0.0) {
        EXPECT_TRUE(got == expected_[i]) << i;
      } else {
        EXPECT_EQ(got.choices.size(), expected_[i].choices.size()) << i;
      }
    }
    ExpectNothingLeft(*engine);
  }
}

// What drafts were drawn from takes memory: of three guesses of eight sequences.
TEST(RejectionInEngines, ItsMemoryIsPlanned) {
  EngineOptions options = VerifiedEagle("exact");
  options.kv_memory.clear();
  options.max_model_len = 0;
  EXPECT_TRUE(OpenTiny(options) != nullptr);
  options.speculate_verify = "rejection";
  EXPECT_TRUE(OpenTiny(options) != nullptr);
  options.speculate_verify = "typical";
  EXPECT_EQ(Engine::Open(options, {}).status().field(), "speculate-verify");
}

TEST(RejectionInEngines, UsageTellsOfIt) {
  const auto rejecting = OpenTiny(VerifiedEagle("rejection")),
             exact = OpenTiny(VerifiedEagle("exact"));
  EXPECT_TRUE(Ask(*rejecting, Sampled(1, 4))->usage.verified_by_rejection);
  EXPECT_FALSE(Ask(*exact, Sampled(1, 4))->usage.verified_by_rejection);
  EngineOptions none = PlainTarget();
  none.speculate_verify = "rejection";
  EXPECT_FALSE(Ask(*OpenTiny(none), Sampled(1, 4))->usage.verified_by_rejection);
  // An answer that has no drafts.
  Request request = Sampled(1, 4);
  request.all_logprobs = Distribution::kRaw;
  EXPECT_FALSE(Ask(*rejecting, request)->usage.verified_by_rejection);
}

}  // namespace
}  // namespace sluice::engine
