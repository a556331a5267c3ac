#include "files/gguf_short_conv.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"

namespace sluice::files {

Status ReadGgufKvHeads(const GgufFile& file, const std::string& key, LayerKind other,
                       ModelConfig* config) {
  const auto entry = file.metadata().find(key);
  const auto* array = entry == file.metadata().end()
                          ? nullptr
                          : std::get_if<GgufValue::Array>(&entry->second.value);
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

Status ReadGgufShortConv(const GgufFile& file, const ArchitectureInfo& info, ModelConfig* config) {
  const auto key = [&](const char* suffix) { return StrCat(info.gguf_name, ".", suffix); };
  SLUICE_ASSIGN_OR_RETURN(const auto window, file.Integer(key("attention.sliding_window")));
  if (window.value_or(0) != 0) {
    return BadModel(StrCat(Quote(key("attention.sliding_window")), " is ", *window, "; ",
                           info.gguf_name, " models with windows are not supported"));
  }
  SLUICE_ASSIGN_OR_RETURN(const auto kernel, file.Integer(key("shortconv.l_cache")));
  if (!kernel) {
    return BadModel(StrCat("the metadata key ", Quote(key("shortconv.l_cache")), " is missing"));
  }
  if (*kernel < kConvKernelRange.min || *kernel > kConvKernelRange.max) {
    return BadModel(StrCat(Quote(key("shortconv.l_cache")), " is ", *kernel, "; ",
                           kConvKernelRange.min, " to ", kConvKernelRange.max, " are legal"));
  }
  config->short_conv.kernel = static_cast<int>(*kernel);
  SLUICE_RETURN_IF_ERROR(
      ReadGgufKvHeads(file, key("attention.head_count_kv"), LayerKind::kShortConv, config));
  for (int i = 0; i < config->num_layers; ++i) {
    if (file.Find(StrCat("blk.", i, ".shortconv.conv.bias")) != nullptr) {
      config->short_conv.bias = true;
    }
  }
  return OkStatus();
}

}  // namespace sluice::files
