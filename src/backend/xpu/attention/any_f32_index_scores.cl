#include "backend/xpu/pieces/head_lanes.cl"
#include "backend/xpu/pieces/reduce.cl"
#include "backend/xpu/pieces/sequence.cl"
// Scores of the positions that a row sees, a work-group per (PIECE positions, row). -D ACT, KV
// (f32, f16, bf16, f8, i8), SCALES (0, 1), D: head_dim, PIECE.
//
// A work-item has a position's key and takes the row's heads in their order, so a score's bits
// depend on the row and the key alone.
SLUICE_KERNEL any_f32_index_scores(Bytes q, ulong q_stride, global const float* weights,
                                   ulong weights_stride, global const int* query_start,
                                   global const int* context, global const int* block_table,
                                   ulong table_stride, Bytes k, global const float* k_scale,
                                   ulong k_stride, ulong k_scale_stride, global float* scores,
                                   ulong scores_stride, global int* lengths, int first_row,
                                   int sequences, int positions_max, int kernel_blocks,
                                   int block_tokens, int heads, float scale) {
  const int piece = get_group_id(0), row = get_group_id(1), item = get_local_id(0);
  const int s = sequence_of(query_start, sequences, first_row + row);
  int length = 0;  // of padding
  if (s >= 0) length = min(context[s] - (query_start[s + 1] - first_row - row) + 1, positions_max);
  if (piece == 0 && item == 0) lengths[row] = length;
  const int end = min(piece * PIECE + PIECE, length);
  for (int p = piece * PIECE + item; p < end; p += ITEMS) {
    const int id = block_table[s * table_stride + p / block_tokens];
    float sum = 0.0f;
    // The key of a block that does not exist is zeros.
    if (id >= 0 && id < kernel_blocks) {
      const ulong block = id, inner = p % block_tokens;
      float16 key[VECTORS];
      for (int j = 0; j < VECTORS; ++j) key[j] = kv_lanes(k, block * k_stride + inner * D, j);
#if SCALES
      const float factor = k_scale[block * k_scale_stride + inner];
#else
      const float factor = 1.0f;
#endif
      for (int h = 0; h < heads; ++h) {
        float16 dots = 0.0f;
        for (int j = 0; j < VECTORS; ++j)
          dots = fma(act_lanes(q, row * q_stride + (ulong)h * D, j), key[j], dots);
        sum = fma(fmax(sum16(dots) * factor, 0.0f), weights[row * weights_stride + h], sum);
      }
    }
    scores[row * scores_stride + p] = sum * scale;
  }
}
