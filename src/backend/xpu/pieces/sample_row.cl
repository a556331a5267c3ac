#include "backend/xpu/pieces/base.cl"
#include "backend/xpu/pieces/philox.cl"
// The structs of ops/sample_row.h, byte for byte.

typedef struct {
  uchar draw, filtered, top_allowed, gap1;
  int target;
  float temperature;
  int top_k;
  float top_p, min_p;
  ulong seed;
  int choice, gap2;
  long position;
  int edit_begin, edit_count, mask_row, top_logprobs, distribution_row, counts_row;
  float repetition_penalty, presence_penalty, frequency_penalty;
  int drafts, slot, guess_row;
} SampleRow;

// What the row's logits are divided by before their softmax; of a greedy one 1.
float logit_divisor(SampleRow row) { return row.temperature == 0.0f ? 1.0f : row.temperature; }
int is_greedy(SampleRow row) { return row.temperature == 0.0f || row.top_k == 1; }

// The row's lot for this purpose, times 2^53.
ulong lot_of(SampleRow row, uint purpose) {
  return uniform_mantissa(row.seed, row.choice, row.position, purpose);
}

typedef struct {
  int id;
  float bias, repetition, subtract;
  uchar banned, gap[3];
} LogitEdit;
typedef struct {
  int token;
  uint degenerate;
  float logprob;
  int rank;
  float processed_logprob;
} SampleOutput;
