#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
#include "backend/xpu/pieces/sample_row.cl"
// What is known of sequences where tokens are drawn; see ops/token_counts.h.

// A work-group per row that is set.
SLUICE_KERNEL any_set_counts(global const int* rows, ulong row_stride, global const int* words,
                             ulong word_stride, global uint* counts, ulong counts_stride, int vocab,
                             int counts_rows, int word_count) {
  global const int* row = rows + get_group_id(0) * row_stride;
  if (row[0] < 0 || row[0] >= counts_rows) return;
  counts += row[0] * counts_stride;
  for (int id = get_local_id(0); id < vocab; id += ITEMS) counts[id] = 0;
  group_barrier();
  const int end = min(row[2], word_count);
  for (int w = max(row[1], 0) + get_local_id(0); w < end; w += ITEMS) {
    const int id = words[w * word_stride];
    if (id >= 0 && id < vocab) counts[id] = (uint)words[w * word_stride + 1];
  }
}

// One work-group; an item per row.
SLUICE_KERNEL any_resolve_rows(BytesOut rows, ulong row_stride, global const int* lengths,
                               global const int* tokens, ulong tokens_stride, int count, int slots,
                               int token_count) {
  for (int r = get_local_id(0); r < count; r += ITEMS) {
    global SampleRow* row = (global SampleRow*)(rows + r * row_stride);
    if (row->slot < 0 || row->slot >= slots) continue;
    if (row->position < 0) row->position = lengths[row->slot] - row->position;
    const long token = -1 - (long)row->target;
    if (token >= 1 && token < token_count) row->target = tokens[row->slot * tokens_stride + token];
  }
}

// One work-group; an item follows a sequence's rows from the first.
SLUICE_KERNEL any_keep_drawn(Bytes rows, ulong row_stride, BytesOut outputs, ulong output_stride,
                             global uint* counts, ulong counts_stride, global int* lengths,
                             global int* tokens, ulong tokens_stride, int count, int vocab,
                             int counts_rows, int slots, ulong taken) {
  for (int r = get_local_id(0); r < count; r += ITEMS) {
    const SampleRow first = *(global const SampleRow*)(rows + r * row_stride);
    if (!first.draw || first.drafts != 0) continue;
    const bool counted = first.counts_row >= 0 && first.counts_row < counts_rows;
    const bool known = first.slot >= 0 && first.slot < slots;
    global uint* mine = counts + (counted ? first.counts_row * counts_stride : 0);
    bool open = true;
    for (int i = r; i < count; ++i) {
      global const SampleRow* row = (global const SampleRow*)(rows + i * row_stride);
      global SampleOutput* output = (global SampleOutput*)(outputs + i * output_stride);
      if (!row->draw || row->slot != first.slot || row->drafts != i - r) break;
      // Only the lowest byte of a flag is written by all implementations; `kept` is the next one.
      bool degenerate = (output->degenerate & 0xffu) != 0;
      // `taken` is 2^53 times the share of drafts that count as drawn.
      if (open && taken > 0 && row->target >= 0 && row->target < vocab && row->mask_row < 0 &&
          lot_of(*row, ACCEPT_DRAW) < taken) {
        output->token = row->target;
        degenerate = false;
      }
      output->degenerate = (degenerate ? 1 : 0) | (open ? 0x100 : 0);
      if (!open) continue;
      const int token = output->token;
      if (known) {
        lengths[first.slot] = (int)row->position;
        tokens[first.slot * tokens_stride] = token;
      }
      open = !degenerate && row->target == token;
      if (counted && !degenerate && token >= 0 && token < vocab) ++mine[token];
    }
  }
}
