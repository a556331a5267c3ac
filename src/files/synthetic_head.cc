#include "files/synthetic_head.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/parse_number.h"
#include "base/philox.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/repeated_block.h"
#include "files/synthetic_model.h"
#include "files/target_ids.h"

namespace sluice::files {
namespace {

struct KnownHead {
  std::string_view name;
  EagleForm form;
  int layers;
};
constexpr KnownHead kHeads[] = {{"eagle", EagleForm::kFirst, 1},
                                {"eagle3", EagleForm::kThird, 1},
                                {"block", EagleForm::kParallel, 1},
                                {"dflash", EagleForm::kDiffusion, 5}};

struct ChosenHead {
  const KnownHead* head = nullptr;  // null: none of that name
  std::string_view guesses;         // as it is written; may be empty
};

ChosenHead ParseHead(std::string_view path) {
  if (!path.starts_with(kSyntheticScheme)) return {};
  path.remove_prefix(kSyntheticScheme.size());
  const size_t colon = path.find(':');
  ChosenHead chosen;
  if (colon != std::string_view::npos) chosen.guesses = path.substr(colon + 1);
  const std::string_view name = path.substr(0, colon);
  const auto* const found = std::find_if(std::begin(kHeads), std::end(kHeads),
                                         [&](const KnownHead& head) { return head.name == name; });
  if (found != std::end(kHeads)) chosen.head = found;
  return chosen;
}

// An odd number of pages, so that rows repeat late.
constexpr size_t kHeadPeriodBytes = size_t{257} * 4096;

std::vector<std::byte> RandomHeadPeriod(int width) {
  const float limit = std::sqrt(3.0f / static_cast<float>(width));
  std::vector<std::byte> period(kHeadPeriodBytes);
  for (size_t at = 0, draw = 0; at < kHeadPeriodBytes; ++draw) {
    for (const uint32_t bits : Philox(kSyntheticSeed, {static_cast<uint32_t>(draw), 0, 0, 0})) {
      const float unit = static_cast<float>(bits >> 8) / static_cast<float>(1 << 23) - 1.0f;
      const uint16_t value = F32ToBF16(unit * limit);
      std::memcpy(&period[at], &value, sizeof value);
      at += sizeof value;
    }
  }
  return period;
}

// Names and shapes as published heads have them.
class HeadTensors : public TensorSource {
 public:
  // `config` of a head of `form`, of the spelling of ModelConfig.
  static Result<std::shared_ptr<const TensorSource>> Make(EagleForm form, const ModelConfig& model,
                                                          int layers, int guesses) {
    std::shared_ptr<HeadTensors> source(new HeadTensors());
    source->List(form, model, layers, guesses);
    SLUICE_RETURN_IF_ERROR(source->GiveBytes(model, guesses));
    return std::shared_ptr<const TensorSource>(std::move(source));
  }
  const std::vector<FileTensor>& tensors() const override { return tensors_; }
  const FileTensor* Find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }
  void Release(const FileTensor&) const override {}

 private:
  HeadTensors() = default;

  void Matrix(std::string name, int64_t rows, int64_t columns) {
    tensors_.push_back({std::move(name), DType::kBF16, {rows, columns}, {}});
  }
  void Norm(std::string name, int64_t width) {
    tensors_.push_back({std::move(name), DType::kBF16, {width}, {}});
  }

  void ListLayer(EagleForm form, const ModelConfig& model, int layer) {
    const bool third = form == EagleForm::kThird || form == EagleForm::kParallel;
    const std::string prefix = third ? "midlayer." : StrCat("layers.", layer, ".");
    const int64_t hidden = model.hidden_size, width = model.intermediate_size;
    const int64_t queries = int64_t{model.num_heads} * model.head_dim;
    const int64_t keys = int64_t{model.num_kv_heads} * model.head_dim;
    const int64_t read = third ? 2 * hidden : hidden;
    Matrix(prefix + "self_attn.q_proj.weight", queries, read);
    Matrix(prefix + "self_attn.k_proj.weight", keys, read);
    Matrix(prefix + "self_attn.v_proj.weight", keys, read);
    Matrix(prefix + "self_attn.o_proj.weight", hidden, queries);
    Matrix(prefix + "mlp.gate_proj.weight", width, hidden);
    Matrix(prefix + "mlp.up_proj.weight", width, hidden);
    Matrix(prefix + "mlp.down_proj.weight", hidden, width);
    Norm(prefix + "post_attention_layernorm.weight", hidden);
    if (form != EagleForm::kFirst) Norm(prefix + "input_layernorm.weight", hidden);
    if (third) Norm(prefix + "hidden_norm.weight", hidden);
    if (form != EagleForm::kDiffusion) return;
    Norm(prefix + "self_attn.q_norm.weight", model.head_dim);
    Norm(prefix + "self_attn.k_norm.weight", model.head_dim);
  }

  void List(EagleForm form, const ModelConfig& model, int layers, int guesses) {
    const int64_t hidden = model.hidden_size;
    const int64_t read = form == EagleForm::kFirst ? 2 : kEagleLayers;
    Matrix("fc.weight", hidden, read * hidden);
    for (int layer = 0; layer < layers; ++layer) ListLayer(form, model, layer);
    if (form == EagleForm::kDiffusion) Norm("hidden_norm.weight", hidden);
    if (form != EagleForm::kFirst) Norm("norm.weight", hidden);
    if (form == EagleForm::kParallel) Matrix("mask_hidden", 1, read * hidden);
    if (!UsesModelsOutput(form)) {
      Matrix("lm_head.weight", guesses, hidden);
      if (guesses < model.vocab_size) tensors_.push_back({kTargetIds, DType::kI64, {guesses}, {}});
    }
    for (size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
  }

  static size_t BytesOf(const FileTensor& tensor) {
    size_t count = 1;
    for (const int64_t dim : tensor.shape) count *= static_cast<size_t>(dim);
    return count * Info(tensor.dtype).bytes;
  }

  Status GiveBytes(const ModelConfig& model, int guesses) {
    size_t largest = 0, norms = 0;
    for (const FileTensor& tensor : tensors_) {
      const bool matrix = tensor.shape.size() == 2;
      (matrix ? largest : norms) = std::max(matrix ? largest : norms, BytesOf(tensor));
    }
    SLUICE_ASSIGN_OR_RETURN(block_, RepeatedBlock::Make(RandomHeadPeriod(model.hidden_size),
                                                        largest + kHeadPeriodBytes));
    ones_.assign(norms / sizeof(uint16_t), F32ToBF16(1.0f));
    // By guess how much further its id stands: they are spread over the vocabulary.
    for (int64_t i = 0; i < guesses; ++i) further_.push_back(i * (model.vocab_size / guesses - 1));
    for (size_t i = 0; i < tensors_.size(); ++i) {
      FileTensor& tensor = tensors_[i];
      const size_t bytes = BytesOf(tensor);
      if (tensor.dtype == DType::kI64) {
        tensor.data = std::as_bytes(std::span(further_)).first(bytes);
      } else if (tensor.shape.size() == 1) {
        tensor.data = std::as_bytes(std::span(ones_)).first(bytes);
      } else {
        const size_t begin =
            Philox(kSyntheticSeed + 1, {static_cast<uint32_t>(i), 0, 0, 0})[0] % 4096 * 64;
        tensor.data = block_->bytes().subspan(begin, bytes);
      }
    }
    return OkStatus();
  }

  std::vector<FileTensor> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
  std::unique_ptr<RepeatedBlock> block_;
  std::vector<uint16_t> ones_;
  std::vector<int64_t> further_;
};

Json ConfigOf(const KnownHead& head, const ModelConfig& model, int guesses) {
  Json config = {{"hidden_size", model.hidden_size},
                 {"intermediate_size", model.intermediate_size},
                 {"num_hidden_layers", head.layers},
                 {"num_attention_heads", model.num_heads},
                 {"num_key_value_heads", model.num_kv_heads},
                 {"head_dim", model.head_dim},
                 {"vocab_size", model.vocab_size},
                 {"max_position_embeddings", model.context_length},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", model.rope.theta},
                 {"tie_word_embeddings", false}};
  // As the trainers of EAGLE-3 choose them, if the model has as many; else the last ones.
  const int layers = model.stored_layers();
  const int first = std::max(0, layers - kEagleLayers);
  const Json read =
      layers > 6 ? Json{1, layers / 2 - 1, layers - 4} : Json{first, first + 1, first + 2};
  switch (head.form) {
    case EagleForm::kFirst:
      config["architectures"] = {"LlamaForCausalLMEagle"};
      return config;
    case EagleForm::kDiffusion:
      config["architectures"] = {"DFlashDraftModel"};
      config["dflash_config"] = {{"mask_token_id", 0}, {"target_layer_ids", read}};
      return config;
    case EagleForm::kParallel:
      config["ptd_token_id"] = 0;
      break;
    case EagleForm::kThird:
      break;
  }
  config["architectures"] = {"LlamaForCausalLMEagle3"};
  config["draft_vocab_size"] = guesses;
  config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", read}};
  return config;
}

Status WrongHead(std::string message) { return InvalidArgument(std::move(message), "draft-model"); }

}  // namespace

bool IsSyntheticHead(std::string_view path) { return ParseHead(path).head != nullptr; }

std::string SyntheticHeads() {
  std::string names;
  for (const KnownHead& head : kHeads)
    names += StrCat(names.empty() ? "" : ", ", kSyntheticScheme, head.name);
  return names;
}

Result<EagleFiles> OpenSyntheticHead(const std::string& path, const ModelConfig& model) {
  const ChosenHead chosen = ParseHead(path);
  const KnownHead& head = *chosen.head;
  int guesses = model.vocab_size;
  const bool cut = path.find(':', kSyntheticScheme.size()) != std::string::npos;
  if (cut && UsesModelsOutput(head.form))
    return WrongHead(StrCat(Quote(path), ": heads of ", head.name,
                            " guess by the model's output matrix, all of its tokens"));
  if (cut) {
    guesses = ParseNumber<int>(chosen.guesses, 1, model.vocab_size).value_or(0);
    if (guesses == 0)
      return WrongHead(StrCat(Quote(path), " names no number of 1 to ", model.vocab_size,
                              " tokens behind the last colon"));
  }
  if (model.intermediate_size < 1 || model.latent.kv_rank > 0 || model.head_dim < 2 ||
      model.stored_layers() < kEagleLayers)
    return WrongHead(StrCat(Quote(path), " takes its sizes from a model of at least ", kEagleLayers,
                            " layers, of plain attention and with a dense feed-forward part"));
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const TensorSource> tensors,
                          HeadTensors::Make(head.form, model, head.layers, guesses));
  return ReadEagle(path, ConfigOf(head, model, guesses), std::move(tensors));
}

}  // namespace sluice::files
