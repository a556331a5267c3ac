#include "files/gguf_fields.h"

#include <algorithm>
#include <functional>
#include <variant>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {

Status CheckGgufInt(std::string_view name, int64_t value, IntRange range) {
  if (value >= range.min && value <= range.max) return OkStatus();
  return BadModel(
      StrCat(Quote(name), " is ", value, "; ", range.min, " to ", range.max, " are legal"));
}

GgufFields::GgufFields(const GgufFile& file, const ArchitectureInfo& info)
    : file_(file), info_(info) {}

std::string GgufFields::Key(std::string_view suffix) const {
  return StrCat(info_.gguf_name, ".", suffix);
}

Status GgufFields::Int(std::string_view suffix, IntRange range, int* value) const {
  const std::string key = Key(suffix);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<int64_t> number, file_.Integer(key));
  if (!number) return OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckGgufInt(key, *number, range));
  *value = static_cast<int>(*number);
  return OkStatus();
}

Status GgufFields::RequiredInt(std::string_view suffix, IntRange range, int* value) const {
  const std::string key = Key(suffix);
  if (!file_.metadata().contains(key)) {
    return BadModel(StrCat("the metadata key ", Quote(key), " is missing"));
  }
  return Int(suffix, range, value);
}

Status GgufFields::LayerInts(std::string_view suffix, IntRange range, int layers,
                             std::vector<int>* values) const {
  const std::string key = Key(suffix);
  const auto entry = file_.metadata().find(key);
  if (entry == file_.metadata().end()) return OkStatus();
  const auto* array = std::get_if<GgufValue::Array>(&entry->second.value);
  if (!array) {
    int value = 0;
    SLUICE_RETURN_IF_ERROR(Int(suffix, range, &value));
    values->assign(static_cast<size_t>(layers), value);
    return OkStatus();
  }
  const auto* numbers = std::get_if<std::vector<int64_t>>(array);
  if (!numbers || numbers->size() != static_cast<size_t>(layers)) {
    return BadModel(StrCat("the metadata key ", Quote(key), " is not an integer or an array of ",
                           layers, " integers"));
  }
  values->clear();
  for (const int64_t number : *numbers) {
    SLUICE_RETURN_IF_ERROR(CheckGgufInt(key, number, range));
    values->push_back(static_cast<int>(number));
  }
  return OkStatus();
}

Status GgufFields::UniformInt(std::string_view suffix, IntRange range, int layers,
                              int* value) const {
  std::vector<int> values;
  SLUICE_RETURN_IF_ERROR(LayerInts(suffix, range, layers, &values));
  if (values.empty()) return OkStatus();
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end())
    return BadModel(StrCat(Quote(Key(suffix)), " differs between layers, which is not supported"));
  *value = values.front();
  return OkStatus();
}

Status GgufFields::Real(std::string_view suffix, RealRange range,
                        std::optional<float>* value) const {
  const std::string key = Key(suffix);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<double> number, file_.Number(key));
  if (!number) return OkStatus();
  if (!(*number >= range.min && *number <= range.max)) {
    return BadModel(
        StrCat(Quote(key), " is ", *number, "; ", range.min, " to ", range.max, " are legal"));
  }
  *value = static_cast<float>(*number);
  return OkStatus();
}

Status GgufFields::Cap(std::string_view suffix, std::optional<float>* value) const {
  SLUICE_ASSIGN_OR_RETURN(const std::optional<double> number, file_.Number(Key(suffix)));
  if (number && *number == 0.0) {
    value->reset();
    return OkStatus();
  }
  return Real(suffix, kSoftCapRange, value);
}

Status GgufFields::Factor(std::string_view suffix, float* value) const {
  SLUICE_ASSIGN_OR_RETURN(const std::optional<double> number, file_.Number(Key(suffix)));
  if (number && *number == 0.0) return OkStatus();
  std::optional<float> factor;
  SLUICE_RETURN_IF_ERROR(Real(suffix, kFactorRange, &factor));
  *value = factor.value_or(*value);
  return OkStatus();
}

}  // namespace sluice::files
