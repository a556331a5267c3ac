#include "files/hf_quantization.h"

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

constexpr int kBlock = 128;
constexpr int kInt4Bits = 4, kInt8Bits = 8, kFp4Bits = 4;
constexpr int kFp4Group = 16;
constexpr IntRange kBitsRange{1, 64};
constexpr IntRange kGroupRange{-1, 1 << 20};
constexpr std::string_view kModelOpt = "modelopt";
constexpr std::string_view kRemedy = "; use another version of the model or a GGUF file";

// A list of names, which may be null.
Status CheckNames(const JsonFields& fields, std::string_view key) {
  const Json* names = fields.Find(key);
  if (names == nullptr) return OkStatus();
  bool texts = names->is_array();
  if (texts) {
    for (const Json& name : *names) texts = texts && name.is_string();
  }
  return texts ? OkStatus()
               : BadModel(StrCat(Quote(key), " in \"quantization_config\" is not a list of names"));
}

// [128, 128], as what `key` has; false when it is absent.
Result<bool> ReadBlockSize(const JsonFields& fields, std::string_view key) {
  const Json* size = fields.Find(key);
  if (size == nullptr) return false;
  if (size->is_array() && size->size() == 2 && (*size)[0] == kBlock && (*size)[1] == kBlock) {
    return true;
  }
  return BadModel(StrCat(Quote(key), " in \"quantization_config\" is ", Quote(size->dump()),
                         ", but scales of F8 weights may cover blocks of [128, 128] only",
                         kRemedy));
}

Result<F8Quantization> ReadFp8(const JsonFields& fields) {
  F8Quantization quantization{"fp8"};
  std::string scheme = "dynamic", format = "e4m3";
  SLUICE_RETURN_IF_ERROR(fields.Text("activation_scheme", &scheme));
  SLUICE_RETURN_IF_ERROR(fields.Text("fmt", &format));
  SLUICE_RETURN_IF_ERROR(CheckNames(fields, "modules_to_not_convert"));
  SLUICE_RETURN_IF_ERROR(CheckNames(fields, "ignored_layers"));
  SLUICE_ASSIGN_OR_RETURN(const bool blocks, ReadBlockSize(fields, "weight_block_size"));
  if (format != "e4m3" && format != "float8_e4m3fn") {
    return BadModel(StrCat("the weights are quantized to the F8 format ", Quote(format),
                           ", but only e4m3 is supported", kRemedy));
  }
  if (scheme == "static" && !blocks) {
    quantization.inputs = F8Inputs::kStatic;
  } else if (scheme == "dynamic") {
    quantization.inputs = blocks ? F8Inputs::kBlock : F8Inputs::kToken;
  } else {
    return BadModel(StrCat("\"activation_scheme\" in \"quantization_config\" is ", Quote(scheme),
                           blocks ? " beside blocks of weights, where only dynamic is supported"
                                  : "; static and dynamic are supported",
                           kRemedy));
  }
  return quantization;
}

Status CheckFloat8(const JsonFields& fields, std::string_view what) {
  std::string type = "unnamed";
  int bits = 0;
  bool symmetric = true;
  SLUICE_RETURN_IF_ERROR(fields.Text("type", &type));
  SLUICE_RETURN_IF_ERROR(fields.Int("num_bits", kBitsRange, &bits));
  SLUICE_RETURN_IF_ERROR(fields.Bool("symmetric", &symmetric));
  if (type == "float" && bits == 8 && symmetric) return OkStatus();
  return BadModel(StrCat("the ", what, " are quantized to ", bits, " bits of type ", Quote(type),
                         symmetric ? "" : ", with zero points,",
                         " by compressed-tensors, of which only symmetric 8-bit float is supported",
                         kRemedy));
}

Status CheckWeights(const JsonFields& fields) {
  SLUICE_RETURN_IF_ERROR(CheckFloat8(fields, "weights"));
  std::string strategy = "tensor";
  SLUICE_RETURN_IF_ERROR(fields.Text("strategy", &strategy));
  if (strategy == "tensor" || strategy == "channel") return OkStatus();
  if (strategy == "block") {
    SLUICE_ASSIGN_OR_RETURN(const bool given, ReadBlockSize(fields, "block_structure"));
    if (given) return OkStatus();
  }
  return BadModel(StrCat("the weights' \"strategy\" in \"quantization_config\" is ",
                         Quote(strategy),
                         "; tensor, channel, and block with a \"block_structure\" of [128, 128] "
                         "are supported",
                         kRemedy));
}

Result<F8Inputs> ReadInputs(const JsonFields& group) {
  SLUICE_ASSIGN_OR_RETURN(const auto fields, group.Object("input_activations"));
  if (!fields) return F8Inputs::kAsTheyAre;
  SLUICE_RETURN_IF_ERROR(CheckFloat8(*fields, "activations"));
  std::string strategy = "tensor";
  int group_size = -1;
  SLUICE_RETURN_IF_ERROR(fields->Text("strategy", &strategy));
  SLUICE_RETURN_IF_ERROR(fields->Int("group_size", kGroupRange, &group_size));
  // "dynamic" may also be "local", of which no part is known here.
  bool dynamic = false;
  SLUICE_RETURN_IF_ERROR(fields->Bool("dynamic", &dynamic));
  // A scale for all tokens of a step would make a token's result depend on its neighbours.
  if (dynamic && (strategy == "token" || strategy == "tensor")) return F8Inputs::kToken;
  if (dynamic && strategy == "group" && group_size == kBlock) return F8Inputs::kBlock;
  if (!dynamic && strategy == "tensor") return F8Inputs::kStatic;
  return BadModel(StrCat(
      "the activations' \"strategy\" in \"quantization_config\" is ",
      dynamic ? "dynamic " : "static ", Quote(strategy), " with a group size of ", group_size,
      "; static tensor, dynamic token and dynamic group of 128 are supported", kRemedy));
}

// The weights of a group in "pack-quantized": 4 bits, whose scales cover a row or groups of
// columns.
Status CheckPacked(const JsonFields& group, const JsonFields& weights) {
  std::string type = "unnamed", strategy = "unnamed";
  int bits = 0;
  SLUICE_RETURN_IF_ERROR(weights.Text("type", &type));
  SLUICE_RETURN_IF_ERROR(weights.Text("strategy", &strategy));
  SLUICE_RETURN_IF_ERROR(weights.Int("num_bits", kBitsRange, &bits));
  if (type != "int" || bits != kInt4Bits || (strategy != "group" && strategy != "channel")) {
    return BadModel(StrCat("the weights are quantized to ", bits, " bits of type ", Quote(type),
                           " with scales for each ", Quote(strategy),
                           " by compressed-tensors; packed, 4-bit int for each group or channel is "
                           "supported",
                           kRemedy));
  }
  if (!group.Has("input_activations")) return OkStatus();
  return BadModel(
      StrCat("the group of \"quantization_config\" quantizes activations beside weights "
             "in 4 bits, which is not supported",
             kRemedy));
}

// The weights of a group in "int-quantized". What becomes of activations is not asked: they are
// rounded to 8 bits as the device does it, or stay as they are.
Status CheckInt8(const JsonFields& weights) {
  std::string type = "unnamed", strategy = "tensor";
  int bits = 0;
  bool symmetric = true;
  SLUICE_RETURN_IF_ERROR(weights.Text("type", &type));
  SLUICE_RETURN_IF_ERROR(weights.Text("strategy", &strategy));
  SLUICE_RETURN_IF_ERROR(weights.Int("num_bits", kBitsRange, &bits));
  SLUICE_RETURN_IF_ERROR(weights.Bool("symmetric", &symmetric));
  const bool covered = strategy == "channel" || strategy == "tensor";
  if (type == "int" && bits == kInt8Bits && symmetric && covered) return OkStatus();
  return BadModel(StrCat("the weights are quantized to ", bits, " bits of type ", Quote(type),
                         symmetric ? "" : " and zero points", " with scales for each ",
                         Quote(strategy),
                         " by compressed-tensors; of integers that are not packed, symmetric 8-bit "
                         "int for each channel or tensor is supported",
                         kRemedy));
}

// The weights of a group in "nvfp4-pack-quantized"; activations stay as they are.
Status CheckNvfp4(const JsonFields& weights) {
  std::string type = "unnamed", strategy = "tensor_group";
  int bits = 0, group = kFp4Group;
  SLUICE_RETURN_IF_ERROR(weights.Text("type", &type));
  SLUICE_RETURN_IF_ERROR(weights.Text("strategy", &strategy));
  SLUICE_RETURN_IF_ERROR(weights.Int("num_bits", kBitsRange, &bits));
  SLUICE_RETURN_IF_ERROR(weights.Int("group_size", kGroupRange, &group));
  if (type == "float" && bits == kFp4Bits && group == kFp4Group && strategy == "tensor_group") {
    return OkStatus();
  }
  return BadModel(StrCat("the weights are quantized to ", bits, " bits of type ", Quote(type),
                         " with scales for each ", Quote(strategy), " of ", group,
                         " by compressed-tensors; of packed floats, those of 4 bits for each "
                         "tensor_group of 16 are supported",
                         kRemedy));
}

// How compressed-tensors stores weights.
enum class Stored { kFloat8, kPacked, kInt8, kNvfp4 };

Result<Stored> StoredAs(const JsonFields& fields) {
  std::string format = "float-quantized";
  SLUICE_RETURN_IF_ERROR(fields.Text("format", &format));
  if (format == "float-quantized" || format == "naive-quantized") return Stored::kFloat8;
  if (format == "pack-quantized") return Stored::kPacked;
  if (format == "int-quantized") return Stored::kInt8;
  if (format == "nvfp4-pack-quantized") return Stored::kNvfp4;
  return BadModel(StrCat("the weights are stored as ", Quote(format),
                         " by compressed-tensors, of which only float-quantized, int-quantized, "
                         "pack-quantized and nvfp4-pack-quantized are supported",
                         kRemedy));
}

// Those of a group that are no floats of 8 bits.
Status CheckStored(Stored stored, const JsonFields& group, const JsonFields& weights) {
  switch (stored) {
    case Stored::kPacked:
      return CheckPacked(group, weights);
    case Stored::kInt8:
      return CheckInt8(weights);
    case Stored::kNvfp4:
      return CheckNvfp4(weights);
    case Stored::kFloat8:
      break;
  }
  return OkStatus();
}

// Nothing where the weights are in 4 bits or integers.
Result<std::optional<F8Quantization>> ReadCompressedTensors(const JsonFields& fields) {
  F8Quantization quantization{"compressed-tensors"};
  SLUICE_ASSIGN_OR_RETURN(const Stored stored, StoredAs(fields));
  const Json* transform = fields.Find("transform_config");
  if (transform != nullptr && !transform->empty()) {
    return BadModel(
        StrCat("\"transform_config\" in \"quantization_config\" asks for rotations of "
               "weights and activations, which are not supported",
               kRemedy));
  }
  SLUICE_RETURN_IF_ERROR(CheckNames(fields, "ignore"));
  SLUICE_ASSIGN_OR_RETURN(const auto groups, fields.Object("config_groups"));
  const Json* all = fields.Find("config_groups");
  if (!groups || all->empty()) {
    return BadModel(
        "\"config_groups\" in \"quantization_config\" is missing or empty; the "
        "download may be incomplete");
  }
  bool first = true;
  for (const auto& [name, json] : all->items()) {
    SLUICE_ASSIGN_OR_RETURN(const auto group, groups->Object(name));
    if (!group) continue;
    SLUICE_RETURN_IF_ERROR(CheckNames(*group, "targets"));
    SLUICE_ASSIGN_OR_RETURN(const auto weights, group->Object("weights"));
    if (!weights) {
      return BadModel(StrCat("\"weights\" in the group ", Quote(name),
                             " of \"quantization_config\" is missing, but only quantized weights "
                             "are supported",
                             kRemedy));
    }
    if (stored != Stored::kFloat8) {
      SLUICE_RETURN_IF_ERROR(CheckStored(stored, *group, *weights));
      continue;
    }
    SLUICE_RETURN_IF_ERROR(CheckWeights(*weights));
    SLUICE_ASSIGN_OR_RETURN(const F8Inputs inputs, ReadInputs(*group));
    if (!first && inputs != quantization.inputs) {
      return BadModel(
          StrCat("the groups of \"quantization_config\" quantize activations in more "
                 "than one way, which is not supported",
                 kRemedy));
    }
    quantization.inputs = inputs;
    first = false;
  }
  if (stored != Stored::kFloat8) return std::optional<F8Quantization>();
  return std::optional(std::move(quantization));
}

// "awq" and "gptq": integers of 4 bits. The size of groups, zero points and whether the columns
// were sorted, the tensors say.
Status CheckInt4(const JsonFields& fields, std::string_view method) {
  int bits = kInt4Bits, group = -1;
  for (const char* key : {"bits", "w_bit"}) {
    SLUICE_RETURN_IF_ERROR(fields.Int(key, kBitsRange, &bits));
  }
  for (const char* key : {"group_size", "q_group_size"}) {
    SLUICE_RETURN_IF_ERROR(fields.Int(key, kGroupRange, &group));
  }
  SLUICE_RETURN_IF_ERROR(CheckNames(fields, "modules_to_not_convert"));
  if (bits != kInt4Bits) {
    return BadModel(StrCat("the weights are quantized to ", bits, " bits by the method ",
                           Quote(method), ", of which only 4 are supported", kRemedy));
  }
  const bool awq = method == "awq";
  const std::string_view key = awq ? "version" : "checkpoint_format", known = awq ? "gemm" : "gptq";
  std::string layout(known);
  SLUICE_RETURN_IF_ERROR(fields.Text(key, &layout));
  if (layout == known || (awq && layout == "GEMM")) return OkStatus();
  return BadModel(StrCat(Quote(key), " in \"quantization_config\" is ", Quote(layout), "; only ",
                         known, " is supported", kRemedy));
}

// "modelopt", as config.json or hf_quant_config.json has it: NVFP4, which the tensors themselves
// say, or F8 with a scale of the activations of each matrix.
Result<std::optional<F8Quantization>> ReadModelOpt(const JsonFields& fields) {
  std::string algorithm = "unnamed";
  int group = kFp4Group;
  SLUICE_RETURN_IF_ERROR(fields.Text("quant_algo", &algorithm));
  SLUICE_RETURN_IF_ERROR(fields.Int("group_size", kGroupRange, &group));
  SLUICE_RETURN_IF_ERROR(CheckNames(fields, "exclude_modules"));
  SLUICE_RETURN_IF_ERROR(CheckNames(fields, "ignore"));
  if (algorithm == "FP8") {
    return std::optional(F8Quantization{std::string(kModelOpt), F8Inputs::kStatic});
  }
  if (algorithm == "NVFP4" && group == kFp4Group) return std::optional<F8Quantization>();
  return BadModel(StrCat("the weights are quantized by ModelOpt with \"quant_algo\" ",
                         Quote(algorithm), " in groups of ", group,
                         "; FP8, and NVFP4 in groups of 16, are supported", kRemedy));
}

}  // namespace

std::string ToString(const F8Quantization& quantization) {
  constexpr std::string_view kInputs[] = {
      "activations as they are", "activations in F8 by a scale of the checkpoint",
      "activations in F8 by token", "activations in F8 by 128 elements of a token"};
  return StrCat(quantization.method, ", ", kInputs[static_cast<size_t>(quantization.inputs)]);
}

Result<std::optional<F8Quantization>> ReadHfQuantization(const JsonFields& config) {
  SLUICE_ASSIGN_OR_RETURN(auto fields, config.Object("quantization_config"));
  // As early files of llm-compressor call it.
  if (!fields) {
    SLUICE_ASSIGN_OR_RETURN(fields, config.Object("compression_config"));
  }
  if (!fields) return std::optional<F8Quantization>();
  std::string method = "unnamed";
  SLUICE_RETURN_IF_ERROR(fields->Text("quant_method", &method));
  if (method == "fp8") {
    SLUICE_ASSIGN_OR_RETURN(F8Quantization read, ReadFp8(*fields));
    return std::optional(std::move(read));
  }
  if (method == "compressed-tensors") {
    return ReadCompressedTensors(*fields);
  }
  if (method == "awq" || method == "gptq") {
    SLUICE_RETURN_IF_ERROR(CheckInt4(*fields, method));
    return std::optional<F8Quantization>();
  }
  // Its tensors say which matrices these are.
  if (method == "mxfp4") {
    SLUICE_RETURN_IF_ERROR(CheckNames(*fields, "modules_to_not_convert"));
    return std::optional<F8Quantization>();
  }
  if (method == kModelOpt || method == "modelopt_fp4") return ReadModelOpt(*fields);
  return BadModel(
      StrCat("the weights are quantized by the method ", Quote(method),
             "; fp8, compressed-tensors, awq, gptq, mxfp4 and modelopt are supported, else use the "
             "unquantized model or a GGUF file"));
}

Result<std::optional<F8Quantization>> ReadModelOptConfig(std::string_view text) {
  if (text.empty()) return std::optional<F8Quantization>();
  constexpr std::string_view kName = "hf_quant_config.json";
  SLUICE_ASSIGN_OR_RETURN(const Json json, ParseModelJson(text, kName));
  const auto read = [&]() -> Result<std::optional<F8Quantization>> {
    SLUICE_ASSIGN_OR_RETURN(const auto fields, JsonFields(json).Object("quantization"));
    if (!fields || !fields->Has("quant_algo")) return std::optional<F8Quantization>();
    return ReadModelOpt(*fields);
  }();
  return read.ok() ? read : read.status().WithContext(kName);
}

}  // namespace sluice::files
