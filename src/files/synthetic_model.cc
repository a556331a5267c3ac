#include "files/synthetic_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/repeated_block.h"
#include "files/tokenizer_check.h"

namespace sluice::files {
namespace {

struct KnownModel {
  std::string_view name;
  std::string_view config_json;  // as published
};
constexpr KnownModel kModels[] = {
    {"llama-3.1-8b", R"({
  "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
  "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
  "tie_word_embeddings": false, "bos_token_id": 128000, "eos_token_id": 128001})"},
    {"qwen3-8b", R"({
  "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 4096,
  "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
  "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": false,
  "bos_token_id": 151643, "eos_token_id": 151645})"},
    {"qwen3-30b-a3b", R"({
  "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 151936, "hidden_size": 2048,
  "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32,
  "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
  "moe_intermediate_size": 768, "norm_topk_prob": true, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": false,
  "bos_token_id": 151643, "eos_token_id": 151645})"},
    // The same with six of its layers, for machines that do not hold them all.
    {"qwen3-30b-a3b-6layers", R"({
  "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 151936, "hidden_size": 2048,
  "intermediate_size": 6144, "num_hidden_layers": 6, "num_attention_heads": 32,
  "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
  "moe_intermediate_size": 768, "norm_topk_prob": true, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": false,
  "bos_token_id": 151643, "eos_token_id": 151645})"},
    {"mixtral-8x7b", R"({
  "architectures": ["MixtralForCausalLM"], "vocab_size": 32000, "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
  "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2})"},
    {"gpt-oss-20b", R"({
  "architectures": ["GptOssForCausalLM"], "vocab_size": 201088, "hidden_size": 2880,
  "intermediate_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
  "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4,
  "sliding_window": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
  "rope_theta": 150000.0, "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
  "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096},
  "tie_word_embeddings": false, "eos_token_id": 200002})"},
    {"deepseek-v2-lite", R"({
  "architectures": ["DeepseekV2ForCausalLM"], "vocab_size": 102400, "hidden_size": 2048,
  "intermediate_size": 10944, "num_hidden_layers": 27, "num_attention_heads": 16,
  "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
  "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "topk_method": "greedy",
  "norm_topk_prob": false, "routed_scaling_factor": 1.0, "max_position_embeddings": 163840,
  "rms_norm_eps": 1e-06, "rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 40,
  "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
  "original_max_position_embeddings": 4096}, "tie_word_embeddings": false,
  "bos_token_id": 100000, "eos_token_id": 100001})"},
    // Six layers of 61, of which three have experts, for machines that do not hold them all.
    {"deepseek-v3-6layers", R"({
  "architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 129280, "hidden_size": 7168,
  "intermediate_size": 18432, "num_hidden_layers": 6, "num_attention_heads": 128,
  "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
  "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4,
  "norm_topk_prob": true, "routed_scaling_factor": 2.5, "max_position_embeddings": 163840,
  "rms_norm_eps": 1e-06, "rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 40,
  "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
  "original_max_position_embeddings": 4096}, "tie_word_embeddings": false,
  "bos_token_id": 0, "eos_token_id": 1})"},
    {"smollm2-135m", R"({
  "architectures": ["LlamaForCausalLM"], "vocab_size": 49152, "hidden_size": 576,
  "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
  "num_key_value_heads": 3, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
  "rope_theta": 100000.0, "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2})"},
    // Not published: for trying things out.
    {"tiny", R"({
  "architectures": ["Qwen3ForCausalLM"], "vocab_size": 512, "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 1024,
  "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "eos_token_id": 511})"},
};

struct KnownDType {
  std::string_view name;
  DType layers;  // of matrices within layers
  DType others;  // of the embedding, the output matrix and the norms
  // Of matrices within layers: none, one of each row or each block, and what activations become.
  enum class Scales { kNone, kRow, kBlock } scales = Scales::kNone;
};
constexpr KnownDType kDTypes[] = {
    {"bf16", DType::kBF16, DType::kBF16},
    {"f16", DType::kF16, DType::kF16},
    {"fp8", DType::kF8E4M3, DType::kBF16},
    {"q8_0", DType::kQ8_0, DType::kBF16},
    {"q4_k", DType::kQ4_K, DType::kBF16},
    {"mxfp4", DType::kMXFP4, DType::kBF16},
    {"fp8-row", DType::kF8E4M3, DType::kBF16, KnownDType::Scales::kRow},
    {"fp8-block", DType::kF8E4M3, DType::kBF16, KnownDType::Scales::kBlock},
};

template <class Table>
std::string NamesOf(const Table& table) {
  std::string names;
  for (const auto& row : table) names += StrCat(names.empty() ? "" : ", ", row.name);
  return names;
}

template <class Table>
Result<const typename std::remove_extent_t<Table>*> Lookup(const Table& table,
                                                           std::string_view name,
                                                           std::string_view flag) {
  for (const auto& row : table) {
    if (row.name == name) return &row;
  }
  return InvalidArgument(
      StrCat("--", flag, " ", Quote(name), " is not known; there are ", NamesOf(table)),
      std::string(flag));
}

struct Chosen {
  const KnownModel* model;
  const KnownDType* dtype;
};

Result<Chosen> Parse(std::string_view path) {
  path.remove_prefix(kSyntheticScheme.size());
  const size_t colon = path.rfind(':');
  const std::string_view model = path.substr(0, colon);
  const std::string_view dtype =
      colon == std::string_view::npos ? kDTypes[0].name : path.substr(colon + 1);
  SLUICE_ASSIGN_OR_RETURN(const KnownModel* known, Lookup(kModels, model, "synthetic"));
  SLUICE_ASSIGN_OR_RETURN(const KnownDType* format, Lookup(kDTypes, dtype, "dtype"));
  return Chosen{known, format};
}

// An odd number of pages: rows of a matrix, whose bytes are a power of two as a rule, repeat late.
// 17 and 9 divide it, as they do the bytes of a block.
constexpr size_t kPeriodBytes = size_t{27 * 17 * 9} * 4096;
// Where tensors begin: at whole blocks, too.
size_t AlignmentOf(DType dtype) {
  return std::lcm<size_t>(64, static_cast<size_t>(Info(dtype).bytes));
}

// Evenly distributed with the deviation that keeps the size of activations: 1 / sqrt(width).
template <class Element, class Encode>
std::vector<std::byte> RandomPeriod(int width, Encode encode) {
  constexpr uint32_t kSteps = 1u << 16;
  const float limit = std::sqrt(3.0f / static_cast<float>(width));
  std::vector<Element> values(kSteps);
  for (uint32_t i = 0; i < kSteps; ++i) {
    values[i] = encode((2.0f * (static_cast<float>(i) + 0.5f) / kSteps - 1.0f) * limit);
  }
  std::vector<std::byte> period(kPeriodBytes);
  auto* out = reinterpret_cast<Element*>(period.data());
  constexpr size_t kCount = kPeriodBytes / sizeof(Element);
  constexpr size_t kPerDraw = 8;  // elements of 16 random bits
  static_assert(kCount % kPerDraw == 0);
  for (uint32_t draw = 0; draw < kCount / kPerDraw; ++draw) {
    for (const uint32_t bits : Philox(kSyntheticSeed, {draw, 0, 0, 0})) {
      *out++ = values[bits & 0xffff];
      *out++ = values[bits >> 16];
    }
  }
  return period;
}

std::vector<std::byte> RandomBytes() {
  std::vector<std::byte> period(kPeriodBytes);
  size_t drawn = 0;
  for (uint32_t draw = 0; drawn < kPeriodBytes; ++draw) {
    const auto words = Philox(kSyntheticSeed, {draw, 0, 0, 0});
    std::memcpy(&period[drawn], words.data(), sizeof words);
    drawn += sizeof words;
  }
  return period;
}

// Random blocks that begin with the scales given.
std::vector<std::byte> RandomBlocks(DType dtype, std::initializer_list<float> scales) {
  std::vector<std::byte> period = RandomBytes();
  const auto block = static_cast<size_t>(Info(dtype).bytes);
  for (size_t at = 0; at < kPeriodBytes; at += block) {
    size_t to = at;
    for (const float scale : scales) {
      const uint16_t bits = F32ToF16(scale);
      std::memcpy(&period[to], &bits, sizeof bits);
      to += sizeof bits;
    }
  }
  return period;
}

// The exponent of a scale that gives codes of four bits (which deviate by 2.9) about this
// deviation.
std::byte Mxfp4Exponent(float deviation) {
  return static_cast<std::byte>(127 + std::lround(std::log2(deviation / 2.9f)));
}

std::vector<std::byte> RandomPeriod(DType dtype, int width) {
  const float deviation = 1.0f / std::sqrt(static_cast<float>(width));
  switch (dtype) {
    case DType::kQ8_0:  // codes of eight bits deviate by 74
      return RandomBlocks(dtype, {deviation / 74.0f});
    case DType::kQ4_K: {  // sub-blocks' scales of six bits, codes of four, and minima that centre
      const float scale = deviation / 258.0f;
      return RandomBlocks(dtype, {scale, 7.5f * scale});
    }
    case DType::kMXFP4: {
      std::vector<std::byte> period = RandomBytes();
      const auto block = static_cast<size_t>(Info(dtype).bytes);
      for (size_t at = 0; at < kPeriodBytes; at += block) period[at] = Mxfp4Exponent(deviation);
      return period;
    }
    case DType::kU8:  // codes whose scales lie apart
      return RandomBytes();
    case DType::kF8E4M3:
      return RandomPeriod<uint8_t>(width, F32ToF8E4M3);
    case DType::kF16:
      return RandomPeriod<uint16_t>(width, F32ToF16);
    default:
      return RandomPeriod<uint16_t>(width, F32ToBF16);
  }
}

template <class Element>
std::vector<std::byte> Repeated(Element value, size_t count) {
  std::vector<std::byte> bytes(count * sizeof value);
  for (size_t i = 0; i < bytes.size(); i += sizeof value) {
    std::memcpy(bytes.data() + i, &value, sizeof value);
  }
  return bytes;
}

std::vector<std::byte> Ones(DType dtype, size_t count) {
  return Repeated(dtype == DType::kF16 ? F32ToF16(1.0f) : F32ToBF16(1.0f), count);
}

// Of the blocks of 128 that scales cover.
int64_t Blocks(int64_t elements) { return (elements + 127) / 128; }
bool IsScale(const FileTensor& tensor) { return tensor.dtype == DType::kF32; }
// Of scales of MXFP4 that lie apart.
bool IsExponents(const FileTensor& tensor) {
  return tensor.dtype == DType::kU8 && tensor.shape.size() == 3;
}

// Names and shapes as Hugging Face folders have them, then bytes.
class SyntheticTensors : public TensorSource {
 public:
  static Result<std::shared_ptr<const TensorSource>> Make(const ModelConfig& config,
                                                          const KnownDType& dtype) {
    std::shared_ptr<SyntheticTensors> source(new SyntheticTensors(config, dtype));
    source->ListAll();
    SLUICE_RETURN_IF_ERROR(source->GiveBytes());
    return std::shared_ptr<const TensorSource>(std::move(source));
  }

  const std::vector<FileTensor>& tensors() const override { return tensors_; }
  const FileTensor* Find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }
  void Release(const FileTensor&) const override {}

 private:
  SyntheticTensors(const ModelConfig& config, const KnownDType& dtype)
      : config_(config), dtype_(dtype) {}

  void Matrix(std::string name, DType dtype, int64_t rows, int64_t columns) {
    tensors_.push_back({std::move(name), dtype, {rows, columns}, {}});
  }
  void Norm(std::string name, int64_t width) {
    tensors_.push_back({std::move(name), dtype_.others, {width}, {}});
  }

  // A matrix within layer `prefix`, in their format, with its scales where it has some.
  void LayerMatrix(const std::string& name, int64_t rows, int64_t columns) {
    const std::string weight = name + ".weight";
    Matrix(weight, dtype_.layers, rows, columns);
    if (dtype_.scales == KnownDType::Scales::kRow) {
      tensors_.push_back({weight + "_scale", DType::kF32, {rows}, {}});
    } else if (dtype_.scales == KnownDType::Scales::kBlock) {
      tensors_.push_back({weight + "_scale_inv", DType::kF32, {Blocks(rows), Blocks(columns)}, {}});
    }
  }

  void ListAttention(const std::string& prefix) {
    const int64_t hidden = config_.hidden_size;
    const int64_t queries = int64_t{config_.num_heads} * config_.head_dim;
    const int64_t keys = int64_t{config_.num_kv_heads} * config_.head_dim;
    for (const auto& [name, rows] :
         {std::pair("q_proj", queries), std::pair("k_proj", keys), std::pair("v_proj", keys)}) {
      LayerMatrix(prefix + name, rows, hidden);
      if (config_.attention_bias) Norm(StrCat(prefix, name, ".bias"), rows);
    }
    if (config_.qk_norm == QkNormKind::kHead) {
      Norm(prefix + "q_norm.weight", config_.head_dim);
      Norm(prefix + "k_norm.weight", config_.head_dim);
    }
    LayerMatrix(prefix + "o_proj", hidden, queries);
    if (config_.attention_output_bias) Norm(prefix + "o_proj.bias", hidden);
    if (config_.attention_sinks) Norm(prefix + "sinks", config_.num_heads);
  }

  void ListLatentAttention(const std::string& prefix) {
    const LatentConfig& latent = config_.latent;
    const int64_t hidden = config_.hidden_size, heads = config_.num_heads;
    const int64_t queries = heads * (latent.nope_dim + latent.rope_dim);
    if (latent.q_rank > 0) {
      LayerMatrix(prefix + "q_a_proj", latent.q_rank, hidden);
      Norm(prefix + "q_a_layernorm.weight", latent.q_rank);
      LayerMatrix(prefix + "q_b_proj", queries, latent.q_rank);
    } else {
      LayerMatrix(prefix + "q_proj", queries, hidden);
    }
    LayerMatrix(prefix + "kv_a_proj_with_mqa", latent.key_width(), hidden);
    Norm(prefix + "kv_a_layernorm.weight", latent.kv_rank);
    // Read by columns, too, which block formats do not allow.
    Matrix(prefix + "kv_b_proj.weight", dtype_.others, heads * (latent.nope_dim + latent.value_dim),
           latent.kv_rank);
    LayerMatrix(prefix + "o_proj", hidden, heads * latent.value_dim);
    if (latent.indexer.heads > 0) ListIndexer(prefix + "indexer.");
  }

  void ListIndexer(const std::string& prefix) {
    const IndexerConfig& indexer = config_.latent.indexer;
    LayerMatrix(prefix + "wq_b", int64_t{indexer.heads} * indexer.head_dim, config_.latent.q_rank);
    LayerMatrix(prefix + "wk", indexer.head_dim, config_.hidden_size);
    Norm(prefix + "k_norm.weight", indexer.head_dim);
    Norm(prefix + "k_norm.bias", indexer.head_dim);
    Matrix(prefix + "weights_proj.weight", dtype_.others, indexer.heads, config_.hidden_size);
  }

  void ListMlp(const std::string& prefix, int64_t width) {
    LayerMatrix(prefix + "gate_proj", width, config_.hidden_size);
    LayerMatrix(prefix + "up_proj", width, config_.hidden_size);
    LayerMatrix(prefix + "down_proj", config_.hidden_size, width);
  }

  // The matrices of all experts of a layer, as gpt-oss has them.
  void ListStackedExperts(const std::string& prefix) {
    const int64_t count = config_.experts.count, hidden = config_.hidden_size;
    const int64_t width = config_.experts.width;
    for (const auto& [name, rows, columns] :
         {std::tuple("gate_up_proj", 2 * width, hidden), std::tuple("down_proj", hidden, width)}) {
      const std::string tensor = prefix + name;
      if (dtype_.layers == DType::kMXFP4) {
        tensors_.push_back({tensor + "_blocks", DType::kU8, {count, rows, columns / 32, 16}, {}});
        tensors_.push_back({tensor + "_scales", DType::kU8, {count, rows, columns / 32}, {}});
      } else {
        tensors_.push_back({tensor, dtype_.layers, {count, columns, rows}, {}});
      }
      tensors_.push_back({tensor + "_bias", dtype_.others, {count, rows}, {}});
    }
  }

  void ListExperts(const std::string& prefix) {
    const int64_t count = config_.experts.count;
    if (config_.experts.product_biases) {
      Matrix(prefix + "mlp.router.weight", dtype_.others, count, config_.hidden_size);
      Norm(prefix + "mlp.router.bias", count);
      ListStackedExperts(prefix + "mlp.experts.");
      return;
    }
    const bool mixtral = config_.architecture == Architecture::kMixtral;
    const std::string block = prefix + (mixtral ? "block_sparse_moe." : "mlp.");
    Matrix(block + "gate.weight", dtype_.others, count, config_.hidden_size);
    if (config_.experts.bias) Norm(block + "gate.e_score_correction_bias", count);
    for (int64_t e = 0; e < count; ++e) {
      const std::string expert = StrCat(block, "experts.", e, ".");
      const int64_t width = config_.experts.width;
      if (!mixtral) {
        ListMlp(expert, width);
        continue;
      }
      LayerMatrix(expert + "w1", width, config_.hidden_size);
      LayerMatrix(expert + "w3", width, config_.hidden_size);
      LayerMatrix(expert + "w2", config_.hidden_size, width);
    }
    if (config_.experts.shared_width > 0) {
      ListMlp(block + "shared_experts.", config_.experts.shared_width);
    }
  }

  void ListLayer(int layer) {
    const std::string prefix = StrCat("model.layers.", layer, ".");
    Norm(prefix + "input_layernorm.weight", config_.hidden_size);
    if (config_.latent.kv_rank > 0) {
      ListLatentAttention(prefix + "self_attn.");
    } else {
      ListAttention(prefix + "self_attn.");
    }
    Norm(prefix + "post_attention_layernorm.weight", config_.hidden_size);
    if (config_.layers[static_cast<size_t>(layer)].experts) {
      ListExperts(prefix);
    } else {
      ListMlp(prefix + "mlp.", config_.intermediate_size);
    }
  }

  void ListAll() {
    Matrix("model.embed_tokens.weight", dtype_.others, config_.vocab_size, config_.hidden_size);
    for (int layer = 0; layer < config_.num_layers; ++layer) ListLayer(layer);
    Norm("model.norm.weight", config_.hidden_size);
    if (!config_.tied_embeddings) {
      Matrix("lm_head.weight", dtype_.others, config_.vocab_size, config_.hidden_size);
    }
    for (size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
  }

  static size_t BytesOf(const FileTensor& tensor) {
    size_t count = 1;
    for (const int64_t dim : tensor.shape) count *= static_cast<size_t>(dim);
    return RowBytes(tensor.dtype, count);
  }

  Status GiveBytes() {
    std::unordered_map<DType, size_t> largest;
    for (const FileTensor& tensor : tensors_) {
      if (IsScale(tensor) || IsExponents(tensor) || tensor.shape.size() < 2) continue;
      largest[tensor.dtype] = std::max(largest[tensor.dtype], BytesOf(tensor));
    }
    for (const auto& [dtype, bytes] : largest) {
      // Tensors begin anywhere within the first period, so that layers differ.
      SLUICE_ASSIGN_OR_RETURN(
          blocks_[dtype],
          RepeatedBlock::Make(RandomPeriod(dtype, config_.hidden_size), bytes + kPeriodBytes));
    }
    size_t scales = 0, exponents = 0, ones = 0;
    for (const FileTensor& tensor : tensors_) {
      if (IsScale(tensor)) scales = std::max(scales, BytesOf(tensor) / sizeof(float));
      if (IsExponents(tensor)) exponents = std::max(exponents, BytesOf(tensor));
      if (tensor.shape.size() < 2) ones = std::max(ones, static_cast<size_t>(tensor.shape[0]));
    }
    ones_ = Ones(dtype_.others, ones);
    exponents_.assign(exponents,
                      Mxfp4Exponent(1.0f / std::sqrt(static_cast<float>(config_.hidden_size))));
    scales_ = Repeated(1.0f, scales);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      FileTensor& tensor = tensors_[i];
      const size_t bytes = BytesOf(tensor);
      if (IsScale(tensor)) {
        tensor.data = std::span<const std::byte>(scales_).first(bytes);
        continue;
      }
      if (IsExponents(tensor)) {
        tensor.data = std::span<const std::byte>(exponents_).first(bytes);
        continue;
      }
      if (tensor.shape.size() < 2) {
        tensor.data = std::span<const std::byte>(ones_).first(bytes);
        continue;
      }
      const auto place = Philox(kSyntheticSeed + 1, {static_cast<uint32_t>(i), 0, 0, 0});
      const size_t alignment = AlignmentOf(tensor.dtype);
      const size_t begin = place[0] % (kPeriodBytes / alignment) * alignment;
      tensor.data = blocks_[tensor.dtype]->bytes().subspan(begin, bytes);
    }
    return OkStatus();
  }

  const ModelConfig& config_;  // used by Make alone
  const KnownDType& dtype_;
  std::vector<FileTensor> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
  std::unordered_map<DType, std::unique_ptr<RepeatedBlock>> blocks_;
  std::vector<std::byte> ones_, scales_, exponents_;
};

// A token for each byte; the others are spelled as their number.
Result<TokenizerData> ByteTokenizer(int vocab) {
  TokenizerData data;
  data.model = TokenizerModel::kSentencePieceBpe;
  data.byte_fallback = true;
  for (int id = 0; id < vocab; ++id) {
    const bool is_byte = id <= std::numeric_limits<uint8_t>::max();
    char piece[16];
    std::snprintf(piece, sizeof piece, is_byte ? "<0x%02X>" : "<%d>", static_cast<unsigned>(id));
    data.pieces.emplace_back(piece);
    data.kinds.push_back(is_byte ? TokenKind::kByte : TokenKind::kNormal);
  }
  SLUICE_RETURN_IF_ERROR(FinishTokenizer(data));
  return data;
}

}  // namespace

std::string SyntheticPath(std::string_view model, std::string_view dtype) {
  return StrCat(kSyntheticScheme, model, ":", dtype);
}

bool IsSyntheticPath(std::string_view path) { return path.starts_with(kSyntheticScheme); }

std::string SyntheticModels() { return NamesOf(kModels); }

std::string SyntheticDTypes() { return NamesOf(kDTypes); }

Result<ModelFiles> OpenSynthetic(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const Chosen chosen, Parse(path));
  ModelFiles model;
  model.path = path;
  SLUICE_ASSIGN_OR_RETURN(model.config, ConfigFromJson(chosen.model->config_json, ""));
  const DType layers = chosen.dtype->layers;
  if (model.config.experts.product_biases && layers != DType::kMXFP4 && layers != DType::kBF16 &&
      layers != DType::kF16) {
    return InvalidArgument(StrCat("--dtype ", chosen.dtype->name, " is not there for ",
                                  chosen.model->name, "; mxfp4, bf16 and f16 are"),
                           "dtype");
  }
  model.config.name = chosen.model->name;
  model.config.dtype = chosen.dtype->layers;
  if (chosen.dtype->scales != KnownDType::Scales::kNone) {
    const bool blocks = chosen.dtype->scales == KnownDType::Scales::kBlock;
    model.config.quantization = {"fp8", blocks ? F8Inputs::kBlock : F8Inputs::kToken};
  }
  SLUICE_ASSIGN_OR_RETURN(model.tokenizer, ByteTokenizer(model.config.vocab_size));
  SLUICE_ASSIGN_OR_RETURN(model.tensors, SyntheticTensors::Make(model.config, *chosen.dtype));
  return model;
}

Result<TokenizerData> SyntheticTokenizer(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const Chosen chosen, Parse(path));
  SLUICE_ASSIGN_OR_RETURN(const ModelConfig config, ConfigFromJson(chosen.model->config_json, ""));
  return ByteTokenizer(config.vocab_size);
}

}  // namespace sluice::files
