#include "model/layers/activations.h"

#include <algorithm>

#include "base/check.h"
#include "device/alignment.h"
#include "device/part.h"
#include "model/layers/indexer.h"

namespace sluice::model::layers {
namespace {

// Rows whose scores are in memory at a time: 20 MiB in a context of 160k tokens, and enough work
// for the cores of any device.
constexpr int64_t kIndexRows = 32;

struct Widths {
  explicit Widths(const files::ModelConfig& config)
      : q(config.num_heads * HeadDim(config, files::LayerConfig())),
        qkv(q + KvWidth(config, files::LayerConfig())),
        gate(config.attention_gate ? q : 0),
        channels(config.linear.channels()),
        value(config.linear.value_width()),
        linear_in(channels + value + config.linear.gates()),
        convolved(config.linear.conv_kernel > 0 ? channels : 0),
        scan(config.linear.scan_width()),
        gate_first(config.linear.mamba && scan == 0) {
    for (const files::LayerConfig& layer : config.layers) {
      inner = std::max<int64_t>(inner, config.mlp_width_of(layer));
      const int64_t own = config.num_heads * HeadDim(config, layer);
      qkv = std::max(qkv, own + KvWidth(config, layer));
      q = std::max(q, own);
    }
    if (config.short_conv.kernel > 0) {
      convolved = config.hidden_size;
      linear_in = 3 * convolved;
    }
  }
  static int64_t HeadDim(const files::ModelConfig& config, const files::LayerConfig& layer) {
    return config.latent.kv_rank > 0 ? config.latent.key_width() : config.head_dim_of(layer);
  }
  static int64_t KvWidth(const files::ModelConfig& config, const files::LayerConfig& layer) {
    return 2 * config.kv_heads_of(layer) * HeadDim(config, layer);
  }
  // From row to row of what a product reads some columns of: rows begin at multiples of 16 bytes.
  int64_t scan_stride() const { return (scan + 7) / 8 * 8; }
  int64_t q, qkv, gate;                           // the first two as the widest layer has them
  int64_t channels, value, linear_in, convolved;  // zeros where no layer has a state
  int64_t inner = 0;                              // of feed-forward parts
  int64_t scan;                                   // of Mamba's first form alone
  bool gate_first;                                // of what a matrix gives a layer with a state
};

// Of a matrix of one column.
ops::Tensor Flat(ops::Tensor t) {
  t.rank = 1;
  t.strides[0] = 1;
  return t;
}

// What lies in columns of one matrix, once all matrices are placed.
void Divide(const Widths& widths, Activations* a) {
  if (!a->expert_starts.empty()) {
    a->expert_starts = Flat(a->expert_starts);
    a->expert_tokens = Flat(a->expert_tokens);
  }
  if (!a->index_lengths.empty()) a->index_lengths = Flat(a->index_lengths);
  a->qkv = a->qkv_gate.Columns(0, widths.qkv);
  a->attention_gate = a->qkv_gate.Columns(widths.qkv, widths.gate);
  a->linear_qkv = a->linear_in.Columns(widths.gate_first ? widths.value : 0, widths.channels);
  a->linear_gate = a->linear_in.Columns(widths.gate_first ? 0 : widths.channels, widths.value);
  if (widths.scan > 0) a->scan_in = a->scan_in.Columns(0, widths.scan);
  const int64_t ba = widths.channels + widths.value;
  a->linear_ba = a->linear_in.Columns(ba, widths.linear_in - ba);
}

struct Layout {
  Activations a;
  size_t bytes = 0;  // for the most tokens and rows
};

// Whether what an indexer has chosen is read behind the layer's feed-forward part.
bool ReusesPositions(const files::ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const files::LayerConfig& layer) { return layer.reuses_positions; });
}

// What an indexer has, in the memory that begins at `first`.
template <class Place>
void LayIndexer(const files::ModelConfig& config, const ModelOptions& options, int64_t tokens,
                size_t first, const Place& place, Activations* a) {
  const files::IndexerConfig& indexer = config.latent.indexer;
  if (indexer.heads == 0) return;
  const int64_t rows = std::min<int64_t>(kIndexRows, options.max_tokens);
  const auto by_token = [&](ops::Tensor& tensor, size_t begin, DType dtype, int64_t width) {
    return place(tensor, begin, dtype, tokens, options.max_tokens, width);
  };
  const int64_t heads = indexer.heads, dim = indexer.head_dim;
  size_t at = by_token(a->index_qkv, first, options.activation, (heads + 2) * dim);
  at = by_token(a->index_q, at, options.activation, heads * dim);
  at = by_token(a->index_weights, at, DType::kF32, heads);
  if (!ReusesPositions(config))
    at = by_token(a->index_positions, at, DType::kI32, ListedMax(config, options));
  at = place(a->index_scores, at, DType::kF32, rows, rows, Positions(config, options));
  place(a->index_lengths, at, DType::kI32, rows, rows, 1);
}

// Where memory for qkv and for q begins, and that behind both.
struct QueryRegions {
  size_t qkv = 0, q = 0, behind = 0;
};

// What latent attention has in the memory of qkv and of q, and its indexer behind that.
template <class Place>
void LayLatent(const files::ModelConfig& config, const ModelOptions& options, int64_t tokens,
               const QueryRegions& regions, const Place& place, Activations* a) {
  const files::LatentConfig& latent = config.latent;
  const int64_t heads = config.num_heads;
  const auto by_token = [&](ops::Tensor& tensor, size_t begin, int64_t width) {
    return place(tensor, begin, options.activation, tokens, options.max_tokens, width);
  };
  by_token(a->latent_out, regions.qkv, heads * latent.kv_rank);
  by_token(a->attended, regions.q, heads * latent.value_dim);
  const size_t nope = by_token(a->latent_nope, regions.q, heads * latent.nope_dim);
  const size_t query = by_token(a->latent_query, nope, latent.q_rank);
  LayIndexer(config, options, tokens, std::max(regions.behind, query), place, a);
}

// What products behind a pooling give in turn, in the memory that begins at `first`.
template <class Place>
void LayPooled(const files::ModelConfig& config, const ModelOptions& options, size_t first,
               const Place& place, Activations* a) {
  if (!config.pooling) return;
  const int64_t rows = options.max_logits_rows;
  int64_t widest = config.hidden_size;
  for (const files::DenseConfig& dense : config.pooling->dense)
    widest = std::max<int64_t>(widest, dense.out);
  const size_t second = place(a->pooled[0], first, options.activation, rows, rows, widest);
  place(a->pooled[1], second, options.activation, rows, rows, widest);
}

// What experts have in the memory that begins at `first`.
template <class Place>
void LayExperts(const files::ModelConfig& config, const ModelOptions& options, size_t first,
                int64_t tokens, const Place& place, Activations* a) {
  const files::ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return;
  const int64_t each = experts.per_token, most = options.max_tokens;
  const auto by_choice = [&](ops::Tensor& tensor, size_t begin, DType dtype) {
    return place(tensor, begin, dtype, tokens, most, each);
  };
  const auto by_place = [&](ops::Tensor& tensor, size_t begin, DType dtype, int64_t width) {
    return place(tensor, begin, dtype, tokens * each, most * each, width);
  };
  size_t at = place(a->router_logits, first, DType::kF32, tokens, most, experts.count);
  at = by_choice(a->expert_ids, at, DType::kI32);
  at = by_choice(a->expert_places, at, DType::kI32);
  at = by_choice(a->expert_weights, at, DType::kF32);
  const int64_t starts = std::max(experts.count, options.expert_slots) + 1;
  at = place(a->expert_starts, at, DType::kI32, starts, starts, 1);
  at = by_place(a->expert_tokens, at, DType::kI32, 1);
  const size_t inner =
      std::max(by_place(a->expert_out, at, DType::kF32, config.hidden_size),
               by_place(a->expert_gate_up, at, options.activation, 2 * int64_t{experts.width}));
  by_place(a->expert_gated, inner, options.activation, experts.width);
}

// Lays the activations out; a null `workspace` asks for the bytes alone.
Layout Lay(const device::View* workspace, const files::ModelConfig& config,
           const ModelOptions& options, int64_t tokens, int64_t rows) {
  Layout layout;
  Activations& a = layout.a;
  // Where the region of `tensor` ends, for as many rows as there may be.
  const auto place = [&](ops::Tensor& tensor, size_t begin, DType dtype, int64_t n, int64_t n_max,
                         int64_t width) {
    if (workspace != nullptr) {
      tensor = ops::Dense(device::Behind(*workspace, begin), dtype, {n, width});
    }
    const size_t end = begin + device::AlignUp(RowBytes(dtype, static_cast<size_t>(n_max * width)));
    layout.bytes = std::max(layout.bytes, end);
    return end;
  };
  const auto by_token = [&](ops::Tensor& tensor, size_t begin, int64_t width) {
    return place(tensor, begin, options.activation, tokens, options.max_tokens, width);
  };
  const DType residual = ops::ResidualDType(options.activation);
  const int64_t hidden = config.hidden_size, rows_max = options.max_logits_rows;
  const Widths widths(config);
  const size_t streams = place(a.hidden, 0, residual, tokens, options.max_tokens, hidden);
  const int64_t count = config.altup.streams;
  const size_t routes =
      place(a.streams, streams, residual, tokens, options.max_tokens, count * hidden);
  const size_t inputs = place(a.routes, routes, DType::kF32, tokens, options.max_tokens, count);
  size_t normed =
      by_token(a.layer_inputs, inputs, int64_t{config.num_layers} * config.layer_inputs.width);
  if (ReusesPositions(config)) {
    normed = place(a.index_positions, normed, DType::kI32, tokens, options.max_tokens,
                   ListedMax(config, options));
  }
  const size_t branch = by_token(a.normed, normed, hidden);
  const size_t first = std::max(by_token(a.branch, branch, hidden),
                                place(a.last, branch, residual, rows, rows_max, hidden));
  place(a.last_normed, first, options.activation, rows, rows_max, hidden);
  if (options.mtp_heads > 0 || options.joins_hidden) by_token(a.joined, normed, 2 * hidden);
  LayPooled(config, options, first, place, &a);
  const size_t q = by_token(a.qkv_gate, first, widths.qkv + widths.gate);
  const size_t after_q = by_token(a.q, q, widths.q);
  if (config.latent.kv_rank > 0) {
    LayLatent(config, options, tokens, {first, q, after_q}, place, &a);
  } else {
    by_token(a.attended, widths.gate > 0 ? after_q : first, widths.q);
  }
  const size_t convolved = by_token(a.linear_in, first, widths.linear_in);
  const size_t scanned =
      by_token(a.recalled, by_token(a.convolved, convolved, widths.convolved), widths.value);
  if (widths.scan > 0) by_token(a.scan_in, scanned, widths.scan_stride());
  const int64_t inner =
      std::max<int64_t>({config.intermediate_size, widths.inner, config.experts.shared_width,
                         config.layer_inputs.width, config.altup.laurel_rank});
  const size_t gated = by_token(a.gate_up, first, 2 * inner);
  const size_t shared_gate = by_token(a.gated, gated, inner);
  if (config.experts.shared_gate) {
    place(a.shared_gate, shared_gate, DType::kF32, tokens, options.max_tokens, 1);
  }
  LayExperts(config, options, first, tokens, place, &a);
  if (workspace != nullptr) Divide(widths, &a);
  return layout;
}

}  // namespace

ops::CodedRows CodesIn(const ops::Tensor& memory, int64_t width) {
  CHECK(Info(memory.dtype).bytes > 1 && memory.dims[1] >= width && width % 4 == 0, width, " of ",
        memory.dims[1], " in ", Name(memory.dtype));
  const int64_t rows = memory.dims[0], groups = (width + ops::kCodeGroup - 1) / ops::kCodeGroup;
  const auto codes = static_cast<size_t>(rows * width);
  device::View view{memory.data, codes, memory.memory, memory.device};
  ops::CodedRows coded;
  coded.codes = ops::Dense(view, DType::kF8E4M3, {rows, width});
  view.data += codes;
  view.bytes = static_cast<size_t>(rows * groups) * sizeof(float);
  coded.scales = ops::Dense(view, DType::kF32, {groups, rows});
  return coded;
}

size_t Activations::Bytes(const files::ModelConfig& config, const ModelOptions& options) {
  return Lay(nullptr, config, options, 0, 0).bytes;
}

Activations Activations::Slice(const device::View& workspace, const files::ModelConfig& config,
                               const ModelOptions& options, int64_t tokens, int64_t rows) {
  CHECK(tokens <= options.max_tokens, tokens, " tokens of ", options.max_tokens);
  CHECK(rows <= options.max_logits_rows, rows, " rows of ", options.max_logits_rows);
  const Layout layout = Lay(&workspace, config, options, tokens, rows);
  CHECK(workspace.bytes >= layout.bytes, "workspace of ", workspace.bytes, " of ", layout.bytes);
  return layout.a;
}

}  // namespace sluice::model::layers
