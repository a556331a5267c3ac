// The work list of a step: which sequences are split, into which pieces, and where their partial
// results lie. Made once a step by one warp on the device from the values of query_start and
// context, so a captured launch stays right when lengths change; the same code runs on the host
// where tests look at it. A plan decides who computes a split and when, never what comes out.
//
// Sequences with work stand in the order in which they are begun, what takes longest first: those
// of many tiles, then those that are split, then the others. Each has `tiles * pieces * kv_heads`
// items, the last tiles first. Where the wide kernel is launched, too, it takes those of many
// tiles, in tiles of its own height, and the other kernel the rest. What is streamed comes behind
// all of these: its tiles are of one token each, and its pieces are single splits.
#pragma once

#include <climits>

#include "backend/cuda/attention/params.h"

#ifdef __CUDACC__
#define SLUICE_BOTH __host__ __device__
#else
#define SLUICE_BOTH
#endif

namespace sluice::cuda {

// A sequence that has work; what an item needs to know lies in one piece of 32 bytes.
struct PlanEntry {
  int32_t item;  // its first
  int32_t slot;  // where its partial results begin; -1: it is not split
  int32_t row;   // query tokens of split sequences before it
  int32_t sequence, first_token, tokens, context;
  int32_t unused;
};

// The plan's numbers: a head, then the entries.
enum PlanHead {
  kTickets,
  kFinished,
  kEntries,
  kItems,
  kPieceSplits,
  kSplitRows,
  kWideItems,
  kStreamItems,
  kHeadSize = 8
};
struct StepPlan {
  int32_t* head;
  PlanEntry* entries;
};

SLUICE_BOTH inline StepPlan PlanOf(int32_t* plan) {
  return {plan, reinterpret_cast<PlanEntry*>(plan + kHeadSize)};
}

SLUICE_BOTH inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A sequence as a kernel sees it.
struct SequenceAt {
  int index, first_token, tokens, context;

  SLUICE_BOTH int Position(int token) const { return context - tokens + token; }
};

// Of a row of AttentionParams::paths: how many of the last positions that it sees lie elsewhere,
// and how much less than its place its own position is.
SLUICE_BOTH inline int PathLength(const AttentionParams& p, int token) {
  return p.paths[token * p.path_stride];
}
SLUICE_BOTH inline int AsideOf(const AttentionParams& p, int token) {
  return p.paths[token * p.path_stride + PathLength(p, token)];
}

// Row `token` of the step as a sequence of its own, which has no tokens unless it is aside.
SLUICE_BOTH inline SequenceAt LoadAside(const AttentionParams& p, int token) {
  SequenceAt at = {};
  int end = p.aside_of;  // the row of the table is in [at.index, end)
  while (end - at.index > 1) {
    const int middle = (at.index + end) / 2;
    (p.query_start[middle] <= token ? at.index : end) = middle;
  }
  const int behind = p.query_start[at.index + 1] - token;  // rows up to the sequence's end
  if (behind <= 0 || PathLength(p, token) <= 0) return at;
  at.first_token = token;
  at.tokens = 1;
  at.context = p.context[at.index] - behind + 1 - AsideOf(p, token);
  return at;
}

SLUICE_BOTH inline SequenceAt LoadSequence(const AttentionParams& p, int index) {
  if (p.aside_of > 0) return LoadAside(p, index);
  SequenceAt at;
  at.index = index;
  at.first_token = p.query_start[index];
  int end = p.query_start[index + 1];
  end = end < p.tokens ? end : p.tokens;
  at.context = p.context[index];
  // Rows aside come behind the others, and each has a place.
  for (; p.paths != nullptr && end > at.first_token && PathLength(p, end - 1) > 0; --end)
    --at.context;
  at.tokens = end - at.first_token;
  const int64_t room = int64_t{p.blocks_max} * p.block_tokens;
  at.context = at.context < room ? at.context : static_cast<int>(room);
  return at;
}

// Positions [first, end) that the query row at `position` sees.
struct Visible {
  int first, end;

  // Of kSplitTokens positions, and of those that a kernel's parameters name.
  SLUICE_BOTH int first_split() const { return first / kSplitTokens; }
  SLUICE_BOTH int last_split() const { return (end - 1) / kSplitTokens; }
  SLUICE_BOTH int first_split(const AttentionParams& p) const { return first >> p.split_shift; }
  SLUICE_BOTH int last_split(const AttentionParams& p) const { return (end - 1) >> p.split_shift; }
};

SLUICE_BOTH inline Visible VisibleAt(const AttentionParams& p, const SequenceAt& at, int position) {
  Visible v;
  v.first = p.window > 0 && position >= p.window ? position - p.window + 1 : 0;
  if (p.chunked != 0) v.first = position - position % p.window;
  v.end = p.causal != 0 ? position + 1 : at.context;
  return v;
}

// What a sequence asks for: tiles of query rows, and the splits that its rows see.
struct SequenceWork {
  SequenceAt at;
  int tiles = 0;  // 0: it has no work
  int tile_rows = 0;
  int first_split = 0, splits = 0;
  bool many = false;  // tiles: it is never split
  bool streamed = false;
};

// Tiles that a token's heads of one KV head are streamed in.
SLUICE_BOTH inline int StreamTiles(const AttentionParams& p) {
  return (p.group + kStreamRows - 1) / kStreamRows;
}

SLUICE_BOTH inline SequenceWork WorkOf(const AttentionParams& p, const SequenceAt& at) {
  SequenceWork work;
  work.at = at;
  if (at.tokens <= 0 || at.context < at.tokens) return work;
  const int rows = at.tokens * p.group;
  work.streamed = at.tokens <= p.stream_tokens;
  work.many = !work.streamed && rows > kSplitTilesMax * p.tile_rows;
  work.tile_rows = work.many && p.wide_rows > 0 ? p.wide_rows : p.tile_rows;
  work.tiles =
      work.streamed ? at.tokens * StreamTiles(p) : (rows + work.tile_rows - 1) / work.tile_rows;
  work.first_split = VisibleAt(p, at, at.Position(0)).first_split(p);
  work.splits = VisibleAt(p, at, at.Position(at.tokens - 1)).last_split(p) - work.first_split + 1;
  return work;
}
SLUICE_BOTH inline SequenceWork WorkOf(const AttentionParams& p, const PlanEntry& entry) {
  return WorkOf(p, SequenceAt{entry.sequence, entry.first_token, entry.tokens, entry.context});
}

// What the sequences of a step ask for together, those of the wide kernel and those that are
// streamed aside.
struct StepWork {
  int64_t units = 0;    // splits of all tiles and KV heads
  int64_t tiles = 0;    // of all KV heads
  int longest = 0;      // the splits of a tile, at most
  bool chunks = false;  // some sequence has so many tiles that it is never split
};

// Splits of a piece. Thread blocks that take whole tiles end after as many of the longest as each
// has to take, at the latest; where this is hardly later than if they shared all splits evenly,
// pieces would only add partial results to write, to read and to combine.
SLUICE_BOTH inline int PieceSplits(const AttentionParams& p, const StepWork& step) {
  const int64_t latest = CeilDiv(step.tiles, p.thread_blocks) * step.longest;
  if (step.tiles > 0 && !step.chunks && latest * p.thread_blocks * 8 <= step.units * 9)
    return step.longest;
  const int64_t splits = CeilDiv(step.units, int64_t{p.thread_blocks} * kPiecesPerBlock);
  return splits < 1 ? 1 : static_cast<int>(splits < INT_MAX ? splits : INT_MAX);
}

// Writes the plan. `lanes` look at as many sequences at a time: Scan gives each lane the sum of its
// own and all lower lanes' values, Last the highest lane's value, Largest the largest of all lanes,
// lane() and kLanes what they say.
template <class Lanes>
SLUICE_BOTH void MakePlan(const AttentionParams& p, const Lanes& lanes, int32_t* memory) {
  const StepPlan plan = PlanOf(memory);
  const auto work_of = [&](int index) {
    return index < p.sequences ? WorkOf(p, LoadSequence(p, index)) : SequenceWork();
  };
  StepWork step;
  for (int base = 0; base < p.sequences; base += Lanes::kLanes) {
    const SequenceWork work = work_of(base + lanes.lane());
    const bool here = !(work.many && p.wide_rows > 0) && !work.streamed;
    const int64_t tiles = here ? int64_t{work.tiles} * p.kv_heads : 0;
    step.units += lanes.Last(lanes.Scan(tiles * work.splits));
    step.tiles += lanes.Last(lanes.Scan(tiles));
    const int longest = lanes.Largest(here ? work.splits : 0);
    step.longest = longest > step.longest ? longest : step.longest;
    step.chunks = step.chunks || lanes.Largest(here && work.many ? 1 : 0) > 0;
  }
  const int piece = PieceSplits(p, step);
  int entries = 0, items = 0, rows = 0, wide_items = 0, listed = 0;
  for (int turn = 0; turn < 4; ++turn) {
    int64_t slots = 0;
    for (int base = 0; base < p.sequences; base += Lanes::kLanes) {
      const int index = base + lanes.lane();
      const SequenceWork work = work_of(index);
      const int of_piece = work.streamed ? 1 : piece;
      const bool long_enough = work.tiles > 0 && !work.many && work.splits > of_piece;
      const int64_t need = long_enough ? int64_t{work.at.tokens} * work.splits : 0;
      const int64_t slot_end = slots + lanes.Scan(need);
      const bool split = long_enough && slot_end <= p.slots_max;
      const int wanted = work.streamed ? 3 : work.many ? 0 : split ? 1 : 2;
      const bool here = work.tiles > 0 && turn == wanted;
      const int pieces = split ? static_cast<int>(CeilDiv(work.splits, of_piece)) : 1;
      const int count = here ? work.tiles * p.kv_heads * pieces : 0;
      const int tokens = here && split ? work.at.tokens : 0;
      const int entry_end = entries + lanes.Scan(here ? 1 : 0);
      const int item_end = items + lanes.Scan(count);
      const int row_end = rows + lanes.Scan(tokens);
      if (here) {
        plan.entries[entry_end - 1] = {
            item_end - count,    split ? static_cast<int>(slot_end - need) : -1,
            row_end - tokens,    work.at.index,
            work.at.first_token, work.at.tokens,
            work.at.context,     0};
      }
      slots = lanes.Last(slot_end);
      entries = lanes.Last(entry_end);
      items = lanes.Last(item_end);
      rows = lanes.Last(row_end);
    }
    if (turn == 0 && p.wide_rows > 0) wide_items = items;
    if (turn == 2) listed = items;
  }
  if (lanes.lane() != 0) return;
  plan.head[kTickets] = plan.head[kFinished] = 0;
  plan.head[kEntries] = entries;
  plan.head[kItems] = listed;
  plan.head[kPieceSplits] = piece;
  plan.head[kSplitRows] = rows;
  plan.head[kWideItems] = wide_items;
  plan.head[kStreamItems] = items - listed;
}

// A tile: rows [row, row + rows) of a sequence for one KV head, where row r is the query token
// r / group with the head r % group of the KV head's group.
struct Tile {
  SequenceAt at;
  int row, rows, kv_head;
  int slot;                    // of the sequence's partial results; -1: the tile has all splits
  int first_split, splits;     // of the sequence
  int piece_begin, piece_end;  // splits that the item has

  SLUICE_BOTH bool split() const { return slot >= 0; }
};

// Item `index`, which belongs to `entry`, of a plan whose pieces have `piece_splits`.
SLUICE_BOTH inline Tile ItemAt(const AttentionParams& p, int piece_splits, const PlanEntry& entry,
                               int index) {
  const SequenceWork work = WorkOf(p, entry);
  Tile tile;
  tile.at = work.at;
  tile.slot = entry.slot;
  tile.first_split = work.first_split;
  tile.splits = work.splits;
  const int piece = !tile.split() ? work.splits : work.streamed ? 1 : piece_splits;
  const int pieces = (work.splits + piece - 1) / piece;
  int i = index - entry.item;
  const int of_token = work.streamed ? StreamTiles(p) : 1, part = i % of_token;
  i /= of_token;
  tile.kv_head = i % p.kv_heads;
  i /= p.kv_heads;
  tile.piece_begin = work.first_split + i % pieces * piece;
  tile.piece_end = tile.piece_begin + piece;
  if (work.streamed) {
    const int rows = p.group - part * kStreamRows;
    tile.row = i / pieces * p.group + part * kStreamRows;
    tile.rows = rows < kStreamRows ? rows : kStreamRows;
    return tile;
  }
  tile.row = (work.tiles - 1 - i / pieces) * work.tile_rows;
  const int rows = work.at.tokens * p.group - tile.row;
  tile.rows = rows < work.tile_rows ? rows : work.tile_rows;
  return tile;
}

// Where the partial result of a query token's head for a split lies.
SLUICE_BOTH inline int64_t PartialRow(const AttentionParams& p, int slot, int token, int splits,
                                      int split, int head) {
  return (int64_t{slot} + int64_t{token} * splits + split) * p.q_heads + head;
}

}  // namespace sluice::cuda
