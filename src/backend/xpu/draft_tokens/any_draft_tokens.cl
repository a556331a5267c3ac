#include "backend/xpu/pieces/base.cl"
#include "backend/xpu/pieces/sample_row.cl"
// A work-group for each sequence of a step: its tokens, and what its number among those that guess
// stands for.

// The last token of a sequence that counts, or -1, and the token behind it.
int LastOf(int s, global const int* query_start, global const int* positions,
           global const int* slots, global const int* next, global const int* lengths,
           global const int* known, ulong known_stride, int slot_count, int* behind) {
  const int begin = query_start[s], end = query_start[s + 1], slot = slots[s];
  const bool drawn = next[s] < 0 && slot >= 0 && slot < slot_count;
  *behind = drawn ? known[slot * known_stride] : max(next[s], 0);
  if (begin >= end) return -1;
  if (!drawn) return end - 1;
  return begin + clamp(lengths[slot] - 1 - positions[begin], 0, end - 1 - begin);
}

SLUICE_KERNEL any_next_tokens(global const int* token_ids, global const int* query_start,
                              global const int* positions, global const int* slots,
                              global const int* next, global const int* drafting,
                              global const int* lengths, global const int* known,
                              ulong known_stride, global int* ids, global int* rows,
                              global int* first, int sequences, int drafts, int tokens,
                              int slot_count) {
  const int s = get_group_id(0), item = get_local_id(0);
  int behind;
  const int last = LastOf(s, query_start, positions, slots, next, lengths, known, known_stride,
                          slot_count, &behind);
  for (int t = query_start[s] + item; t < query_start[s + 1]; t += ITEMS)
    ids[t] = t < last ? token_ids[t + 1] : behind;
  if (s + 1 == sequences) {
    for (int t = query_start[sequences] + item; t < tokens; t += ITEMS) ids[t] = 0;
  }
  if (item != 0 || s >= drafts) return;
  const int from = drafting[s];
  int row = -1;
  if (from >= 0 && from < sequences)
    row = LastOf(from, query_start, positions, slots, next, lengths, known, known_stride,
                 slot_count, &behind);
  rows[s] = max(row, 0);
  first[s] = row < 0 ? 0 : positions[row] + 1;
}

SLUICE_KERNEL any_keep_guesses(global const uchar* outputs, ulong outputs_stride,
                               global const int* slots, int number, int moved, global int* known,
                               ulong known_stride, global int* ids, global int* first, int drafts,
                               int slot_count, global const int* target_ids, int target_id_count,
                               global uchar* rows, ulong row_stride, int moves) {
  for (int d = get_local_id(0); d < drafts; d += ITEMS) {
    const int slot = slots[d];
    const bool guesses = slot >= 0 && slot < slot_count;
    int token = guesses ? *(global const int*)(outputs + d * outputs_stride) : 0;
    if (guesses && target_id_count > 0)
      token = token >= 0 && token < target_id_count ? target_ids[token] : 0;
    ids[d] = token;
    if (!guesses) continue;
    known[slot * known_stride + number] = token;
    first[d] += moved;
    if (moves) ++((global SampleRow*)(rows + d * row_stride))->position;
  }
}

// Trees of guesses; see ops/guess_trees.h. A work-group for each sequence of a step, of which one
// item follows the tree: its rows are few.
#define PATH_NUMBERS 9
#define NODE_NUMBERS 3
#define BEAM_NUMBERS 2
#define LOG_PROB_MIN (-10000.0f)

global const SampleOutput* output_at(global const uchar* outputs, ulong stride, int row) {
  return (global const SampleOutput*)(outputs + row * stride);
}
// Only the lowest byte of the flag is written by all implementations.
bool is_degenerate(global const SampleOutput* output) { return (output->degenerate & 0xffu) != 0; }

SLUICE_KERNEL any_follow_trees(global const int* token_ids, global const int* query_start,
                               global const int* positions, global const int* slots,
                               global const int* paths, ulong path_stride,
                               global const int* logits_rows, global const uchar* outputs,
                               ulong outputs_stride, global int* lengths, global int* known,
                               ulong known_stride, global int* order, global int* ids,
                               global int* places, int sequences, int rows, int slot_count,
                               int tokens) {
  const int s = get_group_id(0), item = get_local_id(0);
  const int begin = query_start[s], end = query_start[s + 1];
  int root = end, row = 0;
  if (begin < end && paths[(end - 1) * path_stride] > 0) {
    while (row < rows && (logits_rows[row] < begin || logits_rows[row] >= end)) ++row;
    if (row < rows && row + end - logits_rows[row] <= rows) root = logits_rows[row];
  }
  const int stop = s + 1 == sequences ? tokens : end;
  for (int t = begin + item; t < stop; t += ITEMS) {
    if (t >= root && t < end) continue;
    order[t] = t;
    ids[t] = token_ids[t];
    places[t] = positions[t];
  }
  if (item != 0 || root == end) return;
  int last = root, kept = 1;
  order[root] = root;
  for (int t = root + 1; t < end; ++t) {
    global const int* path = paths + t * path_stride;
    const int count = path[0];
    const int back = count == 0 ? 1 : 1 + path[count] - (count > 1 ? path[count - 1] : 0);
    global const SampleOutput* drawn = output_at(outputs, outputs_stride, row + last - root);
    if (t - back != last || is_degenerate(drawn) || drawn->token != token_ids[t]) continue;
    last = t;
    order[root + kept++] = t;
  }
  // Those that are left come behind. Both are ascending.
  for (int t = root + 1, next = 1, place = root + kept; t < end; ++t) {
    if (next < kept && order[root + next] == t)
      ++next;
    else
      order[place++] = t;
  }
  for (int t = root; t < end; ++t) {
    ids[t] = token_ids[order[t]];
    places[t] = positions[root] + t - root;
  }
  const int slot = slots[s];
  if (slot < 0 || slot >= slot_count) return;
  lengths[slot] = positions[root] + kept;
  known[slot * known_stride] = output_at(outputs, outputs_stride, row + last - root)->token;
}

// Of new node n of a sequence, with all that leads there.
float together(global const int* nodes, global const int* beams, int depth, int children, int n) {
  const float before = depth == 1 ? 0.0f : as_float(beams[n / children * BEAM_NUMBERS + 1]);
  return before + as_float(nodes[n * NODE_NUMBERS + 2]);
}

// An item for each sequence that guesses: its nodes are few.
SLUICE_KERNEL any_grow_trees(global const uchar* outputs, ulong outputs_stride,
                             global const int* top_ids, ulong ids_stride,
                             global const float* top_logprobs, ulong logprobs_stride,
                             global const int* slots, int drafts, int slot_count,
                             global const int* target_ids, int target_id_count, int depth,
                             int begin, int moved, int beam_count, int children, global int* nodes,
                             ulong nodes_stride, global const int* beams, global const int* paths,
                             global int* next_beams, global int* next_paths, global int* ids,
                             global int* order, global int* first) {
  const int from = depth == 1 ? 1 : beam_count, count = from * children;
  for (int d = get_local_id(0); d < drafts; d += ITEMS) {
    for (int at = d * beam_count; at < (d + 1) * beam_count; ++at) {
      for (int i = 0; i < BEAM_NUMBERS; ++i) next_beams[at * BEAM_NUMBERS + i] = 0;
      for (int i = 0; i < PATH_NUMBERS; ++i) next_paths[at * PATH_NUMBERS + i] = 0;
      ids[at] = 0;
      order[at] = d * from;
    }
    if (slots[d] < 0 || slots[d] >= slot_count) continue;
    first[d] += moved;
    global int* mine = nodes + d * nodes_stride + begin * NODE_NUMBERS;
    global const int* before = beams + d * from * BEAM_NUMBERS;
    for (int n = 0; n < count; ++n) {
      const int row = d * from + n / children, child = n % children;
      global const SampleOutput* output = output_at(outputs, outputs_stride, row);
      const bool lost = is_degenerate(output);
      int id = lost ? output->token : top_ids[row * ids_stride + child];
      if (target_id_count > 0) id = id >= 0 && id < target_id_count ? target_ids[id] : 0;
      const float given = top_logprobs[row * logprobs_stride + child];
      mine[n * NODE_NUMBERS] = id;
      mine[n * NODE_NUMBERS + 1] = depth == 1 ? 0 : before[n / children * BEAM_NUMBERS];
      mine[n * NODE_NUMBERS + 2] = as_int(!lost && given > LOG_PROB_MIN ? given : LOG_PROB_MIN);
    }
    // In the order of falling log-probs, and of nodes where these are the same.
    int last = -1;
    for (int b = 0; b < beam_count; ++b) {
      int best = -1;
      for (int n = 0; n < count; ++n) {
        const float likely = together(mine, before, depth, children, n);
        if (last >= 0) {
          const float least = together(mine, before, depth, children, last);
          if (!(likely < least || (likely == least && n > last))) continue;
        }
        if (best < 0 || likely > together(mine, before, depth, children, best)) best = n;
      }
      last = best;
      const int at = d * beam_count + b, row = d * from + best / children;
      next_beams[at * BEAM_NUMBERS] = begin + best + 1;
      next_beams[at * BEAM_NUMBERS + 1] = as_int(together(mine, before, depth, children, best));
      ids[at] = mine[best * NODE_NUMBERS];
      order[at] = row;
      global int* path = next_paths + at * PATH_NUMBERS;
      for (int i = 1; i < depth; ++i) path[i] = paths[row * PATH_NUMBERS + i];
      path[0] = depth;
      path[depth] = (depth - 1) * (beam_count - 1) + b;
    }
  }
}
