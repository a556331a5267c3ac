#include "schedule/scheduler.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/check_range.h"
#include "base/str_cat.h"
#include "batch/draft_tree.h"
#include "schedule/beam_search.h"

namespace sluice::schedule {
namespace {

constexpr int32_t kMaxSequences = 1 << 16;
constexpr int32_t kMaxTokens = 1 << 24;

Status CheckFlag(std::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(RangeError(StrCat("--", flag), value, low, high), std::string(flag));
}

// No flag sets these: a wrong value is the caller's defect.
Status CheckField(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return {StatusCode::kInternal,
          StrCat(RangeError(StrCat("SchedulerOptions::", field), value, low, high),
                 ". This is a defect of the program, please report it."),
          std::string(field)};
}

Status CheckOptions(const SchedulerOptions& o) {
  SLUICE_RETURN_IF_ERROR(CheckFlag("max-num-seqs", o.max_num_seqs, 1, kMaxSequences));
  SLUICE_RETURN_IF_ERROR(
      CheckFlag("max-batch-tokens", o.max_batch_tokens, o.max_num_seqs, kMaxTokens));
  SLUICE_RETURN_IF_ERROR(CheckField("max_extra_rows", o.max_extra_rows, 1, kMaxTokens));
  SLUICE_RETURN_IF_ERROR(
      CheckField("max_draft_tokens", o.max_draft_tokens, 0, limits::kDraftTokensMax));
  SLUICE_RETURN_IF_ERROR(CheckField("counted_slots", o.counted_slots, 0, o.max_num_seqs));
  SLUICE_RETURN_IF_ERROR(CheckFlag("max-model-len", o.max_model_len, 1, kMaxTokens));
  return CheckFlag("max-queue", o.queue_limit, 1, kMaxTokens);
}

// KV positions that a sequence reaches: the last token drawn is never computed.
int32_t KvLength(int32_t prompt, int32_t max_tokens) {
  return prompt + std::max(0, max_tokens - 1);
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerOptions& options,
                                                     std::vector<batch::KvGroup> groups) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  SLUICE_RETURN_IF_ERROR(batch::Validate(groups));
  SLUICE_RETURN_IF_ERROR(CheckField("max_draft_tokens", options.max_draft_tokens, 0,
                                    batch::DraftsWithin(groups, limits::kDraftTokensMax)));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, MakePolicy(options.policy));
  return std::unique_ptr<Scheduler>(new Scheduler(options, std::move(groups), std::move(policy)));
}

Scheduler::Scheduler(const SchedulerOptions& options, std::vector<batch::KvGroup> groups,
                     std::unique_ptr<Policy> policy)
    : options_(options),
      policy_(std::move(policy)),
      peak_chunk_(std::max(options.max_batch_tokens, 1 + 2 * options.max_draft_tokens)),
      kv_(std::move(groups), options.prefix_cache) {
  for (int32_t slot = options_.max_num_seqs; slot-- > 0;) free_slots_.push_back(slot);
  by_slot_.resize(options_.max_num_seqs);
  need_.resize(kv_.groups().size());
  const size_t sequences = static_cast<size_t>(options_.max_num_seqs);
  running_.Reserve(sequences);
  scheduled_.reserve(sequences);
  slot_releases_.reserve(sequences);
}

Scheduler::~Scheduler() = default;

Status Scheduler::CheckFits(SequenceSpec* spec) const {
  SLUICE_RETURN_IF_ERROR(CheckBeams(*spec));
  const int64_t prompt = static_cast<int64_t>(spec->prompt.size());
  const int32_t limit = options_.max_model_len;
  if (prompt == 0)
    return InvalidArgument("The prompt is empty; give at least one token.", "prompt");
  if (std::any_of(spec->prompt.begin(), spec->prompt.end(), [](int32_t id) { return id < 0; })) {
    return InvalidArgument("The prompt has a negative token id.", "prompt");
  }
  if (spec->max_tokens < 0) {
    return InvalidArgument(StrCat("max_tokens is ", spec->max_tokens, "; it must not be negative."),
                           "max_tokens");
  }
  if (prompt + (spec->max_tokens > 0 ? 1 : 0) > limit) {
    return InvalidArgument(
        StrCat("The prompt of ", prompt, " tokens leaves no room for an answer: the context is ",
               limit, " tokens (--max-model-len); shorten the prompt."),
        "prompt");
  }
  if (spec->whole_prompt && prompt > options_.max_batch_tokens) {
    return InvalidArgument(
        StrCat("The text of ", prompt, " tokens must be computed in one step, which has at most ",
               options_.max_batch_tokens, " (--max-batch-tokens); shorten it or raise that."),
        "prompt");
  }
  spec->max_tokens = static_cast<int32_t>(std::min<int64_t>(spec->max_tokens, limit - prompt));
  const int32_t length = KvLength(static_cast<int32_t>(prompt), spec->max_tokens);
  for (const batch::KvGroup& group : kv_.groups()) {
    const int64_t beams = spec->beams == nullptr ? 1 : spec->beams->width();
    const int64_t need = beams * batch::PeakBlocks(group, length, peak_chunk_);
    if (need <= group.num_blocks) continue;
    return InvalidArgument(
        StrCat("The prompt of ", prompt, " tokens and up to ", spec->max_tokens,
               " tokens of answer", beams > 1 ? " for each beam" : "", " need ", need,
               " KV blocks of ", group.block_tokens, " tokens, but there are ", group.num_blocks,
               "; ask for less or give more memory with --kv-memory."),
        "max_tokens");
  }
  return OkStatus();
}

Status Scheduler::Add(SequenceSpec spec, int64_t now_us) {
  std::vector<SequenceSpec> choices;
  choices.push_back(std::move(spec));
  return Add(std::move(choices), now_us);
}

Status Scheduler::Add(std::vector<SequenceSpec> choices, int64_t now_us) {
  CHECK(!choices.empty());
  for (SequenceSpec& spec : choices) SLUICE_RETURN_IF_ERROR(CheckFits(&spec));
  const bool beams = choices[0].beams != nullptr;
  const size_t count = beams ? choices[0].beams->width() : choices.size();
  if (queued_ + count > static_cast<size_t>(options_.queue_limit)) {
    return Status(StatusCode::kResourceExhausted,
                  StrCat("The queue is full: ", queued_, " sequences wait and ", count,
                         " more would pass the limit of ", options_.queue_limit,
                         " (--max-queue); try again later."));
  }
  if (beams) {
    CHECK(choices.size() == 1, choices.size());
    EnqueueBeams(std::move(choices[0]), now_us);
    return OkStatus();
  }
  const SequenceId first = choices[0].id;
  for (size_t i = choices.size(); i-- > 1;) {
    const bool same = choices[i].prompt == choices[0].prompt && choices[i].key == choices[0].key;
    Enqueue(std::move(choices[i]), same ? first : 0, now_us);
  }
  Enqueue(std::move(choices[0]), 0, now_us);
  return OkStatus();
}

Sequence* Scheduler::Enqueue(SequenceSpec spec, SequenceId fork_parent, int64_t now_us) {
  auto sequence = std::make_unique<Sequence>();
  sequence->rank = policy_->Rank(spec, now_us);
  sequence->client = fair_share_.Join(spec.client, spec.client_weight);
  sequence->fork_parent = fork_parent;
  sequence->prompt_tokens = static_cast<int32_t>(spec.prompt.size());
  sequence->tokens = std::move(spec.prompt);
  spec.prompt = {};
  if (!spec.sampling.MayEnd(0)) {
    spec.sampling.end_ids = spec.stop_ids;
    if (!spec.ignore_eos) {
      spec.sampling.end_ids.insert(spec.sampling.end_ids.end(), spec.end_ids.begin(),
                                   spec.end_ids.end());
    }
  }
  sequence->spec = std::move(spec);
  sequence->worthy_drafts = sequence->spec.device_drafts;
  const SequenceId id = sequence->spec.id;
  Sequence* const added = sequence.get();
  waiting_.Insert(added);
  ++queued_;
  queued_tokens_ += added->prompt_tokens;
  const bool is_new = id != 0 && sequences_.emplace(id, std::move(sequence)).second;
  CHECK(is_new, "sequence id ", id, " is zero or taken");
  return added;
}

bool Scheduler::Finish(SequenceId id, FinishReason reason) {
  CHECK(reason != FinishReason::kNone);
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return false;
  if (it->second->beams != nullptr) {
    EndBeams(it->second.get(), reason, nullptr);
  } else {
    End(it->second.get(), reason);
  }
  return true;
}

void Scheduler::End(Sequence* sequence, FinishReason reason) {
  if (reason != FinishReason::kNone) ++totals_.finished[static_cast<size_t>(reason)];
  if (waiting_.Remove(sequence)) {
    if (sequence->admitted_us < 0) {
      --queued_;
      queued_tokens_ -= sequence->prompt_tokens;
    }
  } else {
    LeaveRunning(sequence);
  }
  fair_share_.Leave(sequence->client);
  sequences_.erase(sequence->spec.id);
}

void Scheduler::LeaveRunning(Sequence* sequence) {
  CHECK(running_.Remove(sequence), "sequence ", sequence->spec.id);
  --sequence->client->running;
  kv_.Close(&sequence->kv, sequence->last_step);
  if (sequence->last_step <= committed_) {
    free_slots_.push_back(sequence->slot);
  } else {
    slot_releases_.push_back({sequence->last_step, sequence->slot});
  }
  by_slot_[sequence->slot] = nullptr;
  sequence->slot = -1;
  blocked_ = 0;
}

void Scheduler::Requeue(Sequence* sequence) {
  LeaveRunning(sequence);
  sequence->state = SequenceState::kPreempted;
  ++sequence->generation;
  sequence->computed = sequence->planned = 0;
  sequence->slot_started = 0;
  sequence->fork_parent = 0;
  sequence->drafts.clear();
  sequence->parents.clear();
  sequence->aside = 0;
  waiting_.Insert(sequence);
}

bool Scheduler::HasStates() const {
  return std::any_of(kv_.groups().begin(), kv_.groups().end(), [](const batch::KvGroup& group) {
    return group.kind == batch::KvKind::kState;
  });
}

bool Scheduler::AttachDrafts(SequenceId id, std::span<const int32_t> drafts, bool forced,
                             std::span<const int32_t> parents) {
  CHECK(parents.empty() || (parents.size() == drafts.size() && batch::IsTree(parents)));
  const auto it = sequences_.find(id);
  if (it == sequences_.end() || options_.max_draft_tokens == 0) return false;
  Sequence& sequence = *it->second;
  if (sequence.spec.no_drafts) return true;
  if (sequence.state != SequenceState::kRunning || sequence.in_flight > 0 ||
      sequence.uncomputed() != 1 + sequence.aside || sequence.drawn() == 0) {
    return false;
  }
  // A step whose mask is late comes to nothing, so the state before it is left alone.
  const int32_t spared = HasStates() && sequence.spec.masked ? 1 : 0;
  size_t count = std::min<size_t>(drafts.size(), options_.max_draft_tokens - spared);
  const auto branch = static_cast<size_t>(batch::FirstBranch(parents));
  // Where the runner guesses, too, steps go on from what the one before has drawn, wherever it is.
  const bool goes_on = sequence.spec.device_drafts > 0 && !options_.reads_guesses;
  const bool trees = options_.draft_trees && !sequence.spec.masked && !goes_on && !HasStates();
  if (!parents.empty() && !trees) count = std::min(count, branch);
  sequence.drafts.assign(drafts.begin(), drafts.begin() + static_cast<int64_t>(count));
  sequence.parents.clear();
  if (count > branch && !parents.empty())
    sequence.parents.assign(parents.begin(), parents.begin() + static_cast<int64_t>(count));
  sequence.forced = forced;
  return true;
}

void Scheduler::AwaitCommit(SequenceId id) {
  const auto it = sequences_.find(id);
  if (it != sequences_.end()) it->second->awaits_commit = it->second->in_flight > 0;
}

void Scheduler::LimitDrafts(SequenceId id, int32_t count) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  Sequence& sequence = *it->second;
  if (count < 0) sequence.spec.device_drafts = 0;
  sequence.worthy_drafts = std::clamp(count, 0, sequence.spec.device_drafts);
}

void Scheduler::Mask(SequenceId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  Sequence& sequence = *it->second;
  sequence.spec.masked = true;
  LimitDrafts(id, -1);
  if (sequence.parents.empty()) return;
  sequence.drafts.resize(static_cast<size_t>(batch::FirstBranch(sequence.parents)));
  sequence.parents.clear();
}

void Scheduler::Retire() {
  kv_.Retire(committed_);
  std::erase_if(slot_releases_, [this](const SlotRelease& release) {
    if (release.step > committed_) return false;
    free_slots_.push_back(release.slot);
    return true;
  });
}

const Sequence* Scheduler::Find(SequenceId id) const {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : it->second.get();
}

int32_t Scheduler::LongestSequence(int32_t together) const {
  int64_t length = options_.max_model_len;
  for (const batch::KvGroup& group : kv_.groups()) {
    const int32_t blocks = group.num_blocks / together;
    if (batch::PeakBlocks(group, kMaxTokens, peak_chunk_) <= blocks) continue;
    length = std::min(length, static_cast<int64_t>(blocks) * group.block_tokens + 1);
  }
  return static_cast<int32_t>(length);
}

SchedulerStats Scheduler::Stats() const {
  SchedulerStats stats = totals_;
  stats.running = static_cast<int32_t>(running_.size());
  stats.waiting = static_cast<int32_t>(waiting_.size());
  stats.queued_tokens = queued_tokens_;
  for (size_t g = 0; g < kv_.groups().size(); ++g) {
    const blocks::BlockPool& pool = kv_.pool(static_cast<int32_t>(g));
    stats.kv_usage = std::max(stats.kv_usage, static_cast<double>(pool.referenced()) / pool.size());
    stats.free_blocks += pool.available();
    stats.total_blocks += pool.size();
  }
  return stats;
}

void Scheduler::CheckInvariants() const {
  CHECK(waiting_.Sorted() && running_.Sorted());
  CHECK(waiting_.size() + running_.size() == sequences_.size(), sequences_.size());
  std::vector<bool> slots(options_.max_num_seqs, false);
  const auto take_slot = [&slots](int32_t slot) {
    CHECK(slot >= 0 && !slots[slot], "slot ", slot);
    slots[slot] = true;
  };
  std::vector<const blocks::SequenceBlocks*> open;
  for (const Sequence* sequence : running_.items()) {
    take_slot(sequence->slot);
    CHECK(by_slot_[sequence->slot] == sequence, "slot ", sequence->slot);
    CHECK(sequence->client->running > 0, "sequence ", sequence->spec.id);
    open.push_back(&sequence->kv);
    CHECK(sequence->state == SequenceState::kRunning, "sequence ", sequence->spec.id);
    CHECK(kv_.Holds(sequence->kv, sequence->planned - sequence->unsure), "sequence ",
          sequence->spec.id);
    CHECK(sequence->computed <= sequence->planned - sequence->unsure, "sequence ",
          sequence->spec.id);
    CHECK(kv_.HasRoom(sequence->kv, sequence->planned), "sequence ", sequence->spec.id);
  }
  int32_t queued = 0;
  int64_t queued_tokens = 0;
  for (const Sequence* sequence : waiting_.items()) {
    CHECK(sequence->slot < 0 && sequence->planned == 0, "sequence ", sequence->spec.id);
    queued += sequence->admitted_us < 0 ? 1 : 0;
    queued_tokens += sequence->admitted_us < 0 ? sequence->prompt_tokens : 0;
  }
  CHECK(queued == queued_ && queued_tokens == queued_tokens_, "queued=", queued);
  for (const int32_t slot : free_slots_) take_slot(slot);
  for (const SlotRelease& release : slot_releases_) take_slot(release.slot);
  CHECK(std::find(slots.begin(), slots.end(), false) == slots.end(), "a slot is lost");
  kv_.CheckInvariants(open);
}

}  // namespace sluice::schedule
