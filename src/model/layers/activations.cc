#include "model/layers/activations.h"

#include <algorithm>

#include "base/check.h"
#include "device/alignment.h"

namespace sluice::model::layers {
namespace {

// Offsets of the regions, for the most tokens.
struct Plan {
  size_t hidden = 0, normed = 0, branch = 0;
  size_t first = 0;  // qkv, attended, gate_up
  size_t q = 0;      // after qkv
  size_t gated = 0;  // after gate_up
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
    const int64_t q_width = int64_t{config.num_heads} * config.head_dim;
    const int64_t kv_width = int64_t{config.num_kv_heads} * config.head_dim;
    normed = hidden + bytes_of(residual, tokens, config.hidden_size);
    branch = normed + region(tokens, config.hidden_size);
    first = branch + std::max(region(tokens, config.hidden_size),
                              bytes_of(residual, rows, config.hidden_size));
    q = first + region(tokens, q_width + 2 * kv_width);
    gated = first + region(tokens, 2 * int64_t{config.intermediate_size});
    bytes = std::max({q + region(tokens, q_width), gated + region(tokens, config.intermediate_size),
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
  const int64_t q_width = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_width = int64_t{config.num_kv_heads} * config.head_dim;
  Activations a;
  a.hidden = typed(residual, plan.hidden, tokens, config.hidden_size);
  a.normed = at(plan.normed, tokens, config.hidden_size);
  a.branch = at(plan.branch, tokens, config.hidden_size);
  a.last = typed(residual, plan.branch, rows, config.hidden_size);
  a.last_normed = at(plan.first, rows, config.hidden_size);
  a.qkv = at(plan.first, tokens, q_width + 2 * kv_width);
  a.attended = at(plan.first, tokens, q_width);
  a.q = at(plan.q, tokens, q_width);
  a.gate_up = at(plan.first, tokens, 2 * int64_t{config.intermediate_size});
  a.gated = at(plan.gated, tokens, config.intermediate_size);
  return a;
}

}  // namespace sluice::model::layers
