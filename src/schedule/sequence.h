// Sequence: one answer that is being computed, as the scheduler sees it: a prompt, what was drawn
// so far, and where its KV stands. Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "batch/plan.h"
#include "batch/prefix_key.h"
#include "batch/sampling_params.h"
#include "blocks/kv_blocks.h"
#include "schedule/fair_share.h"

namespace sluice::schedule {

using batch::SequenceId;

enum class FinishReason : uint8_t {
  kNone,
  kEnd,        // drew an end-of-generation id
  kStop,       // drew a stop id, or the text workers found a stop string
  kLength,     // max_tokens or the context is used up
  kCancelled,  // the caller gave up
  kError,      // its logits were degenerate, or its step failed
  kAbsent,     // its search has found fewer answers than were asked for
};
inline constexpr size_t kFinishReasons = static_cast<size_t>(FinishReason::kAbsent) + 1;

// How a drawn id ends an answer: kEnd, kStop, or kNone where it does not.
inline FinishReason EndOf(int32_t id, std::span<const int32_t> end_ids,
                          std::span<const int32_t> stop_ids) {
  if (std::ranges::count(end_ids, id) > 0) return FinishReason::kEnd;
  return std::ranges::count(stop_ids, id) > 0 ? FinishReason::kStop : FinishReason::kNone;
}

enum class SequenceState : uint8_t {
  kWaiting,    // not admitted yet
  kRunning,    // holds slot and blocks
  kPreempted,  // gave both back; waits to be recomputed
};

struct BeamGroup;    // schedule/beam_search.h
struct BeamOptions;  // the same

// What the engine hands to Scheduler::Add. `choices` of one request differ in id and
// sampling.choice.
struct SequenceSpec {
  SequenceId id = 0;       // unique for the life of the scheduler, > 0
  int32_t handle = -1;     // the caller's own; comes back with every outcome
  int32_t max_tokens = 1;  // cut to the room left; 0: only compute (and score) the prompt
  int32_t priority = 0;    // lower is more urgent
  uint64_t client = 0;     // who sent it
  int32_t client_weight = 1;
  bool ignore_eos = false;
  bool prefix_cache = true;      // may use and feed the prefix cache
  bool prompt_logprobs = false;  // score every prompt token but the first
  bool no_overlap = false;       // each step needs the Commit of the one before
  bool whole_prompt = false;     // is computed in one step: its tokens see those behind them
  int32_t second_text = -1;      // PlanEntry::second_text
  bool masked = false;           // its rows that draw wait for masks
  bool no_drafts = false;        // none that are attached are verified
  int32_t device_drafts = 0;     // that the runner guesses behind each token that it draws, so that
                                 // no step needs the Commit of the one before
  std::vector<int32_t> end_ids;  // the model's end-of-generation ids
  std::vector<int32_t> stop_ids;   // the request's; obeyed under ignore_eos too
  batch::SamplingParams sampling;  // end_ids is filled by Add
  std::vector<int32_t> prompt;
  batch::PrefixKey key;  // weights_version is filled at every admission
  // For proposers of drafts: what key.salt is, as a number that says nothing about it, and tokens
  // that the answer may quote; null: none.
  uint64_t draft_key = 0;
  std::shared_ptr<const std::vector<int32_t>> quoted;
  // Null: its tokens are drawn. Else it stands for a beam search, whose sequences take the ids from
  // `id` on, one for each beam. Its sampling must be greedy, with BeamOptions::candidates
  // log-probs, and hold back no end.
  std::shared_ptr<const BeamOptions> beams;
};

// The scheduler's record. Fields marked [plan] change in Plan, [commit] in Commit. What every step
// reads comes first, so that it takes few cache lines.
struct alignas(64) Sequence {
  std::vector<int32_t> tokens;  // prompt and everything drawn and committed [commit]
  int32_t prompt_tokens = 0;
  SequenceState state = SequenceState::kWaiting;
  bool awaits_commit = false;  // sits out while a step is in flight; until it is planned [plan]
  bool waits_turn = false;     // sits out the step that is being planned [plan]
  bool no_overlap = false;     // as its spec asks, or for penalties in a slot without counts [plan]
  uint64_t slot_started = 0;   // the step that has its SlotStart; 0: none yet [plan]
  int32_t computed = 0;        // tokens whose KV is written and committed [commit]
  // Tokens whose KV is written after the steps in flight, at most [plan, commit]
  int32_t planned = 0;
  int32_t unsure = 0;          // it may be so many less: drafts of steps in flight [plan, commit]
  int32_t unknown_tokens = 0;  // that the steps in flight draw at least [plan, commit]
  bool drawn_in_slot = false;  // the newest step that names it draws its last token [plan]
  int32_t guessed = 0;         // and guesses so many that follow [plan]
  // Of spec.device_drafts, those that are worth it (Scheduler::LimitDrafts).
  int32_t worthy_drafts = 0;
  int32_t in_flight = 0;    // uncommitted steps that name it [plan, commit]
  uint64_t last_step = 0;   // the newest step that names it [plan]
  uint32_t generation = 0;  // grows when it leaves its blocks, so that late results are told apart
  int32_t scored = 0;       // prompt positions whose row was scored and committed [commit]
  int32_t slot = -1;
  int32_t cached_tokens = 0;     // found in the prefix cache at the first admission
  int64_t admitted_us = -1;      // first admission; -1: none yet
  std::vector<int32_t> drafts;   // to be verified in the next plan
  std::vector<int32_t> parents;  // of these, where they are a tree; empty: a chain
  bool forced = false;           // they are (Scheduler::AttachDrafts)
  // Tokens before its last one whose KV is computed once more, since drafts aside of the first
  // branch were right [plan, commit]
  int32_t aside = 0;
  blocks::SequenceBlocks kv;
  SequenceSpec spec;                    // its prompt has moved to `tokens`
  FairShare::Client* client = nullptr;  // who is charged for it
  int64_t rank = 0;                     // the policy's; smaller goes first, ties by id
  // Waits for it to finish the shared prompt; of a beam: gets its KV in the next plan. 0: none.
  SequenceId fork_parent = 0;
  std::shared_ptr<BeamGroup> beams;  // the search that it is a part of; null: none

  int32_t drawn() const { return static_cast<int32_t>(tokens.size()) - prompt_tokens; }
  // Tokens after the steps in flight, those that they are drawing included: at most.
  int32_t length() const { return static_cast<int32_t>(tokens.size()) + unknown_tokens + unsure; }
  // Of those, the ones that have no KV yet.
  int32_t uncomputed() const { return length() - planned; }
  // Whether the steps in flight may draw the last token.
  bool done_drawing() const { return length() - prompt_tokens >= spec.max_tokens; }
  // Prompt positions whose rows give prompt log-probs.
  int32_t to_score() const { return spec.prompt_logprobs ? prompt_tokens - 1 : 0; }
};

}  // namespace sluice::schedule
