#include "backend/xpu/pieces/base.cl"
// Which rows of a call belong to which sequence, and where a sequence's state lies.

// The sequence whose rows hold `row`, or -1. Starts ascend.
int sequence_of(global const int* start, int sequences, int row) {
  if (sequences == 0 || row >= start[sequences]) return -1;
  int low = 0, high = sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (start[middle] <= row)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// What all rows of a sequence do in a call of an op with a state; see ops::StateStep.
typedef struct {
  int begin, tokens;  // rows
  int first;          // position of the first row
  long read, write;   // where the first state and the block to write begin; -1: zeros, none
} StateStep;

// What a table of block ids says of sequences, and where their states lie.
typedef struct {
  global const int *query_start, *context, *block_table;
  ulong table_stride, block_stride, numbers;
  int table_width, block_tokens, blocks, states, rows;
} StateTable;

// Whether the state behind row `t` is kept, and where.
bool keeps(const StateTable* table, const StateStep* step, int t) {
  return step->tokens <= table->states || t + 1 == step->tokens;
}
ulong place_of(const StateTable* table, const StateStep* step, int t) {
  return step->write + (step->first + t) % table->states * table->numbers;
}

StateStep state_step(const StateTable* table, int s) {
  StateStep step;
  step.begin = clamp(table->query_start[s], 0, table->rows);
  step.tokens = clamp(table->query_start[s + 1], step.begin, table->rows) - step.begin;
  step.read = step.write = -1;
  step.first = 0;
  const int end = table->context[s], first = end - step.tokens;
  if (step.tokens == 0 || first < 0 || (end - 1) / table->block_tokens >= table->table_width)
    return step;
  step.first = first;
  global const int* row = table->block_table + s * table->table_stride;
  if (first > 0) {
    const int id = row[(first - 1) / table->block_tokens];
    if (id < 0 || id >= table->blocks) return step;
    step.read = id * table->block_stride + (first - 1) % table->states * table->numbers;
  }
  const int id = row[(end - 1) / table->block_tokens];
  if (id >= 0 && id < table->blocks) step.write = id * table->block_stride;
  return step;
}
