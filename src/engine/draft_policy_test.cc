// What drafts gain or cost a server, where what steps take is what was measured: the policy that
// chooses them beside a scheduler, on a device that is a formula.
#include "engine/draft_policy.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>

#include "base/str_cat.h"
#include "schedule/scheduler_fixture.h"

namespace sluice::engine {
namespace {

using schedule::SequenceId;

// Llama 3.1 8B's shape in BF16 on an H200 (bench/results/2026-11-29-h200-drafts.md): products
// compute 128 rows at once, so steps get longer in steps.
double SecondsOf(int64_t tokens) {
  if (tokens <= 64) return 5.7e-3;
  if (tokens <= 128) return 6.9e-3;
  if (tokens <= 256) return 10.9e-3;
  if (tokens <= 512) return 21.2e-3;
  return 21.2e-3 + static_cast<double>(tokens - 512) * 17e-6;
}
// A head of one layer of 32 that guesses by the whole vocabulary.
double SecondsOfHead(int64_t tokens, int guesses) {
  return guesses < 0 ? 0 : SecondsOf(tokens) / 32 + 0.45e-3 * guesses;
}

struct Load {
  int sequences = 256, prompt = 48, answer = 120, rounds = 6;
  double right = 0.8;  // of drafts, where those before them are
};

// A server of that load: all requests of a round arrive together.
class Server {
 public:
  Server(const Load& load, bool drafts) : load_(load), policy_(MakeHead(load, drafts)) {
    schedule::SchedulerOptions options;
    options.max_num_seqs = load.sequences;
    options.max_batch_tokens = 2048;
    options.max_model_len = 1024;
    options.queue_limit = 2 * load.sequences;
    options.max_extra_rows = 1046;
    options.max_draft_tokens = drafts ? kDrafts : 0;
    options.prefix_cache = false;
    const int32_t blocks = load.sequences * (1 + (load.prompt + load.answer + kDrafts) / 16) + 8;
    s_ = schedule::Scheduler::Create(options, {{batch::KvKind::kFull, 16, 16, 0, blocks}}).value();
  }

  // Seconds between two tokens of a request, in the mean over those of a round.
  double Round() {
    std::map<SequenceId, double> began;
    double sum = 0;
    for (int i = 0; i < load_.sequences; ++i) {
      schedule::SequenceSpec spec =
          schedule::Spec(++last_, schedule::Count(load_.prompt), load_.answer);
      if (policy_.head() != nullptr) spec.device_drafts = policy_.head()->ForArrival();
      EXPECT_TRUE(s_->Add(std::move(spec), Now()).ok());
    }
    while (s_->HasWork()) {
      Launch();
      while (flights_.size() > (s_->HasWork() ? 1U : 0U)) {
        const schedule::CommitOutcome& outcome = Finish();
        for (const schedule::SequenceOutcome& out : outcome.sequences) {
          if (out.token_count > 0) began.try_emplace(out.id, now_);
          if (out.finish != schedule::FinishReason::kNone)
            sum += (now_ - began[out.id]) / (load_.answer - 1);
        }
      }
    }
    return sum / load_.sequences;
  }

  int64_t steps = 0, guessing = 0;  // in all, and those that guessed

 private:
  static constexpr int kDrafts = 8;
  struct Flight {
    batch::BatchPlan plan;
    double seconds = 0;
  };

  static std::unique_ptr<HeadDrafts> MakeHead(const Load& load, bool drafts) {
    if (!drafts) return nullptr;
    return std::make_unique<HeadDrafts>(
        HeadDrafts::Options{.slots = load.sequences, .drafts = kDrafts});
  }
  int64_t Now() const { return static_cast<int64_t>(now_ * 1e6); }

  void Launch() {
    Flight flight;
    policy_.BeforePlan(s_.get());
    s_->Plan(Now(), &flight.plan);
    const auto tokens = static_cast<int64_t>(flight.plan.tokens.size());
    const int guesses = policy_.head() == nullptr ? -1 : flight.plan.guesses;
    if (tokens > 0) flight.seconds = SecondsOf(tokens) + SecondsOfHead(tokens, guesses);
    steps += tokens > 0 ? 1 : 0;
    guessing += tokens > 0 && guesses > 0 ? 1 : 0;
    flights_.push_back(std::move(flight));
  }

  const schedule::CommitOutcome& Finish() {
    const Flight flight = std::move(flights_.front());
    flights_.erase(flights_.begin());
    now_ += flight.seconds;
    batch::StepResult result;
    result.step = flight.plan.step;
    for (const batch::PlanEntry& entry : flight.plan.entries) {
      batch::ResultEntry out{.sequence = entry.sequence,
                             .token_begin = static_cast<int32_t>(result.tokens.size())};
      for (int row = 0; row < entry.logits_count; ++row) {
        result.tokens.push_back({.id = schedule::kDrawn});
        ++out.token_count;
        if (std::uniform_real_distribution()(random_) >= load_.right) break;
      }
      result.entries.push_back(out);
    }
    s_->Commit(result, &outcome_);
    policy_.Committed(StepKind::Of(flight.plan), static_cast<int64_t>(flight.seconds * 1e6),
                      /*cold=*/false, result, outcome_, s_.get());
    return outcome_;
  }

  const Load load_;
  DraftPolicy policy_;
  std::unique_ptr<schedule::Scheduler> s_;
  std::vector<Flight> flights_;
  schedule::CommitOutcome outcome_;
  std::mt19937 random_{7};
  SequenceId last_ = 0;
  double now_ = 1;
};

// Of the rounds behind the first to a server without drafts, as bench/draft_pairs has it.
struct Ratios {
  double median = 0, mean = 0;
};
Ratios RatiosOf(const Load& load) {
  Server plain(load, false), head(load, true);
  std::vector<double> ratios;
  std::string said;  // thousandths, and steps that guessed
  for (int round = 0; round <= load.rounds; ++round) {
    const int64_t steps = head.steps, guessing = head.guessing;
    const double ratio = plain.Round() / head.Round();
    said += StrCat(" ", static_cast<int>(1000 * ratio), " (", head.guessing - guessing, " of ",
                   head.steps - steps, ")");
    if (round > 0) ratios.push_back(ratio);
  }
  std::printf("%d sequences, %.1f right:%s\n", load.sequences, load.right, said.c_str());
  std::sort(ratios.begin(), ratios.end());
  const auto count = static_cast<double>(ratios.size());
  return {.median = ratios[ratios.size() / 2],
          .mean = std::accumulate(ratios.begin(), ratios.end(), 0.0) / count};
}

// Before what is drafted beside prompts was that of the batch which they lead to, 256 sequences had
// 0.969 where half of the drafts are right, and 64 had 0.982.
TEST(DraftPolicy, NoNumberOfSequencesLoses) {
  for (const int sequences : {64, 256}) {
    for (const double right : {0.0, 0.5, 0.8, 1.0}) {
      const Ratios ratios = RatiosOf({.sequences = sequences, .rounds = 20, .right = right});
      EXPECT_GE(ratios.median, 0.998) << sequences << " sequences, " << right;
      EXPECT_GE(ratios.mean, 0.98) << sequences << " sequences, " << right;
    }
  }
}

TEST(DraftPolicy, WhereDraftsPayTheyAreMade) {
  EXPECT_GT(RatiosOf({.sequences = 1, .rounds = 20, .right = 0.8}).median, 2.0);
  EXPECT_GT(RatiosOf({.sequences = 64, .rounds = 12, .right = 0.8}).median, 1.2);
  EXPECT_GT(RatiosOf({.sequences = 256, .rounds = 12, .right = 1.0}).median, 1.3);
}

}  // namespace
}  // namespace sluice::engine
