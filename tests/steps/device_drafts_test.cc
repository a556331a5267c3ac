// Drafts that the device makes itself, by one who knows the answers or by a head in the checkpoint:
// a step that verifies them is launched before anybody has read how far those of the step before
// were right. Ids and log-probs are those of one token at a time, whatever is asked for, and
// sequences with drafts of the host, which wait for their own results, are served beside.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "exec/executor_fixture.h"
#include "ops/host_array.h"
#include "schedule/scheduler.h"

namespace sluice {
namespace {

using batch::kKnownTokens;
using schedule::SequenceId;
using schedule::SequenceSpec;

constexpr int kSlots = exec::kTestSlots, kDrafts = 4;

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  schedule::FinishReason finish = schedule::FinishReason::kNone;
  friend bool operator==(const Answer&, const Answer&) = default;
};
using Answers = std::map<SequenceId, Answer>;

// Knows what sequences draw, but for every fifth position, where it errs. On the device, by what is
// known there alone: place_tokens over tables of tokens, a block each, finds those that follow.
class Oracle {
 public:
  void Bind(device::Device& device) {
    device_ = &device;
    stream_ = std::move(device.CreateStream().value());
    const ops::PlaceTokens::Desc tokens = {.block_tokens = 1, .cache_block_tokens = 1};
    place_ = std::move(ops::Bind<ops::PlaceTokens>(device.ops(), tokens).value());
    std::vector<int32_t> start, slots;
    for (int s = 0; s <= kSlots; ++s) {
      start.push_back(s * kKnownTokens);
      if (s < kSlots) slots.push_back(s);
    }
    args_.query_start = Upload(ops::Array::Ints(start));
    args_.first = Upload(ops::Array::Ints(std::vector<int32_t>(kSlots, exec::kTestLength)));
    args_.unsure = args_.first;  // whatever the length is
    args_.slots = Upload(ops::Array::Ints(slots));
    args_.told_start = Upload(ops::Array::Ints(std::vector<int32_t>(kSlots + 1)));
    args_.told_first = Upload(ops::Array::Ints(std::vector<int32_t>(kSlots)));
    args_.told = Upload(ops::Array::Ints({0}));
    args_.tables =
        Upload(ops::Array::Ints({kSlots, kWidth}, std::vector<int32_t>(kSlots * kWidth)));
    args_.positions = Upload(ops::Array::Ints(std::vector<int32_t>(kSlots * kKnownTokens)));
    args_.context = Upload(ops::Array::Ints(std::vector<int32_t>(kSlots)));
    args_.kv_slots = Upload(ops::Array::Ints(std::vector<int32_t>(kSlots * kKnownTokens)));
    args_.block_table = Upload(ops::Array::Ints({kSlots, 1}, std::vector<int32_t>(kSlots)));
  }
  // A sequence of these tokens starts in the slot.
  void Learn(int slot, std::vector<int32_t> tokens) {
    tokens.resize(kWidth);
    for (size_t i = 3; i < tokens.size(); i += 5) tokens[i] = (tokens[i] + 1) % 100;
    Copy(ViewOf(args_.tables, int64_t{slot} * kWidth, kWidth), tokens);
  }
  Status Propose(device::Stream& stream, const ops::Tensor& lengths, const ops::Tensor& tokens) {
    args_.lengths = lengths;
    SLUICE_RETURN_IF_ERROR(place_(stream, args_));
    std::vector<device::CopyItem> items;
    for (int64_t s = 0; s < kSlots; ++s) {  // the last token is not the oracle's to write
      const int64_t at = s * kKnownTokens + 1;
      items.push_back(
          {ViewOf(tokens, at, kKnownTokens - 1), ViewOf(args_.kv_slots, at, kKnownTokens - 1)});
    }
    return device_->Copy(stream, items);
  }

 private:
  static constexpr int kWidth = exec::kTestLength + kKnownTokens;
  static device::View ViewOf(const ops::Tensor& t, int64_t begin, int64_t count) {
    return {t.data + begin * 4, static_cast<size_t>(count) * 4, t.memory, t.device};
  }
  void Copy(const device::View& to, const std::vector<int32_t>& values) {
    auto* const data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data()));
    const device::CopyItem item{to, {data, values.size() * 4}};
    EXPECT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
  }
  ops::Tensor Upload(const ops::Array& array) {
    const auto* const values = array.tensor().ptr<int32_t>();
    const size_t count = static_cast<size_t>(array.tensor().size());
    buffers_.push_back(
        std::move(device_->Allocate(count * 4, device::MemoryKind::kDevice).value()));
    Copy(buffers_.back().view(), {values, values + count});
    ops::Tensor t = array.tensor();
    t.data = buffers_.back().view().data;
    t.memory = buffers_.back().view().memory;
    t.device = buffers_.back().view().device;
    return t;
  }

  device::Device* device_ = nullptr;
  std::unique_ptr<device::Stream> stream_;
  std::deque<device::Buffer> buffers_;
  ops::Bound<ops::PlaceTokens> place_;
  ops::PlaceTokens::Args args_;
};

// A scheduler over a tiny model, and what a step loop does around them.
class Rig {
 public:
  Rig(const std::string& model, const std::string& device)
      : tiny_(model, {.device = device,
                      .draft_tokens = kDrafts,
                      .propose = model == "mimo"
                                     ? decltype(exec::Executor::Options::propose)()
                                     : [this](device::Stream& stream, const ops::Tensor& lengths,
                                              const ops::Tensor& tokens) {
                                         return oracle_.Propose(stream, lengths, tokens);
                                       }}) {
    oracle_.Bind(*tiny_.device);
    schedule::SchedulerOptions options;
    options.max_num_seqs = kSlots;
    options.max_batch_tokens = 64;
    options.max_extra_rows = 64;
    options.max_draft_tokens = kDrafts;
    options.counted_slots = tiny_.executor->Info().counted_slots;
    options.max_model_len = exec::kTestLength;
    scheduler_ = std::move(schedule::Scheduler::Create(options, tiny_.store->groups()).value());
  }

  // `known`: what the sequences answered before, for who guesses; `hosted` get guesses of the host.
  Answers Run(const std::vector<std::vector<SequenceSpec>>& requests, int depth,
              const Answers& known = {}, const std::set<SequenceId>& hosted = {}) {
    std::map<SequenceId, std::vector<int32_t>> prompts;
    for (const std::vector<SequenceSpec>& choices : requests) {
      for (const SequenceSpec& spec : choices) prompts[spec.id] = spec.prompt;
      EXPECT_TRUE(scheduler_->Add(choices, 0).ok());
    }
    Answers answers;
    while (scheduler_->HasWork()) {
      for (const SequenceId id : hosted) Guess(id, known);
      if (vary_) Vary();
      batch::BatchPlan plan;
      scheduler_->Plan(++now_, &plan);
      scheduler_->CheckInvariants();
      for (const batch::SlotStart& start : plan.starts) {
        const auto entry =
            std::find_if(plan.entries.begin(), plan.entries.end(),
                         [&](const batch::PlanEntry& e) { return e.slot == start.slot; });
        std::vector<int32_t> tokens = prompts.at(entry->sequence);
        if (const auto found = known.find(entry->sequence); found != known.end())
          tokens.insert(tokens.end(), found->second.ids.begin(), found->second.ids.end());
        oracle_.Learn(start.slot, std::move(tokens));
      }
      Launch(&plan, hosted);
      while (flights_.size() >= static_cast<size_t>(plan_empty_ ? 1 : depth)) End(&answers);
    }
    while (!flights_.empty()) End(&answers);
    return answers;
  }
  // From now on the number of drafts that are worth it changes with each step.
  void VaryDrafts() { vary_ = true; }
  // The numbers of guesses that steps were to make.
  const std::set<int32_t>& numbers() const { return numbers_; }
  exec::TinyExecutor& tiny() { return tiny_; }
  const schedule::Scheduler& scheduler() const { return *scheduler_; }
  // Entries that were launched before it was known where they stand.
  int unsure() const { return unsure_; }
  // Of these, those beside an entry of a sequence whose drafts are the host's.
  int beside_hosted() const { return beside_hosted_; }
  int failed() const { return failed_; }

 private:
  struct Flight {
    uint64_t id = 0;
    exec::Step step;
    Status status;
  };
  void Guess(SequenceId id, const Answers& known) {
    const schedule::Sequence* const sequence = scheduler_->Find(id);
    if (sequence == nullptr) return;
    const std::vector<int32_t>& ids = known.at(id).ids;
    const auto from = static_cast<size_t>(sequence->drawn());
    if (from + 2 > ids.size()) return;
    if (!scheduler_->AttachDrafts(id, std::vector{ids[from], 5})) scheduler_->AwaitCommit(id);
  }
  // A sequence in thirty is given up. At times all want few.
  void Vary() {
    const auto most = static_cast<int32_t>(random_() % (kDrafts + 1));
    for (const schedule::Sequence* sequence : scheduler_->running()) {
      const bool gives_up = random_() % 30 == 0;
      scheduler_->LimitDrafts(sequence->spec.id,
                              gives_up ? -1 : static_cast<int32_t>(random_() % (most + 1)));
    }
  }
  void Launch(batch::BatchPlan* plan, const std::set<SequenceId>& hosted) {
    if (!plan->entries.empty()) numbers_.insert(plan->guesses);
    bool any_unsure = false, any_hosted = false;
    for (const batch::PlanEntry& entry : plan->entries) {
      any_unsure |= entry.unsure > 0;
      any_hosted |= hosted.contains(entry.sequence);
      unsure_ += entry.unsure > 0;
      EXPECT_TRUE(entry.unsure == 0 || !hosted.contains(entry.sequence));
    }
    beside_hosted_ += any_unsure && any_hosted;
    Flight flight{.id = plan->step};
    plan_empty_ = plan->entries.empty();
    if (!plan_empty_) {
      auto step = tiny_.executor->Launch(plan, nullptr);
      flight.status = step.status();
      if (step.ok()) flight.step = *std::move(step);
    }
    flights_.push_back(std::move(flight));
  }
  void End(Answers* answers) {
    Flight flight = std::move(flights_.front());
    flights_.pop_front();
    batch::StepResult result;
    result.Reset(flight.id);
    if (flight.step.launched()) flight.status = flight.step.Finish(&result);
    schedule::CommitOutcome outcome;
    if (flight.status.ok()) {
      scheduler_->Commit(result, &outcome);
    } else {
      ++failed_;
      scheduler_->Fail(flight.id, &outcome);
    }
    scheduler_->CheckInvariants();
    for (const schedule::SequenceOutcome& out : outcome.sequences) {
      Answer& answer = (*answers)[out.id];
      for (int32_t i = out.token_begin; i < out.token_begin + out.token_count; ++i) {
        answer.ids.push_back(result.tokens[i].id);
        answer.logprobs.push_back(result.tokens[i].logprob);
      }
      answer.finish = out.finish;
    }
  }

  exec::TinyExecutor tiny_;
  Oracle oracle_;  // on the device, so it goes first
  std::unique_ptr<schedule::Scheduler> scheduler_;
  std::deque<Flight> flights_;
  bool plan_empty_ = false;
  int64_t now_ = 0;
  int unsure_ = 0, beside_hosted_ = 0, failed_ = 0;
  bool vary_ = false;
  std::set<int32_t> numbers_;
  std::mt19937 random_{11};
};

// Of every kind, more than there are slots, some of several choices.
std::vector<std::vector<SequenceSpec>> Requests(SequenceId first_id, int device_drafts) {
  std::vector<std::vector<SequenceSpec>> requests;
  SequenceId id = first_id;
  for (int i = 0; i < 12; ++i) {
    SequenceSpec spec;
    for (int p = 0; p < 5 + i * 7 % 23; ++p) spec.prompt.push_back(3 + (i * 31 + p * 17) % 90);
    spec.max_tokens = i == 3 ? 1 : i == 4 ? 2 : 20 + i * 5 % 30;
    spec.device_drafts = device_drafts;
    spec.prefix_cache = false;  // who finds what in it depends on the steps
    spec.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    spec.sampling.seed = static_cast<uint64_t>(40 + i);
    if (i % 3 != 2) spec.sampling.top_logprobs = i % 3;
    if (i % 4 == 1) spec.sampling.repetition_penalty = 1.3f;
    if (i % 4 == 2) spec.sampling.frequency_penalty = 0.4f;
    if (i % 5 == 0) {
      spec.sampling.min_tokens = 9;
      spec.end_ids = {3, 13, 23, 33, 43, 53, 63, 73, 83, 93};
    }
    if (i == 6) spec.stop_ids = {7, 17, 27, 37, 47, 57, 67, 77, 87};
    std::vector<SequenceSpec>& choices = requests.emplace_back();
    for (int choice = 0; choice < (i % 6 == 5 ? 3 : 1); ++choice) {
      spec.id = id++;
      spec.sampling.choice = choice;
      choices.push_back(spec);
    }
  }
  return requests;
}

struct Case {
  std::string model, device;
};

class DeviceDrafts : public ::testing::TestWithParam<Case> {};

TEST_P(DeviceDrafts, AnswersAreThoseOfOneTokenAtATime) {
  Rig plain(GetParam().model, "cpu"), drafting(GetParam().model, GetParam().device);
  const Answers expected = plain.Run(Requests(1, 0), 1);
  ASSERT_EQ(expected.size(), 16u);
  EXPECT_EQ(plain.unsure(), 0);
  EXPECT_EQ(drafting.Run(Requests(1, kDrafts), 2, expected), expected);
  const schedule::SchedulerStats stats = drafting.scheduler().Stats();
  EXPECT_GT(drafting.unsure(), 30);
  EXPECT_GT(stats.accepted, 100u);
  EXPECT_GT(stats.drafted, stats.accepted + 15);
}

TEST_P(DeviceDrafts, HowManyAreWorthItMayChangeWithEachStep) {
  Rig plain(GetParam().model, "cpu"), drafting(GetParam().model, GetParam().device);
  const Answers expected = plain.Run(Requests(1, 0), 1);
  drafting.VaryDrafts();
  EXPECT_EQ(drafting.Run(Requests(1, kDrafts), 2, expected), expected);
  EXPECT_GT(drafting.scheduler().Stats().accepted, 20u);
  for (int32_t number = 0; number <= kDrafts; ++number)
    EXPECT_TRUE(drafting.numbers().contains(number)) << number;
}

TEST_P(DeviceDrafts, SequencesWithDraftsOfTheHostAreServedBeside) {
  Rig plain(GetParam().model, "cpu"), both(GetParam().model, GetParam().device);
  const Answers expected = plain.Run(Requests(1, 0), 1);
  std::set<SequenceId> hosted;
  std::vector<std::vector<SequenceSpec>> requests = Requests(1, kDrafts);
  for (size_t i = 0; i < requests.size(); i += 3) {
    for (SequenceSpec& spec : requests[i]) {
      spec.device_drafts = 0;
      hosted.insert(spec.id);
    }
  }
  EXPECT_EQ(both.Run(requests, 2, expected, hosted), expected);
  EXPECT_GT(both.beside_hosted(), 5);
}

// Each op of a step fails in turn, early and late; what is asked for afterwards is answered
// rightly.
TEST_P(DeviceDrafts, AnyStepMayFailAndTheNextAnswersAreRight) {
  if (GetParam().device != "pinned") GTEST_SKIP() << "its ops do not fail";
  Rig plain(GetParam().model, "cpu"), drafting(GetParam().model, GetParam().device);
  Answers expected;
  SequenceId first = 1;
  std::vector<std::string> ops = {"keep_drawn", "place_tokens", "resolve_rows", "attention"};
  if (GetParam().model == "mimo") ops.insert(ops.end(), {"next_tokens", "keep_guesses"});
  for (const std::string& op : ops) {
    for (const int nth : {3, 8, 21}) {
      const int failed = drafting.failed();
      expected = plain.Run(Requests(first, 0), 1);
      drafting.tiny().queued().FailOp(op, nth);
      drafting.Run(Requests(first + 50, kDrafts), 2);
      drafting.tiny().queued().FailOp("none");
      EXPECT_GT(drafting.failed(), failed) << op << " " << nth;
      EXPECT_EQ(drafting.Run(Requests(first, kDrafts), 2, expected), expected) << op << " " << nth;
      first += 100;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceDrafts,
                         ::testing::Values(Case{"llama", "cpu"}, Case{"llama", "pinned"},
                                           Case{"llama", "nographs"}, Case{"gemma2", "pinned"},
                                           Case{"mimo", "cpu"}, Case{"mimo", "pinned"},
                                           Case{"mimo", "nographs"}, Case{"mimo", "plain"},
                                           Case{"mimo", "chunks"}, Case{"mimo", "noattention"}),
                         [](const auto& test) {
                           return test.param.model + "_" + test.param.device;
                         });

// A step ends at a border between blocks of states, so where it begins must be known, and nothing
// is guessed for their sequences.
TEST(DeviceDraftsOfStates, ASequenceWithStatesGoesOnByOneTokenAtATime) {
  Rig plain("qwen3_next", "cpu"), drafting("qwen3_next", "pinned");
  const Answers expected = plain.Run(Requests(1, 0), 1);
  EXPECT_EQ(drafting.Run(Requests(1, kDrafts), 2, expected), expected);
  EXPECT_EQ(drafting.scheduler().Stats().drafted, 0u);
  EXPECT_EQ(drafting.unsure(), 0);
}

}  // namespace
}  // namespace sluice
