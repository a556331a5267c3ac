// Scheduler: decides what the next step computes and books what the last one gave. Step thread
// only. It has no device and no clock: time comes as an argument, and equal calls give equal plans.
//
// The loop is Plan, execute, Commit. Commit may come one step late: at most one plan is uncommitted
// when Plan is called, and a token that is still being drawn appears in the new plan as kLastDrawn.
// Every plan is committed or failed, in order, the empty ones included.
//
// A step serves running sequences, but for those of clients that sit it out (turns.cc), in rank
// order (decode: one token each, then chunks of prompts), then admits waiting ones, under
// max_batch_tokens. Memory that runs short is taken from the sequence of the largest rank, which is
// recomputed later; an admitted sequence never fails for memory. Blocks and slots are reused after
// the last step that names them has been committed.
//
// Invariants (CheckInvariants): every sequence is in exactly one of the two lists, each in rank
// order; every slot is free, held by one sequence or waits for its last step; block tables cover
// the planned tokens; what KvBlocks and BlockPool state holds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "batch/plan.h"
#include "batch/result.h"
#include "blocks/kv_blocks.h"
#include "schedule/policy.h"
#include "schedule/rank_list.h"
#include "schedule/sequence.h"
#include "schedule/step_times.h"
#include "sluice/limits.h"
#include "sluice/status.h"

namespace sluice::schedule {

struct SchedulerOptions {
  int32_t max_num_seqs = 64;        // sampler slots
  int32_t max_batch_tokens = 2048;  // query tokens of a step; >= max_num_seqs
  int32_t max_extra_rows = 2048;    // logits rows of a step beyond one per sequence (prompt
                                    // log-probs, drafts); >= 1
  int32_t max_draft_tokens = 0;     // drafts per sequence and step
  int32_t draft_spare = 0;          // positions that a runner which guesses writes behind these
  int32_t counted_slots = 0;        // below this the runner counts what penalties need, so that
                                    // steps of such a sequence overlap
  int32_t max_model_len = 4096;     // prompt and answer
  bool draft_trees = false;         // the runner verifies them; else their first branch counts
  // What the runner guesses comes with the results of steps, and what of it is verified is attached
  // by whoever reads these: the next plan of a sequence that guesses waits for its commit.
  bool reads_guesses = false;
  int32_t queue_limit = 1024;  // sequences that wait for their first admission
  bool prefix_cache = true;
  std::string policy = "fcfs";
};

// What a step changed for one sequence.
struct SequenceOutcome {
  SequenceId id = 0;
  int32_t handle = -1;  // of its SequenceSpec
  int32_t choice = 0;
  int32_t token_begin = 0;  // its kept tokens in StepResult::tokens; those past a stop are dropped
  int32_t token_count = 0;
  int32_t score_begin = 0;  // its prompt scores in StepResult::scores
  int32_t score_count = 0;
  int32_t vector_begin = 0;  // its vector in StepResult::vectors
  int32_t vector_size = 0;
  FinishReason finish = FinishReason::kNone;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache
  int32_t drawn = 0;          // tokens drawn so far, these included
  int32_t drafted = 0;        // drafts that this step verified
  int32_t accepted = 0;       // of the kept tokens, those that were drafts; they come first
  // An answer of a beam search, whole: its tokens are in CommitOutcome::answers, and this is the
  // sum of their log-probs.
  bool beam = false;
  double logprob = 0.0;
  int64_t admitted_us = 0;
};

// How a beam of a search with masks goes on: the sequence of this number (SamplingParams::choice)
// has the tokens of `parent`'s, as they were before this step, and `token`.
struct BeamMove {
  int32_t handle = -1;  // of the search's SequenceSpec
  int32_t member = 0, parent = 0;
  int32_t token = 0;
};

struct CommitOutcome {
  std::vector<SequenceOutcome> sequences;  // those with tokens, scores or an end
  // Of one search after the other, for each of its beams; those that leave their parents come
  // first, so that they may be made in this order.
  std::vector<BeamMove> moves;
  batch::StepResult answers;  // of beam searches: tokens and their log-probs alone
};

struct SchedulerStats {
  int32_t running = 0;
  int32_t waiting = 0;        // preempted included
  int64_t queued_tokens = 0;  // of the prompts of those that were never admitted
  double kv_usage = 0.0;      // share of the fullest pool's blocks that sequences hold, 0..1
  int64_t free_blocks = 0, total_blocks = 0;  // of all layer groups
  // Totals since the start.
  uint64_t preemptions = 0;
  uint64_t prefix_queries = 0;   // tokens looked up
  uint64_t prefix_hits = 0;      // tokens found
  uint64_t verified = 0;         // times that a step verified drafts of a sequence
  uint64_t drafted = 0;          // drafts in them
  uint64_t accepted = 0;         // of these, drawn
  uint64_t aside = 0;            // of these, aside of a tree's first branch
  uint64_t forced = 0;           // drafts that were forced
  uint64_t forced_accepted = 0;  // of these, drawn
  std::array<uint64_t, limits::kDraftTokensMax> accepted_at = {};  // of them, by place in the draft
  std::array<uint64_t, kFinishReasons> finished = {};              // sequences, by FinishReason
};

class Scheduler {
 public:
  // kInvalidArgument names the option that is out of range or does not fit the others.
  static Result<std::unique_ptr<Scheduler>> Create(const SchedulerOptions& options,
                                                   std::vector<batch::KvGroup> groups);
  ~Scheduler();

  // Queues the choices of one request, all or none; the later ones share the first one's prompt KV.
  // kResourceExhausted: the queue is full. kInvalidArgument: they could never be served; the
  // message names limit and flag.
  // REQUIRES: ids are new.
  // A beam search stands alone among its choices.
  Status Add(std::vector<SequenceSpec> choices, int64_t now_us);
  Status Add(SequenceSpec spec, int64_t now_us);

  // Ends a sequence, and those of its beam search with it, at any moment, also while steps that
  // name it are in flight: nothing more comes out for it. `reason` is for the statistics: kStop
  // when a stop string was found, kCancelled when the caller left. False when it has ended already.
  bool Finish(SequenceId id, FinishReason reason);
  bool Cancel(SequenceId id) { return Finish(id, FinishReason::kCancelled); }

  // Tokens to verify after the sequence's last one in the next plan. False, and they are dropped,
  // when the sequence is not decoding, a step of it is in flight, or a group cannot roll back.
  // No more than max_draft_tokens are taken; Plan may take fewer. Those that are `forced` by what
  // the answer is held to replace others, and are counted by themselves, too. Of a sequence with
  // SequenceSpec::no_drafts all are dropped, and nothing has to be waited for: true.
  // `parents`: what each follows, where they are a tree (batch/draft_tree.h); empty: the one
  // before. Where a tree cannot be verified (no draft_trees, rows that wait for masks, drafts of
  // the runner, states), its first branch is taken.
  bool AttachDrafts(SequenceId id, std::span<const int32_t> drafts, bool forced = false,
                    std::span<const int32_t> parents = {});
  // Leaves the sequence out of plans until the step of it that is in flight has been committed, so
  // that drafts can be attached then. Whether any are is up to the caller: it is planned in any
  // case.
  void AwaitCommit(SequenceId id);

  // Of a sequence whose drafts the runner guesses, no more than `count` are guessed and verified
  // from the next plan on, until this is called again; below 0, none ever.
  void LimitDrafts(SequenceId id, int32_t count);
  // The same of all sequences whose first token is not known yet, until it is, from the next plan
  // on; below 0 they are computed meanwhile as if nothing were guessed for them.
  void LimitFirstDrafts(int32_t count) { first_drafts_ = count; }
  // SequenceSpec::masked from the next plan on. The runner guesses nothing for it any more, and of
  // its drafts one chain stays. Unknown sequences are ignored.
  void Mask(SequenceId id);

  // Fills the next step. Buffers of *plan and *outcome are reused: while nobody is admitted or
  // ends, neither Plan nor Commit allocates. A plan without entries means there is nothing to do
  // before a Commit or an arrival. REQUIRES: at most one plan is uncommitted.
  void Plan(int64_t now_us, batch::BatchPlan* plan);
  // Books the oldest uncommitted plan. REQUIRES: result.step is its step, one entry per plan entry.
  void Commit(const batch::StepResult& result, CommitOutcome* outcome);
  // The oldest uncommitted plan could not be computed: every sequence it names ends with kError. A
  // plan made after it stands on its results, so it is failed too.
  void Fail(uint64_t step, CommitOutcome* outcome);

  // How long the step took that was committed or failed last, while which no other was computed.
  // Under a policy that shares by client this decides who sits out the next ones; without it all
  // clients step together.
  void Took(int64_t step_us);

  // The mask of the sequence came too late for the newest plan, which draws nothing for it: the
  // next plan computes its last token again, and names no row of this one. A sequence with states,
  // which do not go back by a token, queues again. False when it has ended since the plan was made.
  // REQUIRES: the plan is uncommitted, and draws for it.
  bool Postpone(SequenceId id);
  // Nothing may follow the beam, by what its search is held to: what the newest plan draws for it
  // is dropped, and the beam with it. REQUIRES: likewise; it is a beam.
  void DropBeam(SequenceId id);

  bool HasWork() const { return !sequences_.empty(); }
  int32_t uncommitted() const { return static_cast<int32_t>(in_flight_.size()); }
  // Null when unknown or ended.
  const Sequence* Find(SequenceId id) const;
  // The longest prompt and answer that max_model_len allows and the pools hold when it is alone.
  // Of `together` such sequences that share none of it: of the beams of a search.
  int32_t LongestSequence(int32_t together = 1) const;
  SchedulerStats Stats() const;
  // Of the weights that the next step computes with: sequences that are admitted from now on share
  // no KV with those admitted under another version.
  void SetWeightsVersion(uint64_t version) { weights_version_ = version; }
  int32_t ClearPrefixCache() { return kv_.ClearCache(); }
  const blocks::KvBlocks& kv() const { return kv_; }
  const SchedulerOptions& options() const { return options_; }
  // In rank order.
  std::span<Sequence* const> running() const { return running_.items(); }
  void CheckInvariants() const;

 private:
  // One plan entry, as Commit needs it.
  struct Booked {
    SequenceId id = 0;
    uint32_t generation = 0;
    int32_t slot = 0;
    int32_t query = 0;
    int32_t drafts = 0;
    bool forced = false;  // these drafts
    int32_t score_count = 0;
    bool samples = false;
    bool postponed = false;  // draws nothing after all
  };
  // What a client has of a step.
  struct StepPart {
    uint64_t client = 0;
    int32_t tokens = 0;
    bool prompt = false;
  };
  struct Step {
    uint64_t id = 0;
    std::vector<Booked> entries;
    std::vector<StepPart> parts;  // of a policy that shares by client; a client may have several
  };
  struct Scheduled {
    Sequence* sequence;
    int32_t query;
    int32_t drafts;       // come last; those before are what is computed again and the last token
    bool known = false;   // the runner knows the drafts
    int32_t guesses = 0;  // of what comes behind the token that is drawn
    bool prompt = false;  // a chunk of one
  };
  struct SlotRelease {
    uint64_t step;
    int32_t slot;
  };
  // The beginning of a sequence that needs no computing.
  struct Shared {
    int32_t tokens = 0;
    bool looked_up = false;  // in the prefix cache
  };
  // What is left of the step's limits.
  struct Budget {
    int32_t tokens = 0;
    int32_t kept = 0;  // of them, for prompts: no draft takes them
    int32_t extra_rows = 0;
    bool memory_short = false;
  };
  // Tokens of a step beside those of sequences that decode, at least, where it is short; and
  // beside their drafts, where prompts wait.
  static constexpr int32_t kPromptTokensMin = 16;

  Scheduler(const SchedulerOptions& options, std::vector<batch::KvGroup> groups,
            std::unique_ptr<Policy> policy);

  // scheduler.cc: from arrival to end.
  Status CheckFits(SequenceSpec* spec) const;
  Sequence* Enqueue(SequenceSpec spec, SequenceId fork_parent, int64_t now_us);
  void End(Sequence* sequence, FinishReason reason);
  void LeaveRunning(Sequence* sequence);
  void Requeue(Sequence* sequence);
  void Retire();

  // plan_step.cc: what the next step computes.
  void ScheduleAll(int64_t now_us, int32_t tokens);
  void PreemptForUrgent();
  void PreemptForShare();
  void ScheduleRunning(Budget* budget);
  void ScheduleDecode(Sequence* sequence, Budget* budget);
  void SchedulePrefill(Sequence* sequence, Budget* budget);
  bool IsGuessed(const Sequence& sequence) const;
  int32_t WorthyDrafts(const Sequence& sequence) const;
  int32_t DeviceDrafts(const Sequence& sequence, int32_t drawn) const;
  int32_t RoomForGuesses(Sequence* sequence, int32_t end);
  bool Plannable(const Sequence& sequence) const;
  bool Decodes(const Sequence& sequence) const;
  int32_t ChunkOf(const Sequence& sequence, const Budget& budget) const;
  bool MakeRoom(Sequence* sequence, int32_t length, Budget* budget);
  bool PreemptBehind(const Sequence& sequence, Budget* budget);
  void Preempt(Sequence* sequence);

  // turns.cc: which clients and sequences sit out a step.
  void FindContenders(std::span<const StepPart> parts);
  void ShareStep(double took, int32_t tokens);
  int32_t ChooseTurns();
  void ChooseDecoders(int32_t rows);
  int32_t AllowRows(std::span<Sequence* const> sequences, int32_t rows, int32_t taken);
  FairShare::Client* Lightest() const;
  double LongestStep() const;
  const StepTimes& DecodeTimes() const;
  int32_t RowsOf(const StepTimes& times, int32_t most, int32_t usual) const;
  double AloneTime(const FairShare::Client& client, double took) const;
  void EndTurns();

  // admit.cc: who joins.
  void Admit(int64_t now_us, Budget* budget);
  Sequence* NextWaiting() const;
  bool WaitsForParent(const Sequence& sequence) const;
  bool TryAdmit(Sequence* sequence, int64_t now_us, Budget* budget);
  void Join(Sequence* sequence, const Shared& shared, int64_t now_us);
  void TakeSlot(Sequence* sequence);
  Shared SharePrefix(Sequence* sequence);
  bool MemoryForAdmission(Sequence* const& sequence, bool soon) const;

  // fill_plan.cc: decisions turned into a BatchPlan.
  void FillPlan(batch::BatchPlan* plan);
  void AppendEntry(const Scheduled& scheduled, batch::BatchPlan* plan);
  void AppendRows(const Scheduled& scheduled, batch::BatchPlan* plan, Booked* booked);

  // beams.cc: sequences that make up one beam search.
  // Those that are admitted and preempted with it, itself included.
  static std::span<Sequence* const> Together(Sequence* const& sequence);
  static bool InFlight(Sequence* const& sequence);
  static bool FollowsIn(const Sequence& sequence);  // another is admitted in its name
  Status CheckBeams(const SequenceSpec& spec) const;
  void EnqueueBeams(SequenceSpec spec, int64_t now_us);
  void CommitBeam(const Booked& booked, const batch::StepResult& result,
                  const batch::ResultEntry& entry, Sequence* sequence, CommitOutcome* outcome);
  void FollowBeams(BeamGroup* group, CommitOutcome* outcome);
  void LeaveTokens(Sequence* sequence);
  bool ForkBeam(Sequence* sequence, Budget* budget);
  // With its answers where `reason` is kNone. `outcome`: null where nobody is told.
  void EndBeams(Sequence* sequence, FinishReason reason, CommitOutcome* outcome);

  // commit.cc: what the step gave.
  static void Describe(const Sequence& sequence, SequenceOutcome* out);
  Sequence* FindBooked(const Booked& booked);
  bool HasStates() const;
  void CommitEntry(const Booked& booked, const batch::StepResult& result,
                   const batch::ResultEntry& entry, CommitOutcome* outcome);
  void AdvanceKv(Sequence* sequence, const Booked& booked, const batch::ResultEntry& entry);
  void CountDrafts(const Booked& booked, const batch::ResultEntry& entry, SequenceOutcome* out);
  FinishReason TakeTokens(Sequence* sequence, const batch::StepResult& result,
                          const batch::ResultEntry& entry, SequenceOutcome* out);
  Step TakeOldestStep(uint64_t id);

  // Constant after construction.
  const SchedulerOptions options_;
  const std::unique_ptr<Policy> policy_;
  const int32_t peak_chunk_;  // the most tokens that an entry has

  blocks::KvBlocks kv_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  FairShare fair_share_;
  StepTimes decode_times_, prompt_times_;  // of steps without and with chunks of prompts
  std::vector<StepPart> committed_parts_;  // of the step that was committed or failed last
  RankList waiting_;                       // in rank order; preempted ones included
  RankList running_;                       // in rank order
  int32_t queued_ = 0;                     // waiting and never admitted
  int64_t queued_tokens_ = 0;              // of their prompts
  std::vector<int32_t> free_slots_;
  std::vector<Sequence*> by_slot_;  // null: free, or its sequence left it
  std::vector<SlotRelease> slot_releases_;
  int32_t first_drafts_ = limits::kDraftTokensMax;  // LimitFirstDrafts
  uint64_t step_ = 0;                               // the newest plan
  std::vector<Step> in_flight_;                     // oldest first; at most two
  std::vector<Step> spare_steps_;                   // recycled buffers
  uint64_t committed_ = 0;                          // the newest committed plan
  SchedulerStats totals_;
  // The head of the queue that did not fit, and when; it is not tried again before memory changes.
  SequenceId blocked_ = 0;
  uint64_t blocked_version_ = 0;
  uint64_t weights_version_ = 0;
  // Scratch of Plan.
  std::vector<Scheduled> scheduled_;
  std::vector<blocks::Copy> copies_;
  mutable std::vector<int32_t> need_;
  std::vector<FairShare::Client*> contenders_;  // of Took, too
  std::vector<Sequence*> decoders_;
  bool some_sit_out_ = false, whole_prompts_ = false;
};

}  // namespace sluice::schedule
