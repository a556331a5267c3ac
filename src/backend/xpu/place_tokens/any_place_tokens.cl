#include "backend/xpu/pieces/base.cl"
// Tables told anew, then positions, contexts, KV slots and the step's tables: a work-group per
// sequence, which alone reads and writes its row of the tables.
SLUICE_KERNEL any_place_tokens(
    global const int* query_start, global const int* first_positions, global const int* unsure,
    global const int* slots, global const int* lengths, global const int* told_start,
    global const int* told_first, global const int* told, global int* tables, ulong tables_stride,
    int slot_count, int tables_width, global int* positions, global int* contexts,
    global int* kv_slots, global int* block_table, ulong block_table_stride, int block_table_width,
    int sequences, int tokens, int block_tokens, int cache_block_tokens, int earlier, int state,
    global const int* paths, ulong paths_stride, int has_paths) {
  const int s = get_group_id(0), item = get_local_id(0);
  const int slot = slots[s];
  const bool has_row = slot >= 0 && slot < slot_count;
  int first = first_positions[s];
  if (unsure[s] > 0 && has_row) first = min(max(lengths[slot], first - unsure[s]), first);
  const int begin = query_start[s], end = query_start[s + 1], context = first + end - begin;
  if (item == 0) contexts[s] = context;
  global int* row = tables + (has_row ? slot : 0) * tables_stride;
  if (has_row) {
    const int told_begin = told_start[s], count = told_start[s + 1] - told_begin;
    for (int i = item; i < count; i += ITEMS) {
      const int at = told_first[s] + i;
      if (at >= 0 && at < tables_width) row[at] = told[told_begin + i];
    }
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (has_row) {
    global int* out = block_table + s * block_table_stride;
    const int count = min((context + block_tokens - 1) / block_tokens, block_table_width);
    const int unit = cache_block_tokens / block_tokens;
    const int gone =
        earlier < 0 ? 0 : min(count, max(0, first - earlier) / cache_block_tokens * unit);
    for (int i = item; i < count; i += ITEMS) out[i] = i < gone ? -1 : row[i];
  }
  for (int t = begin + item; t < end; t += ITEMS) {
    const int position = first + t - begin, column = position / block_tokens;
    const int id = has_row && !state && column < tables_width ? row[column] : -1;
    global const int* path = paths + (has_paths ? t * paths_stride : 0);
    positions[t] = has_paths && path[0] > 0 ? position - path[path[0]] : position;
    kv_slots[t] = id < 0 ? -1 : id * block_tokens + position % block_tokens;
  }
  if (s + 1 < sequences) return;
  for (int t = end + item; t < tokens; t += ITEMS) {
    positions[t] = 0;
    kv_slots[t] = -1;
  }
}
