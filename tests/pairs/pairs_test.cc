// Every pair of features on a tiny checkpoint, with drafts and without: the answer is the one that
// the features which change answers give without the others, and each keeps its own promise.
#include <algorithm>
#include <atomic>
#include <bit>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/source_dir_fixture.h"
#include "base/str_cat.h"
#include "features.h"

namespace sluice::pairs {
namespace {

constexpr int kRounds = 2;  // the second finds prefixes

std::string device = "cpu";  // as --device names it; set once, by main

using FeatureSet = std::vector<const Feature*>;

std::string NameOf(const FeatureSet& set) {
  std::string name;
  for (const Feature* feature : set) name += StrCat(name.empty() ? "" : " + ", feature->name);
  return name.empty() ? "nothing" : name;
}

// Those that an engine is opened with, in the order of the table.
FeatureSet EngineFeatures(const FeatureSet& set) {
  FeatureSet of_engine;
  for (const Feature* feature : set) {
    if (feature->engine) of_engine.push_back(feature);
  }
  std::sort(of_engine.begin(), of_engine.end());
  return of_engine;
}

Request With(const FeatureSet& set, Request request) {
  for (const Feature* feature : set) {
    if (feature->request) feature->request(request);
  }
  return request;
}

// Runs all requests with the features; the engine of the run before is used again where it is the
// same.
class Runs {
 public:
  Outcome Run(const FeatureSet& set) {
    Outcome outcome;
    outcome.refused = Open(set);
    if (!outcome.refused.ok()) return outcome;
    const Outcome before = Count();
    for (int round = 0; round < kRounds; ++round) AskAll(set, &outcome);
    const Outcome after = Count();
    engine::ExpectNothingLeft(*engine_);
    outcome.preempted = after.preempted - before.preempted;
    outcome.hits = after.hits - before.hits;
    outcome.accepted = after.accepted - before.accepted;
    outcome.steps = after.steps - before.steps;
    outcome.moved = after.moved - before.moved;
    for (const auto& answer : outcome.answers) {
      if (outcome.refused.ok()) outcome.refused = answer->error;
    }
    return outcome;
  }

 private:
  Status Open(const FeatureSet& set) {
    const FeatureSet of_engine = EngineFeatures(set);
    if (engine_ && of_engine == open_) return OkStatus();
    engine_.reset();
    EngineOptions options = PlainOptions();
    options.device = device;
    for (const Feature* feature : of_engine) feature->engine(options);
    auto engine = Engine::Open(options, {});
    if (!engine.ok()) return engine.status();
    engine_ = std::move(engine).value();
    open_ = of_engine;
    return OkStatus();
  }

  void AskAll(const FeatureSet& set, Outcome* outcome) {
    const bool cancels = std::any_of(set.begin(), set.end(),
                                     [](const Feature* feature) { return feature->cancels; });
    outcome->answers.clear();
    outcome->cancelled.clear();
    bool at_once = false;
    for (const Request& plain : PlainRequests()) {
      outcome->answers.push_back(Ask(set, plain, nullptr).first);
      if (!cancels) continue;
      const auto begun = std::make_shared<std::atomic<bool>>(false);
      const auto [answer, id] = Ask(set, plain, begun);
      // Before it begins, or once it has.
      at_once = !at_once;
      if (id != 0 && !at_once) begun->wait(false);
      if (id != 0) engine_->Cancel(id);
      outcome->cancelled.push_back(answer);
    }
    for (const auto& answer : outcome->answers) answer->Wait();
    for (const auto& answer : outcome->cancelled) answer->Wait();
  }

  // Of a request that is refused the answer is an error, and the id 0. `begun` may be null.
  std::pair<std::shared_ptr<engine::Answer>, RequestId> Ask(
      const FeatureSet& set, const Request& plain, std::shared_ptr<std::atomic<bool>> begun) {
    auto [answer, take] = engine::Answer::Make();
    const auto sink = [take = take, begun = std::move(begun)](TextDelta&& delta) {
      take(std::move(delta));
      if (begun == nullptr) return;
      begun->store(true);
      begun->notify_all();
    };
    const auto id = engine_->Submit(With(set, plain), sink);
    if (!id.ok()) answer->error = id.status(), answer->lasts = 1;
    return {answer, id.ok() ? *id : 0};
  }

  Outcome Count() const {
    Outcome counts;
    counts.preempted = engine::Metric(*engine_, "vllm:num_preemptions_total");
    counts.hits = engine::Metric(*engine_, "vllm:prefix_cache_hits_total");
    counts.accepted =
        std::max(0.0, engine::Metric(*engine_, "vllm:spec_decode_num_accepted_tokens_total"));
    counts.steps = static_cast<double>(engine_->Info().steps);
    counts.moved = std::max(0.0, engine::Metric(*engine_, "sluice_expert_migrations_total"));
    return counts;
  }

  std::unique_ptr<Engine> engine_;
  FeatureSet open_;
};

// What each log-prob of both is, to the bit.
bool SameLogprobs(const Choice& a, const Choice& b) {
  return a.logprobs.empty() || b.logprobs.empty() ||
         std::equal(a.logprobs.begin(), a.logprobs.end(), b.logprobs.begin(), b.logprobs.end(),
                    [](double x, double y) {
                      return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
                    });
}

bool SameAnswer(const Choice& a, const Choice& b) {
  return a.ids == b.ids && a.text == b.text && a.finish == b.finish &&
         a.stop_match == b.stop_match && SameLogprobs(a, b);
}

// The first choice that both have differs, or some answer lacks it.
bool SameAnswers(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.answers.size(); ++i) {
    if (!SameAnswer(a.answers[i]->choices[0], b.answers[i]->choices[0])) return false;
  }
  return true;
}

// An answer that was cancelled says nothing else than its twin, as far as it says something.
bool IsBeginning(const engine::Answer& part, const engine::Answer& whole) {
  return std::all_of(part.choices.begin(), part.choices.end(), [&](const auto& choice) {
    const auto twin = whole.choices.find(choice.first);
    const std::vector<int32_t>& ids = choice.second.ids;
    return ids.empty() || (twin != whole.choices.end() && ids.size() <= twin->second.ids.size() &&
                           std::equal(ids.begin(), ids.end(), twin->second.ids.begin()));
  });
}

const Feature& Named(std::string_view name) {
  const auto found = std::find_if(Features().begin(), Features().end(),
                                  [&](const Feature& f) { return f.name == name; });
  CHECK(found != Features().end(), name);
  return *found;
}

class Pairs : public ::testing::Test {
 protected:
  // What only the features give that change answers.
  const Outcome& Expected(const FeatureSet& set) {
    FeatureSet shaping;
    for (const Feature* feature : set) {
      if (!feature->same_answer) shaping.push_back(feature);
    }
    const std::string key = NameOf(shaping);
    const auto known = expected_.find(key);
    if (known != expected_.end()) return known->second;
    return expected_[key] = plain_runs_.Run(shaping);
  }

  void Try(const FeatureSet& set) {
    SCOPED_TRACE(NameOf(set));
    const Outcome outcome = runs_.Run(set);
    ASSERT_TRUE(outcome.refused.ok()) << outcome.refused.message();
    const Outcome& expected = Expected(set);
    ASSERT_TRUE(expected.refused.ok()) << expected.refused.message();
    EXPECT_TRUE(SameAnswers(outcome, expected));
    for (size_t i = 0; i < outcome.cancelled.size(); ++i) {
      EXPECT_TRUE(IsBeginning(*outcome.cancelled[i], *outcome.answers[i])) << "twin " << i;
    }
    const std::vector<Request> requests = PlainRequests();
    for (size_t i = 0; i < requests.size(); ++i) {
      const Request request = With(set, requests[i]);
      EXPECT_EQ(outcome.answers[i]->choices.size(), static_cast<size_t>(request.n));
      for (const auto& [index, choice] : outcome.answers[i]->choices) {
        for (const Feature* feature : set) {
          if (!feature->check) continue;
          EXPECT_EQ(feature->check(request, choice), "")
              << feature->name << ", answer " << i << ", choice " << index << ": " << choice.text;
        }
      }
    }
  }

  Runs runs_, plain_runs_;
  std::map<std::string, Outcome> expected_;
};

bool Refused(const Feature& a, const Feature& b) {
  return std::any_of(a.refused.begin(), a.refused.end(),
                     [&](const auto& other) { return other.first == b.name; });
}

// Whether an engine can have both.
bool GoTogether(const Feature& a, const Feature& b) {
  const auto apart = [](const Feature& one, const Feature& other) {
    return &one != &other && !one.place.empty() && one.place == other.place;
  };
  const auto lacks = [&](const Feature& one, const Feature& other) {
    if (one.needs.empty()) return false;
    const Feature& needed = Named(one.needs);
    return apart(needed, other) || (!other.needs.empty() && apart(needed, Named(other.needs)));
  };
  return !apart(a, b) && !lacks(a, b) && !lacks(b, a) && !Refused(a, b) && !Refused(b, a);
}

// With what the features need, which comes first.
FeatureSet Whole(FeatureSet set) {
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i]->needs.empty()) continue;
    const Feature& needed = Named(set[i]->needs);
    if (std::find(set.begin(), set.end(), &needed) == set.end()) set.insert(set.begin(), &needed);
  }
  return set;
}

TEST_F(Pairs, EachFeatureAloneDoesSomething) {
  const Outcome plain = plain_runs_.Run({});
  for (const Feature& feature : Features()) {
    SCOPED_TRACE(feature.name);
    const Outcome with = runs_.Run(Whole({&feature}));
    ASSERT_TRUE(with.refused.ok()) << with.refused.message();
    EXPECT_TRUE(feature.shown ? feature.shown(with, plain) : !SameAnswers(with, plain));
  }
}

// Each pair, each feature alone among them, with drafts and without. Those of one engine stand side
// by side, for opening one takes longer than answering by it.
std::vector<FeatureSet> EachPair() {
  const Feature& drafts = Named(kDrafts);
  const std::vector<Feature>& features = Features();
  std::vector<FeatureSet> sets;
  for (size_t a = 0; a < features.size(); ++a) {
    for (size_t b = a; b < features.size(); ++b) {
      if (!GoTogether(features[a], features[b])) continue;
      FeatureSet set = {&features[a]};
      if (a != b) set.push_back(&features[b]);
      sets.push_back(set = Whole(set));
      if (features[a].place == drafts.place || features[b].place == drafts.place) continue;
      set.push_back(&drafts);
      sets.push_back(set);
    }
  }
  std::stable_sort(sets.begin(), sets.end(), [](const FeatureSet& a, const FeatureSet& b) {
    return EngineFeatures(a) < EngineFeatures(b);
  });
  return sets;
}

TEST_F(Pairs, AnswerAsTheyShould) {
  for (const FeatureSet& set : EachPair()) Try(set);
}

TEST_F(Pairs, OnesThatCannotWorkAreRefusedWithASentence) {
  for (const Feature& feature : Features()) {
    for (const auto& [other, sentence] : feature.refused) {
      SCOPED_TRACE(StrCat(other, " + ", feature.name));
      for (FeatureSet set : {FeatureSet{&Named(other), &feature},
                             FeatureSet{&Named(other), &feature, &Named(kDrafts)}}) {
        if (!GoTogether(Named(other), *set.back()) && set.size() > 2) continue;
        if (!GoTogether(feature, *set.back()) && set.size() > 2) continue;
        const Outcome outcome = runs_.Run(set);
        EXPECT_THAT(outcome.refused.message(), ::testing::HasSubstr(sentence));
      }
    }
  }
}

std::string Markdown() {
  const std::vector<Feature>& features = Features();
  std::ostringstream out;
  out << "# Pairs of features\n\n"
         "Each feature of this table with each other, with n-gram drafts and without, as "
         "`tests/pairs` runs\nthem: the answer is the one that is given without those features "
         "that don't change answers, and\neach keeps its own promise. `yes`: tried; `–`: of "
         "one kind, or a model without a head; `no`: refused with a sentence, at start\nor as a "
         "request.\n\n| | "
         "feature | spelling | an answer |\n| --- | "
         "--- "
         "| --- | --- |\n";
  for (size_t i = 0; i < features.size(); ++i) {
    out << "| " << i + 1 << " | " << features[i].name << " | `" << features[i].spelling << "` | "
        << (features[i].same_answer ? "the same" : "another") << " |\n";
  }
  out << "\n| |";
  for (size_t i = 0; i < features.size(); ++i) out << ' ' << i + 1 << " |";
  out << "\n| --- |";
  for (size_t i = 0; i < features.size(); ++i) out << " --- |";
  out << "\n";
  for (size_t a = 0; a < features.size(); ++a) {
    out << "| " << a + 1 << " |";
    for (size_t b = 0; b < features.size(); ++b) {
      const bool refused = Refused(features[a], features[b]) || Refused(features[b], features[a]);
      out << (b < a                                  ? "  |"
              : refused                              ? " no |"
              : GoTogether(features[a], features[b]) ? " yes |"
                                                     : " – |");
    }
    out << "\n";
  }
  return out.str();
}

TEST_F(Pairs, StandInTheDocument) {
  std::ifstream file(SourceDir() + "/docs/pairs.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), Markdown()) << "write it anew: sluice_pairs_test --markdown docs/pairs.md";
}

}  // namespace
}  // namespace sluice::pairs

// Usage: sluice_pairs_test [--device NAME | --markdown FILE] [GoogleTest's flags]
int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  const std::string_view flag = argc == 3 ? argv[1] : "";
  if (flag == "--markdown") {
    std::ofstream(argv[2]) << sluice::pairs::Markdown();
    return 0;
  }
  if (flag == "--device") sluice::pairs::device = argv[2];
  return RUN_ALL_TESTS();
}
