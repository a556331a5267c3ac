// Beam searches through the scheduler: its sequences, with blocks that are shared and copied, find
// what the search by its definition finds, whatever runs beside them, and leave nothing behind.
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/philox.h"
#include "schedule/beam_search.h"
#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

constexpr int32_t kVocab = 40;

// What the model says behind `tokens`, best first.
std::vector<batch::TokenLogprob> RowBehind(const Tokens& tokens) {
  uint64_t key = 1469598103934665603u;
  for (const int32_t token : tokens) key = (key ^ static_cast<uint64_t>(token)) * 1099511628211u;
  std::vector<double> logits(kVocab);
  double sum = 0;
  for (int32_t id = 0; id < kVocab; ++id) {
    logits[id] = Philox(key, {static_cast<uint32_t>(id), 0, 0, 0})[0] * 0x1p-32 * 4;
    sum += std::exp(logits[id]);
  }
  std::vector<batch::TokenLogprob> row;
  for (int32_t id = 0; id < kVocab; ++id)
    row.push_back({id, static_cast<float>(logits[id] - std::log(sum))});
  std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  });
  return row;
}

// Whether an answer of these tokens may go on by this one.
using Fits = std::function<bool(const Tokens& answer, int32_t id)>;

bool FitsAll(const Tokens&, int32_t) { return true; }

// Holds answers to few tokens at each place, which depend on those before: some answers may only
// end, and behind some nothing may follow.
bool FitsSome(const Tokens& answer, int32_t id) {
  uint64_t key = 77;
  for (const int32_t token : answer) key = (key ^ static_cast<uint64_t>(token)) * 1099511628211u;
  const uint32_t kind = Philox(key, {1, 0, 0, 0})[0] % 12;
  if (kind == 0 && answer.size() > 2) return false;
  if (kind == 1 && answer.size() > 2) return id == kEnd;
  return Philox(key, {static_cast<uint32_t>(id), 2, 0, 0})[0] % 4 == 0;
}

std::vector<batch::TokenLogprob> RowBehind(const Tokens& text, const Tokens& answer,
                                           const Fits& fits) {
  std::vector<batch::TokenLogprob> row = RowBehind(text);
  std::erase_if(row, [&](const batch::TokenLogprob& next) { return !fits(answer, next.id); });
  return row;
}

using Hypothesis = std::pair<double, Tokens>;  // a sum or a score, and the answer's tokens

// The search by its definition, over whole rows and whole texts. Stops early.
std::vector<Hypothesis> Expected(const Tokens& prompt, const std::vector<int32_t>& widths,
                                 int32_t max_tokens, const Fits& fits = FitsAll) {
  const auto better = [](const Hypothesis& a, const Hypothesis& b) { return a.first > b.first; };
  const size_t kept = *std::max_element(widths.begin(), widths.end());
  std::vector<Hypothesis> beams = {{0.0, {}}}, answers;
  for (int32_t length = 1; answers.size() < kept; ++length) {
    const bool last = length == max_tokens;
    const size_t width = last ? kept : widths[std::min<size_t>(length - 1, widths.size() - 1)];
    std::vector<Hypothesis> all;
    for (const auto& [sum, tokens] : beams) {
      Tokens text = prompt;
      text.insert(text.end(), tokens.begin(), tokens.end());
      for (const batch::TokenLogprob& next : RowBehind(text, tokens, fits)) {
        all.emplace_back(sum + next.logprob, tokens);
        all.back().second.push_back(next.id);
      }
    }
    std::stable_sort(all.begin(), all.end(), better);
    beams.clear();
    for (size_t i = 0; i < all.size() && (beams.size() < width || i < width); ++i) {
      const bool ends = last || all[i].second.back() == kEnd;
      if (!ends && beams.size() < width) beams.push_back(all[i]);
      if (ends && i < width) answers.emplace_back(all[i].first / length, all[i].second);
    }
    std::stable_sort(answers.begin(), answers.end(), better);
    if (answers.size() > kept) answers.resize(kept);
    if (last || beams.empty()) break;
  }
  return answers;
}

class BeamsTest : public SchedulerTest {
 protected:
  void Start(int32_t blocks, std::vector<KvGroup> groups = {}) {
    SchedulerOptions options = Options();
    options.max_num_seqs = 12;
    options.max_batch_tokens = 12;
    options.queue_limit = 64;
    if (groups.empty()) groups = Blocks(blocks);
    groups_ = groups;
    SchedulerTest::Start(options, std::move(groups));
  }
  static SequenceSpec Search(SequenceId id, Tokens prompt, std::vector<int32_t> widths,
                             int32_t max_tokens) {
    SequenceSpec spec = Spec(id, std::move(prompt), max_tokens);
    BeamOptions options{.widths = std::move(widths), .stop = BeamOptions::Stop::kEarly};
    options.answers = options.width();
    spec.handle = 0;
    spec.sampling.temperature = 0.0f;
    spec.sampling.top_logprobs = options.candidates(1);
    spec.beams = std::make_shared<const BeamOptions>(std::move(options));
    return spec;
  }

  // What a device would do with the plan: copies of blocks, then K and V of every token. Whatever
  // the entry reads must be there.
  void Compute(const BatchPlan& plan) {
    for (const batch::BlockCopy& copy : plan.copies) {
      for (int32_t i = 0; i < groups_[copy.group].block_tokens; ++i)
        kv_[{copy.group, copy.destination, i}] = kv_[{copy.group, copy.source, i}];
    }
    copies_ += plan.copies.size();
    for (size_t e = 0; e < plan.entries.size(); ++e) {
      const batch::PlanEntry& entry = plan.entries[e];
      const Tokens& tokens = s->Find(entry.sequence)->tokens;
      for (size_t g = 0; g < groups_.size(); ++g) {
        const int32_t size = groups_[g].block_tokens;
        Tokens& table = tables_[{static_cast<int32_t>(g), entry.slot}];
        const batch::GroupTable& told = plan.groups[g];
        if (entry.told_whole == plan.step) table.clear();
        table.resize(told.first[e]);
        table.insert(table.end(), told.ids.begin() + told.begin[e],
                     told.ids.begin() + told.begin[e + 1]);
        const auto place = [&](int32_t at) -> int32_t& {
          EXPECT_GE(table.at(at / size), 0) << "position " << at;
          return kv_[{static_cast<int32_t>(g), table[at / size], at % size}];
        };
        for (int32_t i = 0; i < entry.query_tokens; ++i) {
          const int32_t at = entry.first_position + i;
          place(at) = tokens[at];
        }
        const int32_t window = groups_[g].kind == KvKind::kWindow ? groups_[g].window : 1 << 20;
        for (int32_t at = std::max(0, entry.first_position + 1 - window);
             at < entry.first_position + entry.query_tokens; ++at) {
          ASSERT_EQ(place(at), tokens[at]) << "sequence " << entry.sequence << " at " << at;
        }
      }
    }
  }

  // Beams draw by RowBehind, others always the same. Of those with masks some come too late.
  StepResult Draw(const BatchPlan& plan) {
    StepResult result = Answer(plan);
    for (size_t e = 0; e < plan.entries.size(); ++e) {
      batch::ResultEntry& entry = result.entries[e];
      const Sequence& sequence = *s->Find(entry.sequence);
      if (sequence.beams == nullptr || entry.token_count == 0) continue;
      const Tokens answer(sequence.tokens.begin() + sequence.prompt_tokens, sequence.tokens.end());
      EXPECT_EQ(plan.entries[e].masked, sequence.spec.masked);
      if (sequence.spec.masked) {
        // Whoever makes the mask knows the beam by what it was told.
        EXPECT_EQ(told_[std::pair(sequence.spec.handle, sequence.spec.sampling.choice)], answer);
        if (Philox(99, {++rows_, 0, 0, 0})[0] % 4 == 0) {
          EXPECT_TRUE(s->Postpone(entry.sequence));
          entry.token_count = 0;
          continue;
        }
      }
      auto row = RowBehind(sequence.tokens, answer, sequence.spec.masked ? FitsSome : FitsAll);
      if (row.empty()) {
        s->DropBeam(entry.sequence);
        row = RowBehind(sequence.tokens);
        ++dropped_;
      }
      batch::ResultToken& token = result.tokens[entry.token_begin];
      token.id = row[0].id;
      token.top_begin = static_cast<int32_t>(result.top.size());
      token.top_count =
          std::min(sequence.spec.sampling.top_logprobs, static_cast<int32_t>(row.size()));
      result.top.insert(result.top.end(), row.begin(), row.begin() + token.top_count);
    }
    return result;
  }
  void TakeMoves() {
    for (const BeamMove& move : outcome.moves) {
      Tokens answer = told_[{move.handle, move.parent}];
      answer.push_back(move.token);
      told_[{move.handle, move.member}] = std::move(answer);
    }
  }

  void Step() {
    const BatchPlan plan = Plan();
    Compute(plan);
    Commit(Draw(plan));
    TakeMoves();
    Collect();
  }
  void Collect() {
    for (const SequenceOutcome& out : outcome.sequences) {
      if (!out.beam || out.finish == FinishReason::kAbsent) continue;
      if (out.finish == FinishReason::kError) continue;
      EXPECT_EQ(out.choice, static_cast<int32_t>(found_[out.handle].size()));
      Tokens tokens;
      for (int32_t i = 0; i < out.token_count; ++i)
        tokens.push_back(outcome.answers.tokens[out.token_begin + i].id);
      found_[out.handle].emplace_back(out.logprob / std::max(1, out.token_count), tokens);
    }
  }
  void Finish() {
    for (int i = 0; i < 3000 && s->HasWork(); ++i) Step();
    ASSERT_FALSE(s->HasWork());
  }
  void ExpectAllFree() {
    const SchedulerStats stats = s->Stats();
    EXPECT_EQ(stats.free_blocks, stats.total_blocks);
    EXPECT_EQ(stats.running + stats.waiting, 0);
    EXPECT_EQ(stats.queued_tokens, 0);
  }
  static void ExpectSame(const std::vector<Hypothesis>& found,
                         const std::vector<Hypothesis>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].second, expected[i].second) << "answer " << i;
      EXPECT_NEAR(found[i].first, expected[i].first, 1e-6);
    }
  }

  std::vector<KvGroup> groups_;
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> kv_;  // group, block, place: the token
  std::map<std::pair<int32_t, int32_t>, Tokens> tables_;         // of a group and slot
  std::map<int32_t, std::vector<Hypothesis>> found_;             // by handle
  std::map<std::pair<int32_t, int32_t>, Tokens> told_;  // by handle and member: an answer, by moves
  size_t copies_ = 0;
  uint32_t rows_ = 0;  // that waited for masks
  int dropped_ = 0;    // beams
};

TEST_F(BeamsTest, FindsWhatTheDefinitionFinds) {
  for (int32_t width = 1; width <= kBeamsMax; ++width) {
    Start(96);
    SequenceSpec spec = Search(16, Count(11), {width}, 9);
    spec.handle = 1;
    Add(std::move(spec));
    Finish();
    ExpectSame(found_[1], Expected(Count(11), {width}, 9));
    ExpectAllFree();
    found_.clear();
  }
  EXPECT_GT(copies_, 0u);
}

TEST_F(BeamsTest, WidthsMayChange) {
  for (const std::vector<int32_t>& widths :
       {std::vector<int32_t>{1, 2, 4, 8}, {8, 4, 1}, {3, 7, 2, 5}}) {
    Start(96);
    SequenceSpec spec = Search(16, Count(6), widths, 8);
    spec.handle = 1;
    Add(std::move(spec));
    Finish();
    ExpectSame(found_[1], Expected(Count(6), widths, 8));
    ExpectAllFree();
    found_.clear();
  }
}

TEST_F(BeamsTest, WholeBlocksAreSharedAndTheLastOneIsCopied) {
  Start(96);
  Add(Search(16, Count(10), {4}, 8));
  while (s->Find(16)->drawn() < 1) Step();
  // Ten tokens are two blocks of four, which all share, and half of one; each has its own of that.
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.entries.size(), 4u);
  EXPECT_EQ(plan.copies.size(), 3u);
  std::set<int32_t> blocks(plan.groups[0].ids.begin(), plan.groups[0].ids.end());
  EXPECT_EQ(s->Stats().total_blocks - s->Stats().free_blocks, 2 + 4);
  Compute(plan);
  Commit(Draw(plan));
  Finish();
  ExpectAllFree();
}

TEST_F(BeamsTest, WithAWindowBlocksBehindItAreLetGo) {
  Start(0, {{KvKind::kFull, 4, 4, 0, 96}, {KvKind::kWindow, 4, 4, 6, 96}});
  SequenceSpec spec = Search(16, Count(13), {5}, 12);
  spec.handle = 1;
  Add(std::move(spec));
  Finish();
  ExpectSame(found_[1], Expected(Count(13), {5}, 12));
  ExpectAllFree();
}

TEST_F(BeamsTest, MemoryThatRunsShortAndOthersBesideItChangeNothing) {
  // Three searches and three others, where one search alone may fill the memory.
  Start(22);
  for (int32_t i = 0; i < 3; ++i) {
    SequenceSpec spec = Search(16 * (2 * i + 1), Count(9, 100 * i), {4}, 12);
    spec.handle = i;
    Add(std::move(spec));
    Add(Spec(16 * (2 * i + 2), Count(7, 1000 * i), 20));
  }
  Finish();
  EXPECT_GT(s->Stats().preemptions, 0u);
  for (int32_t i = 0; i < 3; ++i) ExpectSame(found_[i], Expected(Count(9, 100 * i), {4}, 12));
  ExpectAllFree();
}

// Each beam has a mask of its own, which follows it from sequence to sequence; late ones are
// waited for.
TEST_F(BeamsTest, HeldToTokensTheyFindTheBestOfWhatFits) {
  size_t fewer = 0;
  for (int32_t width = 1; width <= kBeamsMax; ++width) {
    for (int32_t i = 0; i < 20; ++i) {
      Start(96);
      SequenceSpec spec = Search(16, Count(5 + i % 4, 10 * i), {width}, 9);
      spec.handle = 1;
      spec.masked = true;
      const Tokens prompt = spec.prompt;
      Add(std::move(spec));
      Finish();
      const auto expected = Expected(prompt, {width}, 9, FitsSome);
      ExpectSame(found_[1], expected);
      fewer += expected.size() < static_cast<size_t>(width) ? 1 : 0;
      ExpectAllFree();
      found_.clear();
      told_.clear();
    }
  }
  EXPECT_GT(fewer, 0u);
  EXPECT_GT(dropped_, 0);
}

TEST_F(BeamsTest, HeldOrNotMemoryThatRunsShortAndOthersBesideThemChangeNothing) {
  Start(22);
  for (int32_t i = 0; i < 4; ++i) {
    SequenceSpec spec = Search(16 * (2 * i + 1), Count(9, 100 * i), {4}, 12);
    spec.handle = i;
    spec.masked = i % 2 == 0;
    Add(std::move(spec));
    Add(Spec(16 * (2 * i + 2), Count(7, 1000 * i), 20));
  }
  Finish();
  EXPECT_GT(s->Stats().preemptions, 0u);
  for (int32_t i = 0; i < 4; ++i) {
    ExpectSame(found_[i], Expected(Count(9, 100 * i), {4}, 12, i % 2 == 0 ? FitsSome : FitsAll));
  }
  ExpectAllFree();
}

TEST_F(BeamsTest, AnswersThatThereAreNotAreAbsentAndWithoutAnyTheSearchFails) {
  Start(96);
  SequenceSpec spec = Search(16, Count(5), {3}, 9);
  spec.masked = true;
  Add(std::move(spec));
  StepResult result = Answer(Plan());
  result.top = {{kEnd, -1.0f}};
  result.tokens[0].top_count = 1;
  Commit(result);
  ASSERT_EQ(outcome.sequences.size(), 3u);
  EXPECT_EQ(outcome.sequences[0].finish, FinishReason::kEnd);
  EXPECT_EQ(outcome.sequences[1].finish, FinishReason::kAbsent);
  EXPECT_EQ(outcome.sequences[2].finish, FinishReason::kAbsent);
  EXPECT_TRUE(outcome.moves.empty());
  spec = Search(32, Count(5), {3}, 9);
  spec.masked = true;
  Add(std::move(spec));
  const BatchPlan plan = Plan();
  s->DropBeam(32);
  Commit(Answer(plan));
  ASSERT_EQ(outcome.sequences.size(), 3u);
  for (const SequenceOutcome& out : outcome.sequences) EXPECT_EQ(out.finish, FinishReason::kError);
  ExpectAllFree();
}

TEST_F(BeamsTest, TheCacheOfPrefixesServesThemAndIsServed) {
  Start(96);
  Add(Search(16, Count(16), {3}, 4));
  Finish();
  SequenceSpec again = Search(32, Count(16), {3}, 4);
  again.handle = 1;
  Add(std::move(again));
  Step();
  EXPECT_EQ(s->Find(32)->cached_tokens, 12);
  Finish();
  ExpectSame(found_[1], Expected(Count(16), {3}, 4));
}

TEST_F(BeamsTest, CancelledAtAnyMomentTheyLeaveNothingBehind) {
  for (int steps = 0; steps < 12; ++steps) {
    Start(40);
    Add(Search(16, Count(9), {4}, 10));
    SequenceSpec other = Search(32, Count(9, 300), {4}, 10);
    other.handle = 1;
    Add(std::move(other));
    found_.clear();
    for (int i = 0; i < steps; ++i) Step();
    if (s->Find(32) == nullptr) {  // it has ended by itself
      EXPECT_GT(steps, 7);
      break;
    }
    const BatchPlan plan = Plan();  // in flight
    Compute(plan);
    const StepResult result = Draw(plan);
    EXPECT_TRUE(s->Cancel(steps % 2 == 0 ? 32 : 35));  // by any of its beams
    EXPECT_EQ(s->Find(33), nullptr);
    EXPECT_FALSE(s->Cancel(32));
    Commit(result);
    Collect();
    Finish();
    ExpectAllFree();
    ExpectSame(found_[0], Expected(Count(9), {4}, 10));  // as if it had been alone
  }
}

TEST_F(BeamsTest, AStepThatFailsEndsTheSearchOnce) {
  Start(96);
  Add(Search(16, Count(5), {4}, 10));
  for (int i = 0; i < 3; ++i) Step();
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.entries.size(), 4u);
  s->Fail(plan.step, &outcome);
  ASSERT_EQ(outcome.sequences.size(), 4u);  // its answers
  for (int32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(outcome.sequences[i].choice, i);
    EXPECT_EQ(outcome.sequences[i].finish, FinishReason::kError);
  }
  ExpectAllFree();
}

TEST_F(BeamsTest, ARowThatIsNoNumberEndsTheSearch) {
  Start(96);
  Add(Search(16, Count(5), {4}, 10));
  for (int i = 0; i < 3; ++i) Step();
  StepResult result = Draw(Plan());
  result.entries[1].status = batch::RowStatus::kDegenerate;
  Commit(result);
  ASSERT_EQ(outcome.sequences.size(), 4u);
  EXPECT_EQ(outcome.sequences[3].finish, FinishReason::kError);
  ExpectAllFree();
}

TEST_F(BeamsTest, OnesThatCannotBeServedAreRefusedByName) {
  Start(20);
  Status status = s->Add(Search(16, Count(10), {8}, 4), now);
  EXPECT_THAT(status.message(), HasSubstr("for each beam need 32 KV blocks"));
  SchedulerOptions options = Options();
  SchedulerTest::Start(options, Blocks(96));
  status = s->Add(Search(16, Count(10), {5}, 4), now);
  EXPECT_THAT(status.message(), HasSubstr("5 beams, but at most 4 sequences run"));
  EXPECT_EQ(status.field(), "beam_width");
  SchedulerTest::Start(options, {{KvKind::kFull, 4, 4, 0, 96}, {KvKind::kState, 8, 8, 0, 96}});
  status = s->Add(Search(16, Count(10), {2}, 4), now);
  EXPECT_THAT(status.message(), HasSubstr("running state"));
  EXPECT_FALSE(s->HasWork());
}

}  // namespace
}  // namespace sluice::schedule
