#include "weights/file_types.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/str_cat.h"
#include "files/file_type.h"
#include "ops/formats/rows.h"

namespace sluice::weights {
namespace {

constexpr FileType TypeOf(uint32_t number, DType dtype) {
  return {files::GgufFileTypeName(number), number, dtype};
}

constexpr FileType kFileTypes[] = {
    TypeOf(0, DType::kF32),   TypeOf(1, DType::kF16),   TypeOf(32, DType::kBF16),
    TypeOf(7, DType::kQ8_0),  TypeOf(18, DType::kQ6_K), TypeOf(17, DType::kQ5_K),
    TypeOf(16, DType::kQ5_K), TypeOf(9, DType::kQ5_1),  TypeOf(8, DType::kQ5_0),
    TypeOf(15, DType::kQ4_K), TypeOf(14, DType::kQ4_K), TypeOf(3, DType::kQ4_1),
    TypeOf(2, DType::kQ4_0),  TypeOf(13, DType::kQ3_K), TypeOf(12, DType::kQ3_K),
    TypeOf(11, DType::kQ3_K), TypeOf(10, DType::kQ2_K),
};

// Parts of the names of matrices that are small or that a little noise spoils.
constexpr std::string_view kKept[] = {
    "_norm.weight",  "ffn_gate_inp.weight",
    "ssm_conv1d",    "shortconv.conv.weight",
    "altup",         "laurel",
    "position_embd", "per_layer_model_proj",
    "attn_rel_b",    "token_types.weight",
};

// What the mixtures depend on.
struct ModelFacts {
  int layers = 0;
  int value_layers = 0;  // that have a tensor for V
  int64_t heads_per_kv_head = 1;
  bool tied = true;  // the embedding is the output too
};

// "attn_v.weight" of "blk.7.attn_v.weight"; layer -1 outside of blocks.
struct TensorPlace {
  int layer = -1;
  std::string_view part;
};

TensorPlace PlaceOf(std::string_view name) {
  TensorPlace place{-1, name};
  if (!name.starts_with("blk.")) return place;
  int layer = 0;
  const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.' || layer < 0) {
    return place;
  }
  return {layer, name.substr(static_cast<size_t>(end + 1 - name.data()))};
}

bool HoldsV(std::string_view part) {
  return part == "attn_v.weight" || part == "attn_qkv.weight" || part == "attn_kv_b.weight";
}

int64_t IntegerOr(const files::GgufFile& file, const std::string& key, int64_t fallback) {
  const auto value = file.Integer(key);
  return value.ok() ? value->value_or(fallback) : fallback;
}

ModelFacts FactsOf(const files::GgufFile& file) {
  ModelFacts facts;
  const auto name = file.String("general.architecture");
  const std::string prefix = name.ok() ? name->value_or("") : "";
  facts.layers = static_cast<int>(
      std::clamp<int64_t>(IntegerOr(file, prefix + ".block_count", 0), 0, 1 << 20));
  const int64_t heads = IntegerOr(file, prefix + ".attention.head_count", 1);
  const int64_t kv_heads = IntegerOr(file, prefix + ".attention.head_count_kv", heads);
  facts.heads_per_kv_head = kv_heads > 0 ? heads / kv_heads : 1;
  for (const files::FileTensor& tensor : file.tensors()) {
    if (HoldsV(PlaceOf(tensor.name).part)) ++facts.value_layers;
    if (tensor.name == "output.weight") facts.tied = false;
  }
  return facts;
}

bool IsKept(const files::FileTensor& tensor) {
  if (tensor.shape.size() < 2 || !ops::CanDequantize(tensor.dtype)) return true;
  // No weights, and weights whose scale is a tensor apart.
  if (tensor.dtype == DType::kI8 || tensor.dtype == DType::kNVFP4) return true;
  if (!tensor.name.ends_with("weight")) return true;
  return std::any_of(std::begin(kKept), std::end(kKept), [&](std::string_view part) {
    return tensor.name.find(part) != std::string::npos;
  });
}

// The first and the last eighth of the layers, and every third between them.
bool IsSensitive(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

DType OfValues(const FileType& type, const ModelFacts& facts, int layer) {
  const bool sensitive = IsSensitive(layer, facts.value_layers);
  if (type.name == "Q2_K") return facts.heads_per_kv_head >= 4 ? DType::kQ4_K : DType::kQ3_K;
  if (type.name == "Q3_K_M") return layer < 2 ? DType::kQ5_K : DType::kQ4_K;
  if (type.name == "Q3_K_L") return DType::kQ5_K;
  if (type.name == "Q4_K_S" && layer < 4) return DType::kQ5_K;
  if ((type.name == "Q4_K_M" || type.name == "Q5_K_M") && sensitive) return DType::kQ6_K;
  return type.dtype;
}

DType OfDownProjection(const FileType& type, const ModelFacts& facts, int layer) {
  const bool sensitive = IsSensitive(layer, facts.layers);
  if (type.name == "Q2_K") return DType::kQ3_K;
  if (type.name == "Q3_K_M") return layer < facts.layers / 16 ? DType::kQ5_K : DType::kQ4_K;
  if (type.name == "Q3_K_L") return DType::kQ5_K;
  if (type.name == "Q4_K_S" && layer < facts.layers / 8) return DType::kQ5_K;
  if ((type.name == "Q4_K_M" || type.name == "Q5_K_M") && sensitive) return DType::kQ6_K;
  return type.dtype;
}

DType OfAttentionOutput(const FileType& type) {
  if (type.name == "Q2_K") return DType::kQ3_K;
  if (type.name == "Q3_K_M") return DType::kQ4_K;
  if (type.name == "Q3_K_L") return DType::kQ5_K;
  return type.dtype;
}

bool Fits(DType dtype, int64_t columns) { return columns % Info(dtype).block == 0; }

DType OfOutput(const FileType& type, int64_t columns) {
  if (type.dtype == DType::kQ8_0 || !Fits(type.dtype, columns)) return DType::kQ8_0;
  return DType::kQ6_K;
}

DType Wished(const FileType& type, const ModelFacts& facts, const files::FileTensor& tensor) {
  const TensorPlace place = PlaceOf(tensor.name);
  const bool output =
      tensor.name == "output.weight" || (facts.tied && tensor.name == "token_embd.weight");
  if (output) return OfOutput(type, tensor.shape.back());
  if (place.layer < 0) return type.dtype;
  if (HoldsV(place.part)) return OfValues(type, facts, place.layer);
  if (place.part.starts_with("ffn_down")) return OfDownProjection(type, facts, place.layer);
  if (place.part == "attn_output.weight") return OfAttentionOutput(type);
  return type.dtype;
}

// The format for rows that are no whole blocks of the one wished.
DType Fallback(DType dtype, int64_t columns) {
  if (Fits(dtype, columns)) return dtype;
  switch (dtype) {
    case DType::kQ2_K:
    case DType::kQ3_K:
      dtype = DType::kQ4_0;
      break;
    case DType::kQ4_K:
      dtype = DType::kQ5_0;
      break;
    case DType::kQ5_K:
      dtype = DType::kQ5_1;
      break;
    default:
      dtype = DType::kQ8_0;
      break;
  }
  return Fits(dtype, columns) ? dtype : DType::kF16;
}

}  // namespace

std::span<const FileType> FileTypes() { return kFileTypes; }

Result<FileType> FindFileType(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper == "Q3_K" || upper == "Q4_K" || upper == "Q5_K") upper += "_M";
  std::string known;
  for (const FileType& type : kFileTypes) {
    if (type.name == upper) return type;
    known += StrCat(known.empty() ? "" : ", ", type.name);
  }
  return InvalidArgument(StrCat("--type ", name, " is not known; the types are ", known));
}

std::vector<DType> TensorTypes(const FileType& type, const files::GgufFile& file) {
  const ModelFacts facts = FactsOf(file);
  std::vector<DType> types;
  for (const files::FileTensor& tensor : file.tensors()) {
    if (IsKept(tensor)) {
      types.push_back(tensor.dtype);
    } else if (IsQuantized(type.dtype)) {
      types.push_back(Fallback(Wished(type, facts, tensor), tensor.shape.back()));
    } else {
      types.push_back(type.dtype);
    }
  }
  return types;
}

}  // namespace sluice::weights
