// BatchPlan: what one step computes, as a flat value without pointers, so that rank 0 can send it
// to others. The scheduler fills it; exec reads it. No logic here beyond serialization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "batch/sampling_params.h"
#include "sluice/limits.h"
#include "sluice/status.h"

namespace sluice::batch {

using SequenceId = uint64_t;

// A token id (>= 0), or below 0 the number of one that the runner keeps for the entry's slot, since
// it may be unknown where the plan is made: the last token that was drawn for the sequence is
// number 0, and guesses of those that follow it are numbers 1 and on.
using TokenRef = int32_t;
inline constexpr TokenRef KnownToken(int32_t number) { return -1 - number; }
inline constexpr TokenRef kLastDrawn = KnownToken(0);
inline constexpr int32_t kKnownTokens = 1 + limits::kDraftTokensMax;  // of a slot

enum class RowPurpose : uint8_t {
  kSample,  // draw the next token
  kVerify,  // check the draft token that follows this row; the last row of an entry has no target
            // and draws the bonus token
  kScore,   // log-prob of a known next token (prompt log-probs, perplexity); draws nothing
};

// One row of the step's tokens that needs logits.
struct LogitsRow {
  int32_t token = 0;  // index into BatchPlan::tokens
  // kScore: the id that is scored. kVerify: the draft behind this row, or -1 behind the last one; a
  // guess of the runner's is named as in `tokens`. In a tree the first of those that follow it.
  int32_t target = -1;
  RowPurpose purpose = RowPurpose::kSample;

  friend bool operator==(const LogitsRow&, const LogitsRow&) = default;
};

// A run of consecutive tokens of one sequence: prefill, chunk, decode and verify are all this.
struct PlanEntry {
  SequenceId sequence = 0;
  int32_t slot = 0;  // where its runner keeps the sequence, < max_num_seqs, stable while it runs
  // The step whose plan told the slot's block tables from their first ids on: this one, where it
  // does so. Later plans tell what changed since.
  uint64_t told_whole = 0;
  // Of its first query token = KV tokens already present. Where drafts of steps in flight may yet
  // turn out wrong, it is up to `unsure` less, as the runner knows; the first token is kLastDrawn.
  int32_t first_position = 0;
  int32_t unsure = 0;
  int32_t query_tokens = 0;
  int32_t token_begin = 0;   // index into BatchPlan::tokens
  int32_t logits_begin = 0;  // index into BatchPlan::logits_rows
  int32_t logits_count = 0;
  // The token behind its last one; below 0: the one that it draws. Of use to runners that guess.
  TokenRef next_token = kLastDrawn;
  // Tokens that the runner may guess behind the one that it draws: its tables have room for that
  // one and all but the last of them. 0, and nothing is guessed for the sequence.
  int32_t guesses = 0;
  // Of the sequence: where its second text begins, whose tokens are of another type than those of
  // the first; below 0: it has none.
  int32_t second_text = -1;
  // Index into BatchPlan::parents of what its drafts follow, one for each (batch/draft_tree.h);
  // below 0: each follows the one before. Its rows are then those of its last tokens, one for each.
  int32_t tree = -1;
  // Those of its rows that draw wait for masks, which come when the step has been launched
  // (batch/mask_set.h).
  bool masked = false;

  friend bool operator==(const PlanEntry&, const PlanEntry&) = default;
};

// What is new in the block tables of all entries for one layer group, in kernel-block units. Id i
// of a table holds positions [i * tokens, (i + 1) * tokens) of its sequence, tokens being the
// group's kernel-block tokens; -1 where a window layer dropped the block. Entry e's table is told
// from id first[e] on by ids[begin[e], begin[e + 1]) and ends with them; what lies before was told
// by earlier plans for the same slot, back to PlanEntry::told_whole. That a block was dropped since
// is not told: a step does not read it.
struct GroupTable {
  std::vector<int32_t> begin;  // entries + 1
  std::vector<int32_t> first;  // entries
  std::vector<int32_t> ids;

  // Ids of entry e's table.
  int64_t Width(size_t e) const { return int64_t{first[e]} + begin[e + 1] - begin[e]; }

  friend bool operator==(const GroupTable&, const GroupTable&) = default;
};

// Copies between KV blocks (cache-block ids) of one group before the step runs.
struct BlockCopy {
  int32_t group = 0;
  int32_t source = 0;
  int32_t destination = 0;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

// A slot that starts, or starts again after preemption, in this step.
struct SlotStart {
  int32_t slot = 0;
  SamplingParams sampling;
  int32_t prompt_tokens = 0;     // how many of `history` are the prompt
  std::vector<int32_t> history;  // prompt and what was already answered

  friend bool operator==(const SlotStart&, const SlotStart&) = default;
};

struct BatchPlan {
  uint64_t step = 0;
  // How many tokens a runner that guesses shall guess behind the step, for each entry that has
  // guesses, and no more than it has. 0: it takes note of the step's tokens alone, so that it can
  // guess behind a later one. Below 0: it may pass them over, and guesses worse behind them.
  int32_t guesses = 0;
  std::vector<PlanEntry> entries;  // may be empty: an idle data-parallel rank still steps
  std::vector<TokenRef> tokens;    // query tokens of all entries
  std::vector<LogitsRow> logits_rows;
  std::vector<int32_t> parents;    // of the drafts of entries that have a tree
  std::vector<GroupTable> groups;  // by layer group
  std::vector<BlockCopy> copies;
  std::vector<SlotStart> starts;

  friend bool operator==(const BatchPlan&, const BatchPlan&) = default;
};

// A byte string that Deserialize turns into an equal plan, between machines of one byte order.
// Deserialize fails (kInvalidArgument) on malformed bytes only: every count is checked against the
// bytes that are left. Whether indices point at something is checked by the runner that is given
// the plan (its input builder), and nobody may follow one before.
std::vector<std::byte> Serialize(const BatchPlan& plan);
Result<BatchPlan> Deserialize(std::span<const std::byte> bytes);

}  // namespace sluice::batch
