#include "files/gguf_encoder.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

// Values of "pooling_type".
constexpr int64_t kPoolingNone = 0, kPoolingRank = 4;
constexpr std::pair<int64_t, PoolingKind> kGgufPoolings[] = {
    {1, PoolingKind::kMean}, {2, PoolingKind::kFirst}, {3, PoolingKind::kLast}};

// Rows of a table of the hidden size; 0: there is none.
Result<int> RowsOfTable(const GgufFile& file, std::string_view name, IntRange range,
                        const ModelConfig& config) {
  const FileTensor* table = file.Find(name);
  if (table == nullptr) return 0;
  // llama.cpp's converter writes a table of one row as a vector, too.
  const bool matrix = table->shape.size() == 2;
  const int64_t rows = matrix ? table->shape[0] : 1;
  if ((!matrix && table->shape.size() != 1) || table->shape.back() != config.hidden_size ||
      rows < range.min || rows > range.max) {
    return BadModel(StrCat("the tensor ", Quote(name), " is not a table of ", range.min, " to ",
                           range.max, " rows of ", config.hidden_size, " elements"));
  }
  return static_cast<int>(rows);
}

Status ReadTables(const GgufFile& file, const ArchitectureInfo& info, ModelConfig* config) {
  if (info.layers == LayerRule::kNoRope) {
    SLUICE_ASSIGN_OR_RETURN(config->position_rows,
                            RowsOfTable(file, "position_embd.weight", kContextRange, *config));
    if (config->position_rows == 0)
      return BadModel("the tensor \"position_embd.weight\" is missing");
    config->context_length = std::min(config->context_length, config->position_rows);
  }
  SLUICE_ASSIGN_OR_RETURN(config->token_types,
                          RowsOfTable(file, "token_types.weight", kTokenTypesRange, *config));
  return OkStatus();
}

// A model of which "no" and "yes" are the rows of an output matrix of its own, or a RoBERTa that
// classifies.
Status ReadLabels(const GgufFile& file, const ArchitectureInfo& info, ModelConfig* config) {
  const FileTensor* rows = file.Find("cls.output.weight");
  if (rows == nullptr || rows->shape.size() != 2 || rows->shape[0] > kVocabRange.max ||
      (info.encoder && file.Find("cls.weight") == nullptr)) {
    return BadModel(
        "the file is one that ranks, but of the tensors \"cls.weight\" and "
        "\"cls.output.weight\" of its head one is missing; serve the folder of Hugging Face");
  }
  const std::string key = StrCat(info.gguf_name, ".classifier.output_labels");
  const auto entry = file.metadata().find(key);
  const auto* array = entry == file.metadata().end()
                          ? nullptr
                          : std::get_if<GgufValue::Array>(&entry->second.value);
  const auto* names =
      array == nullptr ? nullptr : std::get_if<std::vector<std::string_view>>(array);
  for (int64_t i = 0; i < rows->shape[0]; ++i) config->labels.push_back(StrCat("LABEL_", i));
  if (names != nullptr && names->size() == config->labels.size())
    config->labels.assign(names->begin(), names->end());
  if (info.encoder) {
    config->pooling->kind = PoolingKind::kFirst;
    return OkStatus();
  }
  if (config->labels != std::vector<std::string>{"yes", "no"}) {
    return BadModel(StrCat(Quote(key), " is not the list of yes and no, which a ", info.gguf_name,
                           " model that ranks has"));
  }
  config->labels = {"no", "yes"};
  config->pooling->kind = PoolingKind::kLast;
  config->pooling->answer.emplace();
  return OkStatus();
}

}  // namespace

Status ReadGgufPooling(const GgufFile& file, const ArchitectureInfo& info, ModelConfig* config) {
  const std::string key = StrCat(info.gguf_name, ".pooling_type");
  SLUICE_ASSIGN_OR_RETURN(const auto type, file.Integer(key));
  if (info.encoder) {
    SLUICE_RETURN_IF_ERROR(ReadTables(file, info, config));
    config->pooling.emplace();
  }
  if (type.value_or(kPoolingNone) == kPoolingNone) {
    if (config->pooling) config->pooling->normalize = true;
    return OkStatus();
  }
  config->pooling.emplace();
  if (*type == kPoolingRank) return ReadLabels(file, info, config);
  // As llama.cpp's server gives them.
  config->pooling->normalize = true;
  for (const auto& [number, kind] : kGgufPoolings) {
    if (number == *type) {
      config->pooling->kind = kind;
      return OkStatus();
    }
  }
  return BadModel(StrCat(Quote(key), " is ", *type, "; 0 to 4 are legal"));
}

}  // namespace sluice::files
