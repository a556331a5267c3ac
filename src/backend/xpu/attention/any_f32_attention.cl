#include "backend/xpu/pieces/head_lanes.cl"
#include "backend/xpu/pieces/reduce.cl"
#include "backend/xpu/pieces/sequence.cl"
// Paged attention, a work-group per (KV head, query row), which does all query heads of the KV
// head. -D ACT, KV (f32, f16, bf16, f8, i8), SCALES (0, 1), D: head_dim, GROUP: query heads per KV
// head, CAP (0, 1), SINKS (0, 1), ALIBI (0, 1), GROWTH (0, 1: queries grow with their position),
// ONE_KV (0, 1): all heads share one KV head, and a work-group has some of them; OUT_FROM: numbers
// of a head's result that are left out, a multiple of 16; LISTED (0, 1): a row sees the positions
// of a list of its own, and what is called a position here is a place in the list; PATHS (0, 1; 0
// where LISTED is 1): a row may be of a tree, whose last positions lie elsewhere.
//
// KV is walked in tiles of 16 positions at absolute multiples of 16; work-item i takes the tiles
// whose number is i modulo ITEMS, ascending, and the items' results are put together in their
// order. So a row's bits depend on its own history alone.
#define TILE 16

// What a work-item knows of its part of the history, per query head.
typedef struct {
  float largest[GROUP], sum[GROUP];
  float16 out[GROUP][VECTORS];
} Partial;

// Elements from one kernel block to the next.
typedef struct {
  ulong k, v, k_scale, v_scale;
} Strides;

// A sequence's row of the block table, and what a row of tokens has of its own: its list, or its
// path, which says of the positions behind `elsewhere` how many places further on they lie.
typedef struct {
  global const int *blocks, *listed, *path;
  int kernel_blocks, block_tokens, elsewhere;
} Places;

// The block of a position and where it stands there; -1: it has none.
int block_of(const Places* places, int p, int* offset) {
#if LISTED
  p = places->listed[p];
#elif PATHS
  if (p > places->elsewhere) p += places->path[p - places->elsewhere];
#endif
  *offset = p % places->block_tokens;
  const int id = places->blocks[p / places->block_tokens];
  return id < places->kernel_blocks ? id : -1;
}

// How many positions a list has: below `end`, in which a longer one would point past the table.
int list_end(global const int* listed, int listed_max, int end) {
  int low = 0, high = listed_max;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (listed[middle] >= 0 && listed[middle] < end)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Adds positions [first, end) of one tile. K and V of a block that does not exist are zeros.
void add_tile(Partial* part, const float16 q[GROUP][VECTORS], Bytes k, Bytes v,
              global const float* k_scale, global const float* v_scale, const Places* places,
              Strides strides, int kv_head, int first, int end, float scale, float cap,
              int position, global const float* slopes) {
  float scores[GROUP][TILE];
  for (int g = 0; g < GROUP; ++g)
    for (int p = 0; p < TILE; ++p) scores[g][p] = -INFINITY;
  for (int p = first; p < end; ++p) {
    int offset;
    const int id = block_of(places, p, &offset);
    if (id < 0) {
      for (int g = 0; g < GROUP; ++g)
        scores[g][p % TILE] = ALIBI ? (float)(p - position) * slopes[g] : 0.0f;
      continue;
    }
    const ulong block = id, inner = (ulong)kv_head * places->block_tokens + offset;
    float16 dots[GROUP];
    for (int g = 0; g < GROUP; ++g) dots[g] = 0.0f;
    for (int j = 0; j < VECTORS; ++j) {
      const float16 lanes = kv_lanes(k, block * strides.k + inner * D, j);
      for (int g = 0; g < GROUP; ++g) dots[g] = fma(q[g][j], lanes, dots[g]);
    }
    for (int g = 0; g < GROUP; ++g) {
      float score = sum16(dots[g]);
#if SCALES
      score *= k_scale[block * strides.k_scale + inner];
#endif
      score *= scale;
#if CAP
      score = cap * tanh(score / cap);
#endif
#if ALIBI
      score = fma((float)(p - position), slopes[g], score);
#endif
      scores[g][p % TILE] = score;
    }
  }
  float weights[GROUP][TILE];
  for (int g = 0; g < GROUP; ++g) {
    const float16 all = vload16(0, scores[g]);
    const float largest = fmax(part->largest[g], max16(all));
    const float kept = exp(part->largest[g] - largest);
    const float16 e = exp(all - largest);
    vstore16(e, 0, weights[g]);
    part->largest[g] = largest;
    part->sum[g] = fma(part->sum[g], kept, sum16(e));
    for (int j = 0; j < VECTORS; ++j) part->out[g][j] *= kept;
  }
  for (int p = first; p < end; ++p) {
    int offset;
    const int id = block_of(places, p, &offset);
    if (id < 0) continue;
    const ulong block = id, inner = (ulong)kv_head * places->block_tokens + offset;
#if SCALES
    const float factor = v_scale[block * strides.v_scale + inner];
#else
    const float factor = 1.0f;
#endif
    for (int j = 0; j < VECTORS; ++j) {
      const float16 lanes = kv_lanes(v, block * strides.v + inner * D, j);
      for (int g = 0; g < GROUP; ++g)
        part->out[g][j] = fma(lanes, weights[g][p % TILE] * factor, part->out[g][j]);
    }
  }
}

SLUICE_KERNEL any_f32_attention(
    Bytes q, ulong q_stride, global const int* query_start, global const int* context,
    global const int* block_table, ulong table_stride, Bytes k, Bytes v,
    global const float* k_scale, global const float* v_scale, BytesOut out, ulong out_stride,
    ulong k_stride, ulong v_stride, ulong k_scale_stride, ulong v_scale_stride, int sequences,
    int table_tokens, int kernel_blocks, int block_tokens, int causal, int window, int chunked,
    float scale, float cap, int growth_tokens, float growth_scale, global const float* sinks,
    global const float* slopes, global const int* lists, ulong list_stride, int listed_max,
    global const int* paths, ulong paths_stride) {
  const int kv_head = get_group_id(0), row = get_group_id(1);
  const int item = get_local_id(0);
  const int s = sequence_of(query_start, sequences, row);
  if (s < 0) return;  // padding
  const int length = min(context[s], table_tokens);
  int position = context[s] - (query_start[s + 1] - row), elsewhere = position;
  global const int* path = paths + row * paths_stride;
#if PATHS
  if (path[0] > 0) {
    position -= path[path[0]];
    elsewhere = position - path[0];
  }
#endif
  const Places places = {block_table + s * table_stride,
                         lists + row * list_stride,
                         path,
                         kernel_blocks,
                         block_tokens,
                         elsewhere};
#if LISTED
  const int first = 0, end = list_end(places.listed, listed_max, min(position + 1, length));
#else
  const int end = causal ? min(position + 1, length) : length;
  const int first = chunked                            ? position - position % window
                    : window > 0 && position >= window ? position - window + 1
                                                       : 0;
#endif
#if GROWTH
  scale *= 1.0f + growth_scale * log(1.0f + (float)((position + 1) / growth_tokens));
#endif
  const ulong head_at = (ulong)kv_head * GROUP * D;
  const int width = D - OUT_FROM;

  const Strides strides = {k_stride, v_stride, k_scale_stride, v_scale_stride};
  float16 query[GROUP][VECTORS];
  Partial part;
  for (int g = 0; g < GROUP; ++g) {
    part.largest[g] = -INFINITY;
    part.sum[g] = 0.0f;
    for (int j = 0; j < VECTORS; ++j) {
      query[g][j] = act_lanes(q, row * q_stride + head_at + g * D, j);
      part.out[g][j] = 0.0f;
    }
  }
  for (int tile = first / TILE / ITEMS * ITEMS + item; tile * TILE < end; tile += ITEMS) {
    const int begin = max(first, tile * TILE), stop = min(end, tile * TILE + TILE);
    if (begin < stop)
      add_tile(&part, query, k, v, k_scale, v_scale, &places, strides, ONE_KV ? 0 : kv_head, begin,
               stop, scale, cap, position, slopes + kv_head * GROUP);
  }

#if ITEMS > 1
  local float largest[ITEMS], sums[ITEMS];
  local float16 outs[ITEMS][VECTORS];
#endif
  for (int g = 0; g < GROUP; ++g) {
#if ITEMS > 1
    largest[item] = part.largest[g];
    sums[item] = part.sum[g];
    for (int j = 0; j < VECTORS; ++j) outs[item][j] = part.out[g][j];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
      float top = -INFINITY, sum = 0.0f;
      for (int i = 0; i < ITEMS; ++i) top = fmax(top, largest[i]);
      for (int j = 0; j < VECTORS; ++j) part.out[g][j] = 0.0f;
      for (int i = 0; i < ITEMS; ++i) {
        if (largest[i] == -INFINITY && sums[i] == 0.0f) continue;
        const float kept = exp(largest[i] - top);
        sum = fma(sums[i], kept, sum);
        for (int j = 0; j < VECTORS; ++j) part.out[g][j] = fma(outs[i][j], kept, part.out[g][j]);
      }
      part.largest[g] = top;
      part.sum[g] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (item != 0) continue;
    const ulong to = row * out_stride + (ulong)(kv_head * GROUP + g) * width - OUT_FROM;
    float sum = part.sum[g], fade = 1.0f;
#if SINKS
    const float sink = sinks[kv_head * GROUP + g], most = fmax(part.largest[g], sink);
    fade = exp(part.largest[g] - most);
    sum = fma(sum, fade, exp(sink - most));
#endif
    for (int j = OUT_FROM / 16; j < VECTORS; ++j) {
      const float16 value = part.out[g][j] * fade / sum;
#if D % 16 != 0
      if (j == VECTORS - 1) {
        float lanes[16];
        vstore16(value, 0, lanes);
        for (int i = 0; j * 16 + i < D; ++i) store_act(out, to + j * 16 + i, lanes[i]);
        continue;
      }
#endif
      store16_act(out, to + j * 16, value);
    }
  }
}
