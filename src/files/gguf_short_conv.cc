#include "files/gguf_short_conv.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"

namespace sluice::files {

Status ReadGgufKvHeads(const GgufFields& fields, LayerKind other, ModelConfig* config) {
  const std::string key = fields.Key("attention.head_count_kv");
  const auto& metadata = fields.file().metadata();
  const auto entry = metadata.find(key);
  const auto* array =
      entry == metadata.end() ? nullptr : std::get_if<GgufValue::Array>(&entry->second.value);
  const auto* heads = array == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(array);
  if (heads == nullptr || heads->size() != config->layers.size()) {
    return BadModel(StrCat("the metadata key ", Quote(key), " is not an array of ",
                           config->num_layers, " integers"));
  }
  const int64_t most = *std::max_element(heads->begin(), heads->end());
  for (size_t i = 0; i < heads->size(); ++i) {
    const int64_t count = (*heads)[i];
    if (count < 0 || count > kHeadsRange.max || (count != 0 && count != most)) {
      return BadModel(StrCat(Quote(key), " gives layer ", i, " ", count,
                             " heads; none, or in all "
                             "other layers the same number from ",
                             kHeadsRange.min, " to ", kHeadsRange.max, ", are legal"));
    }
    config->layers[i].kind = count == 0 ? other : LayerKind::kFull;
  }
  if (most > 0) config->num_kv_heads = static_cast<int>(most);
  return OkStatus();
}

Status ReadGgufShortConv(const GgufFields& fields, ModelConfig* config) {
  const GgufFile& file = fields.file();
  const std::string key = fields.Key("attention.sliding_window");
  SLUICE_ASSIGN_OR_RETURN(const auto window, file.Integer(key));
  if (window.value_or(0) != 0) {
    return BadModel(StrCat(Quote(key), " is ", *window, "; ", fields.info().gguf_name,
                           " models with windows are not supported"));
  }
  SLUICE_RETURN_IF_ERROR(
      fields.RequiredInt("shortconv.l_cache", kConvKernelRange, &config->short_conv.kernel));
  SLUICE_RETURN_IF_ERROR(ReadGgufKvHeads(fields, LayerKind::kShortConv, config));
  for (int i = 0; i < config->num_layers; ++i) {
    if (file.Find(StrCat("blk.", i, ".shortconv.conv.bias")) != nullptr) {
      config->short_conv.bias = true;
    }
  }
  return OkStatus();
}

}  // namespace sluice::files
