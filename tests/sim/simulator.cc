#include "simulator.h"

#include <algorithm>
#include <stdexcept>

#include "base/hash128.h"
#include "base/str_cat.h"

namespace sluice::sim {
namespace {

using schedule::FinishReason;
using schedule::SequenceState;

template <class... Parts>
void Require(bool condition, const Parts&... parts) {
  if (!condition) throw std::runtime_error(StrCat(parts...));
}

std::unique_ptr<schedule::Scheduler> MakeScheduler(const Scenario& scenario) {
  auto scheduler = schedule::Scheduler::Create(scenario.options, scenario.groups);
  Require(scheduler.ok(), scheduler.status().message());
  return std::move(scheduler).value();
}

}  // namespace

Simulator::Simulator(Scenario scenario, uint64_t seed)
    : scenario_(std::move(scenario)),
      random_(seed),
      scheduler_(MakeScheduler(scenario_)),
      device_(scenario_.groups, scenario_.options.max_num_seqs) {
  for (int i = 0; i < 6; ++i) {
    std::vector<int32_t>& text = texts_.emplace_back();
    while (static_cast<int32_t>(text.size()) < scenario_.max_prompt) {
      text.push_back(static_cast<int32_t>(Below(kVocabulary)));
    }
  }
}

Totals Simulator::Run(uint64_t steps) {
  while (totals_.steps < steps) {
    if (Chance(0.01)) late_ = Chance(scenario_.overlap);
    Arrive();
    EndSomeEarly();
    Step();
  }
  for (uint64_t limit = steps + 100'000; scheduler_->HasWork();) {
    Require(totals_.steps < limit, "work is left after ", limit, " steps");
    Step();
  }
  while (!uncommitted_.empty()) CommitOldest();
  Require(requests_.empty(), requests_.size(), " requests never ended");
  scheduler_->CheckInvariants();
  scheduler_->ClearPrefixCache();
  for (int32_t g = 0; g < static_cast<int32_t>(scenario_.groups.size()); ++g) {
    const blocks::BlockPool& pool = scheduler_->kv().pool(g);
    Require(pool.free() == pool.size(), "group ", g, ": ", pool.free(), " of ", pool.size(),
            " blocks are free at the end");
  }
  Require(scheduler_->kv().tree().live_nodes() == 0, "the prefix tree keeps nodes");
  totals_.scheduler = scheduler_->Stats();
  return totals_;
}

schedule::SequenceSpec Simulator::MakeSpec() {
  schedule::SequenceSpec spec;
  const int32_t length = 1 + static_cast<int32_t>(Below(scenario_.max_prompt));
  const std::vector<int32_t>& text = texts_[Below(texts_.size())];
  const size_t shared = Chance(0.7) ? Below(static_cast<uint64_t>(length) + 1) : 0;
  spec.prompt.assign(text.begin(), text.begin() + static_cast<int64_t>(shared));
  while (static_cast<int32_t>(spec.prompt.size()) < length) {
    spec.prompt.push_back(static_cast<int32_t>(Below(kVocabulary)));
  }
  spec.max_tokens = 1 + static_cast<int32_t>(Below(scenario_.max_answer));
  spec.sampling.seed = Below(3);
  spec.end_ids = {kEndId};
  if (Chance(0.3)) spec.stop_ids = {5, 6};
  spec.ignore_eos = Chance(0.2);
  if (Chance(0.2)) spec.sampling.min_tokens = static_cast<int32_t>(Below(10));
  spec.priority = static_cast<int32_t>(Below(4));
  spec.key.salt = Chance(0.5) ? "alice" : "bobby";
  spec.prefix_cache = Chance(0.9);
  spec.prompt_logprobs = Chance(0.1);
  if (Chance(0.03)) spec.max_tokens = 0;
  spec.no_overlap = Chance(0.05);
  if (scenario_.masks) spec.masked = Chance(0.4);
  // The first client has half of them.
  if (scenario_.clients > 1 && Chance(0.5)) {
    spec.client = 1 + Below(static_cast<uint64_t>(scenario_.clients) - 1);
    spec.client_weight = 1 + static_cast<int32_t>(spec.client % 3);
  }
  if (scenario_.device_drafts > 0 && Chance(0.7)) spec.device_drafts = scenario_.device_drafts;
  return spec;
}

// What the sequence gives when it runs alone, by the definition of the fake model.
void Simulator::Expect(Request* request) const {
  const schedule::SequenceSpec& spec = request->spec;
  uint64_t chain = 1;
  for (const int32_t token : spec.prompt) chain = Mix(chain, static_cast<uint64_t>(token));
  request->expected_finish = FinishReason::kLength;
  for (int32_t drawn = 1; drawn <= spec.max_tokens; ++drawn) {
    const Draw draw = DrawAfter(chain, spec.sampling);
    request->expected.push_back(draw.token);
    chain = Mix(chain, static_cast<uint64_t>(draw.token));
    const bool may_end = drawn > spec.sampling.min_tokens;
    const bool stops = std::count(spec.stop_ids.begin(), spec.stop_ids.end(), draw.token) > 0;
    if (draw.degenerate) {
      request->expected_finish = FinishReason::kError;
    } else if (may_end && !spec.ignore_eos && draw.token == kEndId) {
      request->expected_finish = FinishReason::kEnd;
    } else if (may_end && stops) {
      request->expected_finish = FinishReason::kStop;
    } else {
      continue;
    }
    return;
  }
}

void Simulator::Arrive() {
  while (Chance(scenario_.arrivals_per_step)) {
    schedule::SequenceSpec spec = MakeSpec();
    const int choices = Chance(0.15) ? 2 + static_cast<int>(Below(3)) : 1;
    std::vector<schedule::SequenceSpec> specs;
    for (int i = 0; i < choices; ++i) {
      spec.id = next_id_++;
      spec.sampling.choice = i;
      specs.push_back(spec);
    }
    AddRequest(std::move(specs));
  }
}

void Simulator::AddRequest(std::vector<schedule::SequenceSpec> choices) {
  const Status status = scheduler_->Add(choices, now_us_);
  if (!status.ok()) {
    Require(status.code() == StatusCode::kResourceExhausted, status.message());
    totals_.refused += choices.size();
    return;
  }
  for (schedule::SequenceSpec& spec : choices) {
    ++totals_.added;
    Request request;
    request.spec = std::move(spec);
    request.added_step = totals_.steps;
    Expect(&request);
    if (Chance(0.15)) request.may_stop_after = 1 + static_cast<int32_t>(Below(20));
    requests_.emplace(request.spec.id, std::move(request));
  }
}

void Simulator::EndSomeEarly() {
  if (requests_.empty() || !Chance(0.01)) return;
  auto victim = requests_.begin();
  std::advance(victim, static_cast<int64_t>(Below(requests_.size())));
  Require(scheduler_->Cancel(victim->first), "cancel of a live sequence");
  Require(!scheduler_->Cancel(victim->first), "a second cancel");
  requests_.erase(victim);
  ++totals_.ended_early;
}

// Any tree of up to as many drafts as a step takes; most are what will be drawn there, if those
// before them are.
std::vector<int32_t> Simulator::MakeTree(const Request& request, std::vector<int32_t>* drafts) {
  std::vector<int32_t> parents, depths = {0};
  const size_t left = request.expected.size() - request.got.size();
  const size_t most = 1 + Below(limits::kDraftTokensMax);
  drafts->clear();
  while (drafts->size() < most) {
    const auto parent =
        static_cast<int32_t>(Chance(0.6) ? drafts->size() : Below(drafts->size() + 1));
    const auto depth = static_cast<size_t>(depths[parent]);
    if (depth >= left) break;
    parents.push_back(parent);
    depths.push_back(depths[parent] + 1);
    drafts->push_back(Chance(0.7) ? request.expected[request.got.size() + depth]
                                  : static_cast<int32_t>(Below(kVocabulary)));
  }
  return parents;
}

void Simulator::AttachSomeDrafts() {
  for (const auto& [id, request] : requests_) {
    if (!Chance(0.5)) continue;
    std::vector<int32_t> drafts;
    for (size_t i = request.got.size(); i < request.expected.size() && drafts.size() < 5; ++i) {
      drafts.push_back(Chance(0.8) ? request.expected[i]
                                   : static_cast<int32_t>(Below(kVocabulary)));
    }
    std::vector<int32_t> parents;
    if (scenario_.trees && Chance(0.8)) parents = MakeTree(request, &drafts);
    if (!scheduler_->AttachDrafts(id, drafts, /*forced=*/false, parents) && Chance(0.5))
      scheduler_->AwaitCommit(id);
  }
}

// Of the plan.
std::set<schedule::SequenceId> Simulator::SomeLate() {
  std::set<schedule::SequenceId> late;
  for (const batch::PlanEntry& entry : plan_.entries) {
    if (entry.masked && Chance(0.2)) late.insert(entry.sequence);
  }
  return late;
}

void Simulator::Step() {
  ++totals_.steps;
  now_us_ += static_cast<int64_t>(Below(100'000));  // so that priorities matter and age
  if (scenario_.drafts) AttachSomeDrafts();
  scheduler_->Plan(now_us_, &plan_);
  CheckPlan(plan_);
  CheckWrites(plan_);
  CheckSharing();
  scheduler_->CheckInvariants();
  const std::set<schedule::SequenceId> late = SomeLate();
  uncommitted_.push_back(device_.Run(plan_, late));
  for (const schedule::SequenceId id : late) {
    Require(scheduler_->Postpone(id), "Postpone of a live sequence");
    scheduler_->CheckInvariants();
    ++totals_.postponed;
  }
  CheckProgress(plan_);
  if (Chance(0.02)) EndSomeEarly();
  if (!late_) {
    while (!uncommitted_.empty()) CommitOldest();
  } else {
    if (uncommitted_.size() > 1) {
      CommitOldest();
      ++totals_.late_commits;
    }
  }
}

void Simulator::CommitOldest() {
  const batch::StepResult& result = uncommitted_.front();
  scheduler_->Commit(result, &outcome_);
  if (scenario_.clients > 1) {
    // A fixed time, some for each entry, and now and then a moment of another program.
    const auto entries = static_cast<int64_t>(result.entries.size());
    scheduler_->Took(200 + 100 * entries + (Chance(0.02) ? 20'000 : 0));
  }
  scheduler_->CheckInvariants();
  for (const schedule::SequenceOutcome& out : outcome_.sequences) Take(out, result);
  uncommitted_.pop_front();
  named_.pop_front();
}

void Simulator::Take(const schedule::SequenceOutcome& out, const batch::StepResult& result) {
  const auto it = requests_.find(out.id);
  Require(it != requests_.end(), "sequence ", out.id, " has ended, yet something came out for it");
  Request& request = it->second;
  for (int32_t i = 0; i < out.token_count; ++i) {
    const int32_t token = result.tokens[out.token_begin + i].id;
    const size_t at = request.got.size();
    Require(at < request.expected.size() && token == request.expected[at], "sequence ", out.id,
            ": token ", at, " is ", token);
    request.got.push_back(token);
    ++totals_.tokens_checked;
  }
  if (out.score_count > 0) {
    uint64_t chain = 1;
    const int32_t first = request.scored + 1;
    for (int32_t i = 0; i < first; ++i) {
      chain = Mix(chain, static_cast<uint64_t>(request.spec.prompt[i]));
    }
    for (int32_t i = 0; i < out.score_count; ++i, ++request.scored, ++totals_.scores_checked) {
      const int32_t target = request.spec.prompt[first + i];
      const batch::ResultToken& score = result.scores[out.score_begin + i];
      Require(score.id == target && score.logprob == ScoreOf(chain, target), "a wrong score");
      chain = Mix(chain, static_cast<uint64_t>(target));
    }
  }
  Require(out.drawn == static_cast<int32_t>(request.got.size()), "drawn=", out.drawn);
  if (out.finish != FinishReason::kNone) {
    CheckFinished(request, out);
    requests_.erase(it);
  } else if (request.may_stop_after >= 0 && out.drawn >= request.may_stop_after) {
    Require(scheduler_->Finish(out.id, FinishReason::kStop), "Finish of a live sequence");
    requests_.erase(it);
    ++totals_.ended_early;
  }
}

void Simulator::CheckFinished(const Request& request, const schedule::SequenceOutcome& out) {
  ++totals_.finished;
  totals_.degenerate += out.finish == FinishReason::kError ? 1 : 0;
  Require(out.finish == request.expected_finish, "sequence ", out.id, " ended with ",
          static_cast<int>(out.finish));
  Require(request.got == request.expected, "sequence ", out.id, " gave ", request.got.size(),
          " of ", request.expected.size(), " tokens");
  const int32_t scores =
      request.spec.prompt_logprobs ? static_cast<int32_t>(request.spec.prompt.size()) - 1 : 0;
  Require(request.scored == scores, "sequence ", out.id, " scored ", request.scored);
  Require(out.cached_tokens < out.prompt_tokens, "all of the prompt came from the cache");
}

void Simulator::CheckPlan(const batch::BatchPlan& plan) {
  const schedule::SchedulerOptions& options = scheduler_->options();
  const std::vector<std::byte> bytes = batch::Serialize(plan);
  const Hash128 hash = HashBytes(bytes, Hash128{});
  totals_.plan_hash = Mix(totals_.plan_hash, hash.low);
  if (totals_.steps % 64 == 0) {
    Result<batch::BatchPlan> back = batch::Deserialize(bytes);
    Require(back.ok() && *back == plan, "the plan does not survive serialization");
  }
  totals_.empty_steps += plan.entries.empty() ? 1 : 0;
  totals_.forks += plan.copies.size();
  totals_.slot_starts += plan.starts.size();
  const int32_t max_rows = options.max_num_seqs + options.max_extra_rows;
  Require(static_cast<int32_t>(plan.tokens.size()) <= options.max_batch_tokens, "token limit");
  Require(static_cast<int32_t>(plan.logits_rows.size()) <= max_rows, "row limit");
  std::set<int32_t> slots;
  for (const batch::PlanEntry& entry : plan.entries) {
    totals_.unsure += entry.unsure > 0 ? 1 : 0;
    Require(slots.insert(entry.slot).second, "two entries have slot ", entry.slot);
    Require(entry.query_tokens >= 1, "an entry without tokens");
    const auto it = requests_.find(entry.sequence);
    Require(it != requests_.end(), "sequence ", entry.sequence, " has ended");
    if (!it->second.admitted) {
      it->second.admitted = true;
      totals_.longest_wait_steps =
          std::max(totals_.longest_wait_steps, totals_.steps - it->second.added_step);
      CheckNobodyWasPassed(*scheduler_->Find(entry.sequence));
    }
  }
}

// Who joins in this step leaves nobody of its client and of smaller rank behind, but for choices
// that wait for the first of their request.
void Simulator::CheckNobodyWasPassed(const schedule::Sequence& joined) const {
  if (joined.admitted_us != now_us_) return;
  for (const auto& [id, request] : requests_) {
    const schedule::Sequence& other = *scheduler_->Find(id);
    Require(other.admitted_us >= 0 || request.spec.sampling.choice > 0 ||
                request.spec.client != joined.spec.client ||
                !schedule::RankList::Before(&other, &joined),
            "sequence ", joined.spec.id, " passed ", id);
  }
}

// A block is written by one sequence, and by none while a step in flight knows it as another's.
void Simulator::CheckWrites(const batch::BatchPlan& plan) {
  NamedBlocks named;
  named.step = plan.step;
  std::map<std::pair<int32_t, int32_t>, uint64_t> writers;
  for (int32_t g = 0; g < static_cast<int32_t>(plan.groups.size()); ++g) {
    const int32_t tokens = scenario_.groups[g].block_tokens;
    for (const batch::PlanEntry& entry : plan.entries) {
      const std::vector<int32_t>& table = scheduler_->Find(entry.sequence)->kv.groups[g].table;
      for (int32_t i = 0; i < static_cast<int32_t>(table.size()); ++i) {
        const int32_t block = table[i];
        if (block < 0) continue;
        named.blocks.insert({g, {block, entry.sequence}});
        if ((i + 1) * tokens <= entry.first_position - entry.unsure) continue;
        const uint64_t writer = writers.try_emplace({g, block}, entry.sequence).first->second;
        Require(writer == entry.sequence, "two sequences write block ", block);
      }
    }
  }
  std::set<std::pair<int32_t, int32_t>> copied;
  for (const batch::BlockCopy& copy : plan.copies) copied.insert({copy.group, copy.source});
  for (const schedule::Sequence* sequence : scheduler_->running()) {
    for (int32_t g = 0; g < static_cast<int32_t>(sequence->kv.groups.size()); ++g) {
      for (const int32_t block : sequence->kv.groups[g].table) {
        if (copied.contains({g, block})) named.blocks.insert({g, {block, sequence->spec.id}});
        const auto it = writers.find({g, block});
        Require(it == writers.end() || it->second == sequence->spec.id, "sequence ", it->second,
                " writes block ", block, " of sequence ", sequence->spec.id);
      }
    }
  }
  const auto check = [&](const NamedBlocks& other) {
    for (const auto& [group, use] : other.blocks) {
      const auto it = writers.find({group, use.first});
      Require(it == writers.end() || it->second == use.second, "block ", use.first,
              " is written while step ", other.step, " still names it");
    }
  };
  for (const batch::PlanEntry& entry : plan.entries) named.slots[entry.slot] = entry.sequence;
  for (const NamedBlocks& other : named_) {
    check(other);
    for (const auto& [slot, sequence] : other.slots) {
      const auto it = named.slots.find(slot);
      Require(it == named.slots.end() || it->second == sequence, "slot ", slot,
              " is reused while step ", other.step, " still names it");
    }
  }
  named_.push_back(std::move(named));
}

void Simulator::CheckSharing() {
  std::map<std::pair<size_t, int32_t>, const schedule::Sequence*> owners;
  for (const schedule::Sequence* sequence : scheduler_->running()) {
    for (size_t g = 0; g < sequence->kv.groups.size(); ++g) {
      for (const int32_t block : sequence->kv.groups[g].table) {
        if (block < 0) continue;
        const schedule::Sequence* owner = owners.try_emplace({g, block}, sequence).first->second;
        Require(owner->spec.key == sequence->spec.key, "a block is shared across API keys");
      }
    }
  }
}

// With nothing in flight, a step must compute something.
void Simulator::CheckProgress(const batch::BatchPlan& plan) {
  if (uncommitted_.size() > 1 || !plan.entries.empty()) return;
  Require(!scheduler_->HasWork(), "an empty step while there is work");
}

}  // namespace sluice::sim
