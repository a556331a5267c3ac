// The ops of a recurrent layer: a causal convolution over the tokens of each sequence, which some
// layers gate and have nothing else beside, and what stands behind it: the gated delta rule of a
// gated delta net, or the recurrence of Mamba-2 or of Mamba. Each keeps a state for each sequence,
// which lies in cache blocks as batch/kv_group.h says of a group of states: block i of a sequence's
// table holds the state behind the last computed token of positions [i * block_tokens, (i + 1) *
// block_tokens).
//
// Prefill, chunk and decode are the same op: sequence s has rows [query_start[s], query_start[s +
// 1]), the last of which stands at position context[s] - 1. A call reads the block of the position
// before its first, or begins from zeros at position 0, and writes the block of its last; the two
// may be one block. No sequence crosses a border between blocks within a call. A block that is
// written belongs to one sequence of the call alone; one that is only read may be shared.
//
// A block has room for `states` states, so that drafts can be taken back: the one behind position p
// is its number p % states. A sequence with at most so many tokens in a call leaves the state
// behind each of them, and the next call may go on behind any; one with more leaves its last state.
//
// The state is F32 and goes on token by token, so the bits of a token do not depend on how tokens
// were divided into calls, nor on other sequences. Rows past query_start's last entry are padding:
// neither read nor written. A sequence without query tokens is padding, too. One whose block to
// read or to write is -1 leaves all state alone, and its rows of `out` become zeros.
//
// A block id outside the state, or a context that does not fit its row of the table, is
// kInvalidArgument where the indices lie in host memory, and nothing is written (CheckIndices).
// Elsewhere such a sequence is treated as one whose block is -1.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// out[t, c] = silu(bias[c] + sum over j of weight[c, j] * v[t - (kernel - 1) + j, c]), where v is x
// and rows before a sequence's first of the call are those of its state.
//
// With `gated` (LFM2) a row of x is a gate on what goes in, a gate on what comes out, and the
// input: v[t, c] = x[t, c] * x[t, 2 * channels + c], and out[t, c] is the sum times x[t, channels +
// c], without SiLU. Products with gates are made in F32.
struct ShortConv {
  static constexpr std::string_view kName = "short_conv";
  struct Desc {
    DType activation = DType::kF32;
    int64_t channels = 0;
    int kernel = 4;        // taps, 2 to 8; the last one is the token's own
    int block_tokens = 0;  // positions of a block of states
    int states = 1;        // of a block
    bool gated = false;
    bool bias = false;
    std::string ToString() const;
    int64_t numbers() const { return (kernel - 1) * channels; }        // of a state
    int64_t width() const { return gated ? 3 * channels : channels; }  // of a row of x
  };
  struct Args {
    Tensor x;            // [tokens, width]
    Tensor weight;       // F32 [channels, kernel]
    Tensor bias;         // F32 [channels], where the descriptor has one
    Tensor state;        // F32 [blocks, states * (kernel - 1), channels]: the last rows of v,
                         // oldest first
    Tensor query_start;  // I32 [sequences + 1]
    Tensor context;      // I32 [sequences]: tokens of the sequence, those of this call included
    Tensor block_table;  // I32 [sequences, blocks_max]
    Tensor out;          // [tokens, channels]; may not overlap x
  };
};

// The gated delta rule of Qwen3-Next. Per value head h, with the query and key of head h / (v_heads
// / k_heads), and for each token in order:
//   q = q / sqrt(sum of q^2 + 1e-6) / sqrt(k_head_dim), k = k / sqrt(sum of k^2 + 1e-6)
//   S = S * exp(-exp(a_log[h]) * softplus(a + dt_bias[h]))
//   S = S + k (x) (sigmoid(b) * (v - S^T k)),  out = S^T q
struct GatedDelta {
  static constexpr std::string_view kName = "gated_delta";
  struct Desc {
    DType activation = DType::kF32;
    int k_heads = 0, v_heads = 0;  // v_heads is a multiple of k_heads, the number of query heads
    int k_head_dim = 0, v_head_dim = 0;
    int block_tokens = 0;  // positions of a block of states
    int states = 1;        // of a block
    std::string ToString() const;
    int64_t numbers() const { return int64_t{v_heads} * k_head_dim * v_head_dim; }  // of a state
  };
  struct Args {
    Tensor qkv;          // [tokens, 2 * k_heads * k_head_dim + v_heads * v_head_dim]: q, k, v
    Tensor ba;           // [tokens, 2 * v_heads]: b, a
    Tensor dt_bias;      // F32 [v_heads]
    Tensor a_log;        // F32 [v_heads]
    Tensor state;        // F32 [blocks, states * v_heads, k_head_dim, v_head_dim]
    Tensor query_start;  // I32 [sequences + 1]
    Tensor context;      // I32 [sequences]: tokens of the sequence, those of this call included
    Tensor block_table;  // I32 [sequences, blocks_max]
    Tensor out;          // [tokens, v_heads * v_head_dim]; may not overlap qkv or ba
  };
};

// The recurrence of Mamba-2 ("Transformers are SSMs: Generalized Models and Efficient Algorithms
// Through Structured State Space Duality"), whose state decays by one factor for each head. Per
// value head h, with the key and query of head h / (v_heads / k_heads), and for each token in
// order:
//   step = softplus(dt_scale * dt[h] + dt_bias[h])
//   S = S * exp(step * a[h]) + k (x) (step * v),  out = S^T q + skip[h] * v
// Without `steps` a step is 1, without `skip` nothing is added. Mamba-2 calls v, k, q and skip x,
// B, C and D.
struct Ssd {
  static constexpr std::string_view kName = "ssd";
  struct Desc {
    DType activation = DType::kF32;
    int k_heads = 0, v_heads = 0;  // v_heads is a multiple of k_heads, the number of query heads
    int k_head_dim = 0, v_head_dim = 0;
    int block_tokens = 0;  // positions of a block of states
    int states = 1;        // of a block
    bool steps = false;    // tokens have step sizes
    bool skip = false;     // v goes past the state, too
    float dt_scale = 1.0f;
    std::string ToString() const;
    int64_t numbers() const { return int64_t{v_heads} * k_head_dim * v_head_dim; }  // of a state
  };
  struct Args {
    Tensor vkq;          // [tokens, v_heads * v_head_dim + 2 * k_heads * k_head_dim]: v, k, q
    Tensor dt;           // [tokens, v_heads], where the descriptor has steps
    Tensor dt_bias;      // F32 [v_heads], where the descriptor has steps
    Tensor a;            // F32 [v_heads]; not above 0 in any model
    Tensor skip;         // F32 [v_heads], where the descriptor has one
    Tensor state;        // F32 [blocks, states * v_heads, k_head_dim, v_head_dim]
    Tensor query_start;  // I32 [sequences + 1]
    Tensor context;      // I32 [sequences]: tokens of the sequence, those of this call included
    Tensor block_table;  // I32 [sequences, blocks_max]
    Tensor out;          // [tokens, v_heads * v_head_dim]; may not overlap vkq or dt
  };
};

// The recurrence of Mamba ("Mamba: Linear-Time Sequence Modeling with Selective State Spaces"), in
// which each number of the state decays by a factor of its own. Per channel c, for each token in
// order:
//   step = softplus(dt[c] + dt_bias[c])
//   S[i, c] = S[i, c] * exp(step * a[c, i]) + B[i] * (step * x[c])
//   out[c] = sum over i of C[i] * S[i, c] + skip[c] * x[c]
struct SelectiveScan {
  static constexpr std::string_view kName = "selective_scan";
  struct Desc {
    DType activation = DType::kF32;
    int64_t channels = 0;
    int state_size = 0;    // numbers of a channel's state
    int block_tokens = 0;  // positions of a block of states
    int states = 1;        // of a block
    std::string ToString() const;
    int64_t numbers() const { return channels * state_size; }  // of a state
  };
  struct Args {
    Tensor x;            // [tokens, channels]
    Tensor dt;           // [tokens, channels]
    Tensor bc;           // [tokens, 2 * state_size]: B, C
    Tensor dt_bias;      // F32 [channels]
    Tensor a;            // F32 [channels, state_size]; not above 0 in any model
    Tensor skip;         // F32 [channels]
    Tensor state;        // F32 [blocks, states * state_size, channels]
    Tensor query_start;  // I32 [sequences + 1]
    Tensor context;      // I32 [sequences]: tokens of the sequence, those of this call included
    Tensor block_table;  // I32 [sequences, blocks_max]
    Tensor out;          // [tokens, channels]; may not overlap x, dt or bc
  };
};

// What is added to the sum of squares of q and of k.
inline constexpr float kGatedDeltaNormEps = 1e-6f;

// What a sequence does in a call, or in a part of it. States are told by where their numbers begin,
// counted from the first of Args::state.
struct StateStep {
  int64_t begin = 0, tokens = 0;  // rows of the call
  int64_t read = -1;              // the state to begin from; -1: zeros
  int64_t write = -1;             // where the last state goes; -1: nowhere, and `out` is zeros
};

// Calls body(StateStep) for the parts of a sequence's rows, in order: each leaves one state, which
// the next begins from. A sequence without query tokens has none. REQUIRES: CheckArgs and
// CheckIndices are ok; the indices lie in host memory.
template <class Desc, class Args, class Body>
void ForEachStateStep(const Desc& desc, const Args& args, int64_t sequence, const Body& body) {
  const int32_t* start = args.query_start.template ptr<int32_t>() + sequence;
  StateStep step{.begin = start[0], .tokens = int64_t{start[1]} - start[0]};
  if (step.tokens == 0) return;
  const int64_t end = args.context.template ptr<int32_t>()[sequence], first = end - step.tokens;
  const int32_t* row =
      args.block_table.template ptr<int32_t>() + sequence * args.block_table.strides[0];
  const auto behind = [&](int64_t position) {
    const int64_t block = row[position / desc.block_tokens];
    return block < 0 ? -1 : block * args.state.strides[0] + position % desc.states * desc.numbers();
  };
  if (first > 0) step.read = behind(first - 1);
  if ((first > 0 && step.read < 0) || behind(end - 1) < 0) return body(step);
  const bool each = step.tokens <= desc.states;
  if (each) step.tokens = 1;
  for (int64_t last = each ? first : end - 1; last < end; ++last) {
    step.write = behind(last);
    body(step);
    step.read = step.write;
    ++step.begin;
  }
}

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const ShortConv::Desc& desc, const ShortConv::Args& args);
Status CheckArgs(const GatedDelta::Desc& desc, const GatedDelta::Args& args);
Status CheckArgs(const Ssd::Desc& desc, const Ssd::Args& args);
Status CheckArgs(const SelectiveScan::Desc& desc, const SelectiveScan::Args& args);
// Query rows, contexts and the block ids that will be used make sense. REQUIRES: CheckArgs is ok;
// they lie in host memory.
Status CheckIndices(const ShortConv::Desc& desc, const ShortConv::Args& args);
Status CheckIndices(const GatedDelta::Desc& desc, const GatedDelta::Args& args);
Status CheckIndices(const Ssd::Desc& desc, const Ssd::Args& args);
Status CheckIndices(const SelectiveScan::Desc& desc, const SelectiveScan::Args& args);

Support RefShortConvSupports(const ShortConv::Desc& desc, const device::DeviceFacts& facts);
Status RefShortConv(device::Stream& stream, const ShortConv::Desc& desc,
                    const ShortConv::Args& args);
Support RefGatedDeltaSupports(const GatedDelta::Desc& desc, const device::DeviceFacts& facts);
Status RefGatedDelta(device::Stream& stream, const GatedDelta::Desc& desc,
                     const GatedDelta::Args& args);
Support RefSsdSupports(const Ssd::Desc& desc, const device::DeviceFacts& facts);
Status RefSsd(device::Stream& stream, const Ssd::Desc& desc, const Ssd::Args& args);
Support RefSelectiveScanSupports(const SelectiveScan::Desc& desc, const device::DeviceFacts& facts);
Status RefSelectiveScan(device::Stream& stream, const SelectiveScan::Desc& desc,
                        const SelectiveScan::Args& args);

}  // namespace sluice::ops
