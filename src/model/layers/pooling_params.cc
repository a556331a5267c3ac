#include "model/layers/pooling_params.h"

#include <string>

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {
namespace {

using files::Architecture;
using weights::ParamRole;
using weights::ParamSpec;

// What a classifier's head is called.
struct HeadNames {
  std::string_view dense, norm, labels;
};
constexpr HeadNames kBertHead = {"pooler.dense", "", "classifier"};
constexpr HeadNames kRobertaHead = {"classifier.dense", "", "classifier.out_proj"};
constexpr HeadNames kModernBertHead = {"head.dense", "head.norm", "classifier"};

const HeadNames& HeadOf(Architecture architecture) {
  if (architecture == Architecture::kBert) return kBertHead;
  return architecture == Architecture::kModernBert ? kModernBertHead : kRobertaHead;
}

class Adder {
 public:
  Adder(const files::ModelConfig& config, std::span<const std::string_view> prefixes,
        std::vector<ParamSpec>* specs)
      : config_(config), prefixes_(prefixes), specs_(specs) {}

  // Dense modules stand in folders beside the model.
  void Dense() {
    for (size_t i = 0; i < config_.pooling->dense.size(); ++i) {
      const files::DenseConfig& dense = config_.pooling->dense[i];
      const std::string name = StrCat("dense.", i), from = dense.folder + "/linear";
      ParamSpec& spec = AddOne(name, ParamRole::kLinear, dense.out, dense.in);
      spec.hugging_face = {{{from + ".weight", dense.out}}};
      spec.bias = dense.bias;
      spec.f32_out = i + 1 == config_.pooling->dense.size();
      if (!dense.bias) continue;
      AddOne(name + "_bias", ParamRole::kBias, dense.out, 0).hugging_face = {
          {{from + ".bias", dense.out}}};
    }
  }

  void Head() {
    const HeadNames& names = HeadOf(config_.architecture);
    const auto labels = static_cast<int64_t>(config_.labels.size());
    const bool normed = !names.norm.empty();
    Matrix("head.dense", names.dense, "cls", config_.hidden_size, !normed);
    if (normed) {
      ParamSpec& norm = AddOne("head.norm", ParamRole::kNorm, config_.hidden_size, 0);
      Name(names.norm, "cls.norm", ".weight", &norm);
    }
    Matrix("head.labels", names.labels, "cls.output", labels, true);
    for (ParamSpec& spec : *specs_) spec.f32_out = spec.f32_out || spec.name == "head.labels";
  }

  // Of the output matrix, which may be the embedding, the rows of two tokens.
  void Answer() {
    const files::HfTensors& names = files::InfoOf(config_.architecture).hf_tensors;
    const files::AnswerTokens& answer = *config_.pooling->answer;
    ParamSpec& spec = AddOne("head.labels", ParamRole::kLinear, 2, config_.hidden_size);
    spec.f32_out = true;
    for (const std::string_view prefix : prefixes_) {
      const std::string tensor = config_.tied_embeddings
                                     ? StrCat(prefix, names.embedding, ".weight")
                                     : StrCat(names.logits, ".weight");
      spec.hugging_face.push_back({Row(tensor, config_.vocab_size, answer.no),
                                   Row(tensor, config_.vocab_size, answer.yes)});
    }
    // GGUF has both apart, yes first.
    spec.gguf = {{Row("cls.output.weight", 2, 1), Row("cls.output.weight", 2, 0)}};
  }

 private:
  static weights::ParamSource Row(const std::string& tensor, int64_t rows, int64_t row) {
    return {tensor,
            1,
            {.groups = rows, .group_rows = 1, .begin = 0, .count = 1, .first = row, .only = 1}};
  }

  ParamSpec& AddOne(std::string_view name, ParamRole role, int64_t rows, int64_t columns) {
    ParamSpec& spec = specs_->emplace_back();
    spec.name = name;
    spec.role = role;
    spec.rows = rows;
    spec.columns = columns;
    return spec;
  }

  void Name(std::string_view hugging_face, std::string_view gguf, std::string_view suffix,
            ParamSpec* spec) const {
    for (const std::string_view prefix : prefixes_)
      spec->hugging_face.push_back({{StrCat(prefix, hugging_face, suffix), spec->rows}});
    spec->gguf.push_back({{StrCat(gguf, suffix), spec->rows}});
  }

  void Matrix(std::string_view name, std::string_view hugging_face, std::string_view gguf,
              int64_t rows, bool bias) {
    ParamSpec& spec = AddOne(name, ParamRole::kLinear, rows, config_.hidden_size);
    spec.bias = bias;
    Name(hugging_face, gguf, ".weight", &spec);
    if (!bias) return;
    Name(hugging_face, gguf, ".bias", &AddOne(StrCat(name, "_bias"), ParamRole::kBias, rows, 0));
  }

  const files::ModelConfig& config_;
  const std::span<const std::string_view> prefixes_;
  std::vector<ParamSpec>* const specs_;
};

}  // namespace

void AddPoolingParams(const files::ModelConfig& config, std::span<const std::string_view> prefixes,
                      std::vector<ParamSpec>* specs) {
  Adder adder(config, prefixes, specs);
  adder.Dense();
  if (config.pooling->answer) {
    adder.Answer();
  } else if (!config.labels.empty()) {
    adder.Head();
  }
}

}  // namespace sluice::model::layers
