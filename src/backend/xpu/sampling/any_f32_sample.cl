#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/sample_row.cl"
#include "backend/xpu/pieces/wide.cl"
// Sampling by the rules of ops/sampling_rules.h, a work-group per row.
//
// Weights are whole multiples of the grid, in 64-bit integers, so that their sums are exact without
// F64. Each work-item has its own ids, [begin, end), ascending with the item.

#define WEIGHT_FLOOR -40.0f
#define ZERO_PROBABILITY -9999.0f
#define CHUNK (((vocab + ITEMS - 1) / ITEMS + 15) / 16 * 16)
// A whole weight of 1 is 2^this.
#define GRID_SHIFT (53 - (32 - (int)clz(vocab)))

// --- A work-group's sums ----------------------------------------------------------------------

#if ITEMS == 1
#define SHARED_PARAM , int vocab
#define SHARED , vocab
#define group_add(x) (x)
#define group_largest(x) (x)
#define group_least(x) (x)
#define group_any(x) (x)
#define group_wait()
#else
#define SHARED_PARAM , int vocab, local ulong *shared
#define SHARED , vocab, shared
#define SLUICE_REDUCE(name, expression)                        \
  ulong name(ulong x, local ulong* shared) {                   \
    const int item = get_local_id(0);                          \
    shared[item] = x;                                          \
    for (int step = ITEMS / 2; step > 0; step /= 2) {          \
      barrier(CLK_LOCAL_MEM_FENCE);                            \
      if (item < step) {                                       \
        const ulong a = shared[item], b = shared[item + step]; \
        shared[item] = (expression);                           \
      }                                                        \
    }                                                          \
    barrier(CLK_LOCAL_MEM_FENCE);                              \
    const ulong result = shared[0];                            \
    barrier(CLK_LOCAL_MEM_FENCE);                              \
    return result;                                             \
  }
SLUICE_REDUCE(reduce_add, a + b)
SLUICE_REDUCE(reduce_max, max(a, b))
SLUICE_REDUCE(reduce_min, min(a, b))
#define group_add(x) reduce_add(x, shared)
#define group_largest(x) reduce_max(x, shared)
#define group_least(x) reduce_min(x, shared)
#define group_any(x) (reduce_max(x, shared) != 0)
#define group_wait() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#endif

// Ascends with the value; both zeros have one key. No NaN.
uint key_of(float x) {
  const uint bits = as_uint(x == 0.0f ? 0.0f : x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint key) { return as_float((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key); }

// --- Weights ----------------------------------------------------------------------------------

typedef struct {
  float max, scale;  // x = (logit - max) * scale
  float floor;       // kept: x of at least this,
  uint cut;          // a key above this, or equal to it
  int ties_end;      // and before this id
  float one;         // the weight of the likeliest token, in steps of the grid
} Weigh;

// e^x on the grid, for 16 x at once; 0 below the floor of all weights.
float16 grid_weights(float16 x, float one) {
  const float16 round = 0x1.8p23f;
  const float16 n = (x * 1.44269504088896341f + round) - round;
  float16 r = fma(n, (float16)(-0.693145751953125f), x);
  r = fma(n, (float16)(-1.42860682030941723212e-6f), r);
  float16 p = fma(r, (float16)(1.0f / 5040), (float16)(1.0f / 720));
  p = fma(p, r, (float16)(1.0f / 120));
  p = fma(p, r, (float16)(1.0f / 24));
  p = fma(p, r, (float16)(1.0f / 6));
  p = fma(p, r, (float16)(0.5f));
  const float16 power = as_float16((convert_int16(n) + 127) << 23);
  const float16 w = (fma(p, r * r, r) + 1.0f) * power;
  // From 2^23 on a float is whole.
  return select((float16)(0.0f), rint(w * one), x >= (float16)(WEIGHT_FLOOR));
}
ulong add16(ulong16 w) {
  const ulong8 a = w.lo + w.hi;
  const ulong4 b = a.lo + a.hi;
  return b.x + b.y + b.z + b.w;
}

// The logits of 16 ids from i on, -inf past the end.
float16 logits16(global const float* logits, int i, int end) {
  if (i + 16 <= end) return vload16(0, logits + i);
  float lanes[16];
  for (int j = 0; j < 16; ++j) lanes[j] = i + j < end ? logits[i + j] : -INFINITY;
  return vload16(0, lanes);
}

// The weights of 16 ids that are kept.
float16 kept_weights(Weigh weigh, float16 logits, int i) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const float16 x = (logits - weigh.max) * weigh.scale;
  const float cut = value_of(weigh.cut);
  const int16 kept = (logits > cut || (logits == cut && (lane + i) < (int16)(weigh.ties_end))) &&
                     x >= (float16)(weigh.floor);
  return select((float16)(0.0f), grid_weights(x, weigh.one), kept);
}

ulong total_of(Weigh weigh, global const float* logits, int begin, int end) {
  ulong16 sum = 0;
  for (int i = begin; i < end; i += 16)
    sum += convert_ulong16(kept_weights(weigh, logits16(logits, i, end), i));
  return add16(sum);
}

Weigh weigh_all(float max, float divisor, int vocab) {
  const Weigh weigh = {max,   fmin(1.0f / divisor, FLT_MAX), WEIGHT_FLOOR, key_of(-INFINITY),
                       vocab, (float)(1UL << GRID_SHIFT)};
  return weigh;
}

// --- The raw row ------------------------------------------------------------------------------

typedef struct {
  float max;   // NaN ignored; -inf where there is nothing else
  int argmax;  // the first; 0 where all are NaN
  int bad;     // a NaN or +inf
  int signal;  // a value that is neither 0 nor infinite
} Scan;

Scan scan_row(global const float* logits, int begin, int end SHARED_PARAM) {
  float16 largest = -INFINITY;
  int16 bad = 0, signal = 0;
  for (int i = begin; i < end; i += 16) {
    const float16 v = logits16(logits, i, end);
    largest = select(largest, v, v > largest);
    bad |= !(v < (float16)(INFINITY));
    signal |= v != (float16)(0.0f) && v > (float16)(-INFINITY) && v < (float16)(INFINITY);
  }
  float lanes[16], item_max = -INFINITY;
  vstore16(largest, 0, lanes);
  for (int j = 0; j < 16; ++j) item_max = lanes[j] > item_max ? lanes[j] : item_max;
  Scan scan;
  scan.max = value_of((uint)group_largest(key_of(item_max)));
  scan.bad = group_any(any(bad)) != 0;
  scan.signal = group_any(any(signal)) != 0;
  int first = vocab;
  for (int i = begin; i < end && first == vocab; i += 16) {
    const int16 same = logits16(logits, i, end) == (float16)(scan.max);
    if (!any(same)) continue;
    for (int j = i; j < min(i + 16, end) && first == vocab; ++j)
      if (logits[j] == scan.max) first = j;
  }
  const int argmax = (int)group_least((ulong)first);
  scan.argmax = argmax == vocab ? 0 : argmax;
  return scan;
}

#define IN_PROMPT 0x80000000u

// How often the id came before a row: its counts, and the drafts that the row takes as drawn.
uint count_of(global const uint* counts, Bytes row_bytes, ulong row_stride, int drafts, int id) {
  uint count = counts[id];
  for (int d = 1; d <= drafts; ++d)
    count += ((global const SampleRow*)(row_bytes - d * row_stride))->target == id;
  return count;
}

float edited(LogitEdit edit, SampleRow row, uint count, float logit) {
  if (count != 0) edit.repetition *= row.repetition_penalty;
  const uint answer = count & ~IN_PROMPT;
  if (answer != 0)
    edit.subtract += row.presence_penalty + row.frequency_penalty * convert_float(answer);
  logit += edit.bias;
  logit = logit > 0 ? logit / edit.repetition : logit * edit.repetition;
  logit -= edit.subtract;
  return edit.banned != 0 || isnan(logit) ? -INFINITY : logit;
}

int allows(global const uint* allowed, int id) {
  return allowed == 0 || (allowed[id / 32] >> (id % 32) & 1u) != 0;
}

// The item's part of the raw logits, -inf where the mask says so.
void forbid(global const float* raw, global const uint* allowed, global float* to, int begin,
            int end) {
  for (int i = begin; i < end; ++i) to[i] = allows(allowed, i) ? raw[i] : -INFINITY;
}

// Raw logits after mask, penalties and edits. `row_bytes`: where the row lies, behind `at` others.
void process(global const float* raw, SampleRow row, Bytes row_bytes, ulong row_stride, ulong at,
             global const LogitEdit* edits, int edit_count, global const uint* counts,
             global const uint* allowed, global float* processed, int begin, int end, int vocab) {
  const LogitEdit none = {0, 0.0f, 1.0f, 0.0f, 0, {0, 0, 0}};
  for (int i = begin; i < end; ++i) {
    float logit = raw[i];
    if (counts != 0 && counts[i] != 0) logit = edited(none, row, counts[i], logit);
    processed[i] = allows(allowed, i) ? logit : -INFINITY;
  }
  group_wait();
  const int drafts = counts == 0 || row.drafts > (long)at ? 0 : row.drafts;
  for (int d = 1 + get_local_id(0); d <= drafts; d += ITEMS) {
    const int id = ((global const SampleRow*)(row_bytes - d * row_stride))->target;
    if (id < 0 || id >= vocab || !allows(allowed, id)) continue;
    const uint count = count_of(counts, row_bytes, row_stride, drafts, id);
    processed[id] = edited(none, row, count, raw[id]);
  }
  group_wait();
  const long edits_end = min((long)row.edit_begin + row.edit_count, (long)edit_count);
  for (long e = max(row.edit_begin, 0) + get_local_id(0); e < edits_end; e += ITEMS) {
    const LogitEdit edit = edits[e];
    if (edit.id < 0 || edit.id >= vocab || !allows(allowed, edit.id)) continue;
    const uint count = counts == 0 ? 0 : count_of(counts, row_bytes, row_stride, drafts, edit.id);
    processed[edit.id] = edited(edit, row, count, raw[edit.id]);
  }
  group_wait();
}

// --- Selection --------------------------------------------------------------------------------

typedef struct {
  uint key;
  ulong ties;
} Cut;

// The sum over list[0, count) of values with keys of at least `bound`: weights, or 1 each.
ulong measure(Weigh weigh, int weighted, global const float* list, int count, uint bound) {
  const float least = value_of(bound);
  ulong16 sum = 0;
  for (int i = 0; i < count; i += 16) {
    const float16 v = logits16(list, i, count);
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int16 in = v >= (float16)(least) && lane < (int16)(count - i);
    const float16 w =
        weighted ? grid_weights((v - weigh.max) * weigh.scale, weigh.one) : (float16)(1.0f);
    sum += convert_ulong16(select((float16)(0.0f), w, in));
  }
  return add16(sum);
}

// The shortest prefix of the items' lists, in descending order, whose measure is `target` or more;
// at least one value. Overwrites the lists.
Cut select_cut(Weigh weigh, int weighted, global float* list, int count,
               ulong target SHARED_PARAM) {
  ulong base = 0;  // measure of what lies above the lists
  for (;;) {
    uint low = 0xffffffffu, high = 0;
    for (int i = 0; i < count; ++i) {
      const uint key = key_of(list[i]);
      low = min(low, key);
      high = max(high, key);
    }
    low = (uint)group_least((ulong)low);
    high = (uint)group_largest((ulong)high);
    if (low >= high) {
      const ulong all = group_add((ulong)count);
      const ulong all_weigh = group_add(measure(weigh, weighted, list, count, low));
      const ulong each = all == 0 ? 0 : all_weigh / all;
      const ulong missing = target > base ? target - base : 0;
      const Cut cut = {
          low, each == 0 ? max(all, 1UL) : clamp((missing + each - 1) / each, 1UL, max(all, 1UL))};
      return cut;
    }
    const uint middle = low + (high - low) / 2 + 1;
    const float bound = value_of(middle);
    const ulong above = group_add(measure(weigh, weighted, list, count, middle));
    const int upper = base + above >= target;
    if (!upper) base += above;
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      const float v = list[i];
      list[kept] = v;
      kept += (v >= bound) == upper;
    }
    count = kept;
  }
}

// Fills an item's list with its logits of at least `least`.
int take(global const float* logits, global float* list, int begin, int end, float least) {
  int count = 0;
  for (int i = begin; i < end; i += 16) {
    const float16 v = logits16(logits, i, end);
    if (!any(v >= (float16)(least))) continue;
    for (int j = i; j < min(i + 16, end); ++j) {
      list[count] = logits[j];
      count += logits[j] >= least;
    }
  }
  return count;
}

// Just after the nth id (from 1) whose logit has this key.
int after_equal(global const float* logits, int begin, int end, uint key, ulong nth SHARED_PARAM) {
  const float value = value_of(key);
  ulong mine = 0;
  for (int i = begin; i < end; ++i) mine += logits[i] == value;
#if ITEMS > 1
  shared[get_local_id(0)] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  ulong before = 0;
  for (int i = 0; i < get_local_id(0); ++i) before += shared[i];
  barrier(CLK_LOCAL_MEM_FENCE);
#else
  const ulong before = 0;
#endif
  int found = vocab;
  if (before < nth && before + mine >= nth) {
    ulong seen = before;
    for (int i = begin; i < end && found == vocab; ++i)
      if (logits[i] == value && ++seen == nth) found = i + 1;
  }
  return (int)group_least((ulong)found);
}

// --- Rejection, by the rules of ops/rejection_rules.h -----------------------------------------

#define COMPARED -1
#define CERTAINTY (1UL << 63)

// Weights to probabilities, in steps of 2^-63.
typedef struct {
  int shift;
  ulong reciprocal;
} Shares;

// REQUIRES: total > 0. (2^127 - 1) / (total << shift), a bit at a time.
Shares shares_of(ulong total) {
  Shares shares = {(int)clz(total), 0};
  const ulong divisor = total << shares.shift;
  ulong rest = CERTAINTY - 1;
  for (int bit = 0; bit < 64; ++bit) {
    const int carry = rest >= CERTAINTY;
    rest = rest << 1 | 1;
    const int fits = carry || rest >= divisor;
    shares.reciprocal = shares.reciprocal << 1 | (ulong)fits;
    if (fits) rest -= divisor;
  }
  return shares;
}
ulong16 share16(Shares shares, float16 weights) {
  return mul_hi(convert_ulong16(weights) << (ulong16)((ulong)shares.shift),
                (ulong16)(shares.reciprocal));
}

// Where drafts come from.
typedef struct {
  global const float* logits;  // [rows, count]
  ulong stride;
  global const int* guess_of;  // of an id its number
  int mapped;                  // else the numbers are the ids
  int rows, count;
} Guesses;

// What a token weighs when it is drawn: its probability less that which the draft had, or, where
// nothing is rejected, its weight.
typedef struct {
  int rejects, subtracts;
  Shares p, q;
  Guesses guesses;
  global const float* logits;  // of the draft; 0: it was certain
  Weigh weigh;                 // of the draft's logits
  int draft;
} Left;

float16 guess_logits16(Left left, int i, int end) {
  float lanes[16];
  for (int j = 0; j < 16; ++j) {
    const int id = min(i + j, end - 1);
    const int guess = left.guesses.mapped ? left.guesses.guess_of[id] : id;
    lanes[j] = guess >= 0 && guess < left.guesses.count ? left.logits[guess] : -INFINITY;
  }
  return vload16(0, lanes);
}

// The draft's probabilities of 16 ids.
ulong16 draft_shares16(Left left, int i, int end) {
  if (left.logits == 0) {
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return select((ulong16)(0), (ulong16)(CERTAINTY),
                  convert_ulong16(lane + i == (int16)(left.draft)) << (ulong16)(63));
  }
  const float16 x = (guess_logits16(left, i, end) - left.weigh.max) * left.weigh.scale;
  return share16(left.q, grid_weights(x, left.weigh.one));
}

ulong16 left16(Left left, Weigh weigh, float16 logits, int i, int end) {
  const float16 weights = kept_weights(weigh, logits, i);
  if (!left.rejects) return convert_ulong16(weights);
  const ulong16 p = share16(left.p, weights);
  return left.subtracts ? p - min(p, draft_shares16(left, i, end)) : p;
}

ulong total_left(Left left, Weigh weigh, global const float* logits, int begin, int end) {
  ulong16 sum = 0;
  for (int i = begin; i < end; i += 16)
    sum += left16(left, weigh, logits16(logits, i, end), i, end);
  return add16(sum);
}

// Of a row whose kept weights sum to `total`.
Left left_of(SampleRow row, Guesses guesses, ulong total SHARED_PARAM) {
  const Shares none = {0, 0};
  Left left;
  left.rejects = row.guess_row != COMPARED && row.guess_row < guesses.rows && row.target >= 0 &&
                 row.target < vocab;
  left.subtracts = 1;
  left.p = left.q = none;
  left.guesses = guesses;
  left.logits = 0;
  left.weigh = weigh_all(0.0f, 1.0f, 1);
  left.draft = row.target;
  if (!left.rejects) return left;
  left.p = shares_of(total);
  if (row.guess_row < 0) return left;
  global const float* logits = guesses.logits + row.guess_row * guesses.stride;
  const int each = ((guesses.count + ITEMS - 1) / ITEMS + 15) / 16 * 16;
  const int begin = min(guesses.count, (int)get_local_id(0) * each);
  const int end = min(guesses.count, begin + each);
  const Scan scan = scan_row(logits, begin, end SHARED);
  if (scan.bad || !scan.signal) return left;
  left.weigh = weigh_all(scan.max, logit_divisor(row), guesses.count);
  left.q = shares_of(group_add(total_of(left.weigh, logits, begin, end)));
  left.logits = logits;
  return left;
}

// --- Drawing ----------------------------------------------------------------------------------

// The first id at which the running sum exceeds the aim. `mine`: what the item's ids sum to.
int find_token(Left left, Weigh weigh, global const float* logits, ulong mine, ulong aim, int begin,
               int end SHARED_PARAM) {
#if ITEMS > 1
  shared[get_local_id(0)] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  ulong sum = 0;
  for (int i = 0; i < get_local_id(0); ++i) sum += shared[i];
  barrier(CLK_LOCAL_MEM_FENCE);
#else
  ulong sum = 0;
#endif
  int token = vocab;
  if (sum <= aim && sum + mine > aim) {
    for (int i = begin; i < end && token == vocab; i += 16) {
      const ulong16 w = left16(left, weigh, logits16(logits, i, end), i, end);
      const ulong all = add16(w);
      if (sum + all <= aim) {
        sum += all;
        continue;
      }
      ulong lanes[16];
      vstore16(w, 0, lanes);
      for (int j = 0; j < 16 && token == vocab; ++j) {
        sum += lanes[j];
        if (sum > aim) token = i + j;
      }
    }
  }
  return (int)group_least((ulong)token);
}

// A number below the product with 2^64 of what is wanted.
ulong uniform_share(SampleRow row, uint purpose) { return lot_of(row, purpose) << 11; }

int draw_kept(Weigh weigh, global const float* logits, SampleRow row, Guesses guesses, int begin,
              int end SHARED_PARAM) {
  const ulong mine = total_of(weigh, logits, begin, end);
  const ulong total = group_add(mine);
  Left left = left_of(row, guesses, total SHARED);
  if (!left.rejects) {
    const ulong aim = rounded_product(total, lot_of(row, TOKEN_DRAW), 53, 0);
    return find_token(left, weigh, logits, mine, aim < total ? aim : total - 1, begin, end SHARED);
  }
  const int d = row.target;
  const ulong p = share16(left.p, kept_weights(weigh, (float16)(logits[d]), d)).s0;
  if (mul_hi(draft_shares16(left, d, d + 1).s0, uniform_share(row, ACCEPT_DRAW)) < p) return d;
  // Where p and q are the same but for rounding, nothing is left; then p itself is drawn from.
  for (; left.subtracts >= 0; --left.subtracts) {
    const ulong mine_left = total_left(left, weigh, logits, begin, end);
    const ulong all = group_add(mine_left);
    if (all == 0) continue;
    const ulong aim = mul_hi(all, uniform_share(row, RESIDUAL_DRAW));
    return find_token(left, weigh, logits, mine_left, aim, begin, end SHARED);
  }
  return d;
}

// The bits of min-p's smallest x, and of top-p times a total.
float min_p_floor(float min_p) {
  if (!(min_p > 0.0f)) return WEIGHT_FLOOR;
  const uint bits = as_uint(min_p);
  const ulong m = bits >= 0x800000u ? (bits & 0x7fffffu) | 0x800000u : bits;
  const Wide log_p = wide_log(m, bits >= 0x800000u ? (int)(bits >> 23) - 150 : -149);
  return clamp(log_p.hi, WEIGHT_FLOOR, 0.0f);
}
ulong top_p_target(float top_p, ulong total) {
  if (!(top_p > 0.0f)) return 0;
  const uint bits = as_uint(top_p);
  const ulong m = bits >= 0x800000u ? (bits & 0x7fffffu) | 0x800000u : bits;
  return rounded_product(total, m, bits >= 0x800000u ? 150 - (int)(bits >> 23) : 149, 1);
}

// *kept becomes what the filters leave.
int draw_token(global const float* logits, global float* list, float max, SampleRow row,
               Guesses guesses, Weigh* kept, int begin, int end SHARED_PARAM) {
  Weigh weigh = weigh_all(max, logit_divisor(row), vocab);
  if (row.top_k > 0 && row.top_k < vocab) {
    const int count = take(logits, list, begin, end, -INFINITY);
    const Cut cut = select_cut(weigh, 0, list, count, (ulong)row.top_k SHARED);
    weigh.cut = cut.key;
    weigh.ties_end = after_equal(logits, begin, end, cut.key, cut.ties SHARED);
  }
  if (row.top_p < 1.0f) {
    const ulong total = group_add(total_of(weigh, logits, begin, end));
    // What weighs nothing is never needed to reach the target.
    const float least = fmax(value_of(weigh.cut), max + (WEIGHT_FLOOR - 1.0f) / weigh.scale);
    const int count = take(logits, list, begin, end, least);
    const Cut cut = select_cut(weigh, 1, list, count, top_p_target(row.top_p, total) SHARED);
    weigh.cut = cut.key;
    weigh.ties_end = after_equal(logits, begin, end, cut.key, cut.ties SHARED);
  }
  weigh.floor = min_p_floor(row.min_p);
  *kept = weigh;
  return draw_kept(weigh, logits, row, guesses, begin, end SHARED);
}

// --- Log-probs --------------------------------------------------------------------------------

float log_prob(float logit, float max, float divisor, Wide log_total) {
  if (!(logit > -INFINITY)) return ZERO_PROBABILITY;
  Wide x = wide_difference(logit, max);
  if (divisor != 1.0f) {
    if (!(fabs(x.hi / divisor) <= FLT_MAX)) return ZERO_PROBABILITY;
    x = wide_div(x, wide(divisor, 0.0f));
  }
  log_total.hi = -log_total.hi;
  log_total.lo = -log_total.lo;
  const Wide result = wide_add(x, log_total);
  return isfinite(result.hi) ? result.hi : ZERO_PROBABILITY;
}

// The log-probs of what is kept; `token`: on which all lies, or below 0.
void report_filtered(global const float* logits, Weigh kept, float divisor, int token,
                     global float* to, int begin, int end SHARED_PARAM) {
  if (token >= 0) {
    for (int i = begin; i < end; ++i) to[i] = i == token ? 0.0f : ZERO_PROBABILITY;
    return;
  }
  const Wide log_total = wide_log(group_add(total_of(kept, logits, begin, end)), -GRID_SHIFT);
  for (int i = begin; i < end; i += 16) {
    float weights[16];
    vstore16(kept_weights(kept, logits16(logits, i, end), i), 0, weights);
    for (int j = i; j < min(i + 16, end); ++j)
      to[j] = weights[j - i] > 0.0f ? log_prob(logits[j], kept.max, divisor, log_total)
                                    : ZERO_PROBABILITY;
  }
}

// `raw`: what is told of; `logit`: of the token.
void report_top(global const float* raw, float logit, SampleRow row, float max, Wide log_total,
                global int* ids, global float* logprobs, SampleOutput* output, int top_max,
                int begin, int end SHARED_PARAM) {
  output->logprob = log_prob(logit, max, 1.0f, log_total);
  ulong before = 0;
  for (int i = begin; i < end; ++i)
    before += raw[i] > logit || (raw[i] == logit && i < output->token);
  output->rank = (int)group_add(before);
  const int wanted = min(min(row.top_logprobs, top_max), vocab);
  float last = INFINITY;
  int last_id = -1;
  for (int place = 0; place < wanted; ++place) {
    float best = -INFINITY;
    int best_id = vocab;
    for (int i = begin; i < end; i += 16) {
      const float16 v = logits16(raw, i, end);
      if (best_id < vocab && !any(v > (float16)(best) && v <= (float16)(last))) continue;
      for (int j = i; j < min(i + 16, end); ++j) {
        const int after = raw[j] < last || (raw[j] == last && j > last_id);
        if (after && (best_id == vocab || raw[j] > best)) {
          best = raw[j];
          best_id = j;
        }
      }
    }
#if ITEMS > 1
    // The best of the items: the largest value, then the least id.
    const uint key = (uint)group_largest(best_id == vocab ? 0UL : (ulong)key_of(best));
    best_id =
        (int)group_least(best_id < vocab && key_of(best) == key ? (ulong)best_id : (ulong)vocab);
    best = value_of(key);
#endif
    last = best;
    last_id = best_id;
    if (get_local_id(0) == 0) {
      ids[place] = best_id;
      logprobs[place] = log_prob(best, max, 1.0f, log_total);
    }
  }
  if (output->rank >= wanted && get_local_id(0) == 0) {
    ids[wanted] = output->token;
    logprobs[wanted] = output->logprob;
  }
}

// --- The row ----------------------------------------------------------------------------------

// `workspace`: two rows of CHUNK * ITEMS floats per row.
SLUICE_KERNEL any_f32_sample(
    global const float* logits, ulong logits_stride, Bytes rows, ulong row_stride,
    global const LogitEdit* edits, global const uint* counts, ulong counts_stride,
    global const uint* masks, ulong mask_stride, BytesOut outputs, ulong output_stride,
    global int* top_ids, global float* top_logprobs, ulong top_stride, global float* distributions,
    ulong distribution_stride, global float* workspace, int vocab, int top_max, int edit_count,
    int counts_rows, int mask_rows, int distribution_rows, global const float* guess_logits,
    ulong guess_stride, global const int* guess_of, int mapped, int guess_rows, int guess_count) {
#if ITEMS > 1
  local ulong shared[ITEMS];
#endif
  const ulong at = get_group_id(0);
  Bytes row_bytes = rows + at * row_stride;
  const SampleRow row = *(global const SampleRow*)row_bytes;
  global const float* raw = logits + at * logits_stride;
  global float* processed = workspace + at * 2 * CHUNK * ITEMS;
  const int begin = min(vocab, (int)get_local_id(0) * CHUNK), end = min(vocab, begin + CHUNK);
  global float* list = processed + CHUNK * ITEMS + begin;
  const Guesses guesses = {guess_logits, guess_stride, guess_of, mapped, guess_rows, guess_count};
  top_ids += at * top_stride;
  top_logprobs += at * top_stride;
  const int wants = row.top_logprobs >= 0;
  const int counted = row.counts_row >= 0 && row.counts_row < counts_rows;
  const int masked = row.mask_row >= 0 && row.mask_row < mask_rows;
  int distributed = row.distribution_row >= 0 && row.distribution_row < distribution_rows;
  global float* to = distributions + (distributed ? row.distribution_row : 0) * distribution_stride;
  const Scan scan = scan_row(raw, begin, end SHARED);
  SampleOutput output = {row.draw ? scan.argmax : row.target, 0, 0.0f, 0, 0.0f};
  const int degenerate = scan.bad || !scan.signal;
  Wide log_total = {0.0f, 0.0f};
  if (degenerate) {
    output.degenerate = 1;
    if (wants) {
      output.logprob = output.processed_logprob = ZERO_PROBABILITY;
      if (get_local_id(0) == 0) {
        top_ids[0] = output.token;
        top_logprobs[0] = ZERO_PROBABILITY;
      }
    }
  } else {
    const int greedy = is_greedy(row);
    const int changed = row.edit_count > 0 || counted || masked;
    const int filters = distributed && row.draw && row.filtered;
    if (row.draw && (!greedy || changed || wants || filters)) {
      global const float* from = raw;
      Scan seen = scan;
      if (changed) {
        process(raw, row, row_bytes, row_stride, at, edits, edit_count,
                counted ? counts + row.counts_row * counts_stride : 0,
                masked ? masks + row.mask_row * mask_stride : 0, processed, begin, end, vocab);
        from = processed;
        seen = scan_row(from, begin, end SHARED);
      }
      if (isinf(seen.max)) {
        output.degenerate = 1;
      } else {
        const float divisor = logit_divisor(row);
        Weigh kept = weigh_all(seen.max, divisor, vocab);
        output.token =
            greedy ? seen.argmax
                   : draw_token(from, list, seen.max, row, guesses, &kept, begin, end SHARED);
        if (filters)
          report_filtered(from, kept, divisor, greedy ? output.token : -1, to, begin, end SHARED);
        if (wants) {
          const Weigh all = weigh_all(seen.max, divisor, vocab);
          const ulong total = group_add(total_of(all, from, begin, end));
          output.processed_logprob =
              log_prob(from[output.token], seen.max, divisor, wide_log(total, -GRID_SHIFT));
        }
      }
    }
    if (filters) {
      for (int i = begin; output.degenerate && i < end; ++i) to[i] = ZERO_PROBABILITY;
      distributed = 0;
    }
    if (wants || distributed) {
      const Weigh all = weigh_all(scan.max, 1.0f, vocab);
      log_total = wide_log(group_add(total_of(all, raw, begin, end)), -GRID_SHIFT);
    }
    if (wants) {
      const int allowed = masked && row.top_allowed;
      if (allowed) forbid(raw, masks + row.mask_row * mask_stride, processed, begin, end);
      const int known = output.token >= 0 && output.token < vocab;
      report_top(allowed ? processed : raw, known ? raw[output.token] : -INFINITY, row, scan.max,
                 log_total, top_ids, top_logprobs, &output, top_max, begin, end SHARED);
    }
  }
  if (distributed) {
    for (int i = begin; i < end; ++i)
      to[i] = degenerate ? ZERO_PROBABILITY : log_prob(raw[i], scan.max, 1.0f, log_total);
  }
  if (get_local_id(0) == 0) *(global SampleOutput*)(outputs + at * output_stride) = output;
}
