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
