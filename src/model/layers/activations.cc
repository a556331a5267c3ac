#include "model/layers/activations.h"

#include <algorithm>

#include "base/check.h"
#include "device/alignment.h"

namespace sluice::model::layers {
namespace {

struct Widths {
  explicit Widths(const files::ModelConfig& config)
      : q(int64_t{config.num_heads} * config.head_dim),
        qkv(q + 2 * int64_t{config.num_kv_heads} * config.head_dim),
        gate(config.attention_gate ? q : 0),
        channels(config.linear.channels()),
        value(config.linear.value_width()),
        linear_in(channels + value + 2 * int64_t{config.linear.value_heads}) {}
  int64_t q, qkv, gate;
  int64_t channels, value, linear_in;  // zeros where no layer has a state
};

// Offsets of the regions, for the most tokens.
struct Plan {
  size_t hidden = 0, normed = 0, branch = 0;
  size_t first = 0;  // qkv, attended, gate_up
  size_t q = 0;      // after qkv
  size_t attended = 0;
  size_t convolved = 0, recalled = 0;  // after linear_in
  size_t gated = 0;                    // after gate_up
  size_t bytes = 0;

  Plan(const files::ModelConfig& config, const ModelOptions& options) {
    const auto bytes_of = [](DType dtype, int64_t rows, int64_t width) {
      return device::AlignUp(RowBytes(dtype, static_cast<size_t>(rows * width)));
    };
    const auto region = [&](int64_t rows, int64_t width) {
      return bytes_of(options.activation, rows, width);
    };
    const int64_t tokens = options.max_tokens, rows = options.max_logits_rows;
    const DType residual = ops::ResidualDType(options.activation);
    const Widths widths(config);
    normed = hidden + bytes_of(residual, tokens, config.hidden_size);
    branch = normed + region(tokens, config.hidden_size);
    first = branch + std::max(region(tokens, config.hidden_size),
                              bytes_of(residual, rows, config.hidden_size));
    q = first + region(tokens, widths.qkv + widths.gate);
    attended = widths.gate > 0 ? q + region(tokens, widths.q) : first;
    convolved = first + region(tokens, widths.linear_in);
    recalled = convolved + region(tokens, widths.channels);
    gated = first + region(tokens, 2 * int64_t{config.intermediate_size});
    bytes = std::max({q + region(tokens, widths.q), attended + region(tokens, widths.q),
                      recalled + region(tokens, widths.value),
                      gated + region(tokens, config.intermediate_size),
                      first + region(rows, config.hidden_size)});
  }
};

}  // namespace

size_t Activations::Bytes(const files::ModelConfig& config, const ModelOptions& options) {
  return Plan(config, options).bytes;
}

Activations Activations::Slice(const device::View& workspace, const files::ModelConfig& config,
                               const ModelOptions& options, int64_t tokens, int64_t rows) {
  const Plan plan(config, options);
  CHECK(workspace.bytes >= plan.bytes, "workspace of ", workspace.bytes, " of ", plan.bytes);
  CHECK(tokens <= options.max_tokens, tokens, " tokens of ", options.max_tokens);
  CHECK(rows <= options.max_logits_rows, rows, " rows of ", options.max_logits_rows);
  const auto typed = [&](DType dtype, size_t offset, int64_t n, int64_t width) {
    device::View view = workspace;
    view.data += offset;
    view.bytes -= offset;
    return ops::Dense(view, dtype, {n, width});
  };
  const auto at = [&](size_t offset, int64_t n, int64_t width) {
    return typed(options.activation, offset, n, width);
  };
  const DType residual = ops::ResidualDType(options.activation);
  const Widths widths(config);
  Activations a;
  a.hidden = typed(residual, plan.hidden, tokens, config.hidden_size);
  a.normed = at(plan.normed, tokens, config.hidden_size);
  a.branch = at(plan.branch, tokens, config.hidden_size);
  a.last = typed(residual, plan.branch, rows, config.hidden_size);
  a.last_normed = at(plan.first, rows, config.hidden_size);
  a.qkv_gate = at(plan.first, tokens, widths.qkv + widths.gate);
  a.qkv = a.qkv_gate.Columns(0, widths.qkv);
  a.attention_gate = a.qkv_gate.Columns(widths.qkv, widths.gate);
  a.attended = at(plan.attended, tokens, widths.q);
  a.q = at(plan.q, tokens, widths.q);
  a.linear_in = at(plan.first, tokens, widths.linear_in);
  a.linear_qkv = a.linear_in.Columns(0, widths.channels);
  a.linear_gate = a.linear_in.Columns(widths.channels, widths.value);
  a.linear_ba = a.linear_in.Columns(widths.channels + widths.value,
                                    widths.linear_in - widths.channels - widths.value);
  a.convolved = at(plan.convolved, tokens, widths.channels);
  a.recalled = at(plan.recalled, tokens, widths.value);
  a.gate_up = at(plan.first, tokens, 2 * int64_t{config.intermediate_size});
  a.gated = at(plan.gated, tokens, config.intermediate_size);
  return a;
}

}  // namespace sluice::model::layers
