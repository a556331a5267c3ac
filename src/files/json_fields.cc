#include "files/json_fields.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

constexpr JsonLimits kModelJsonLimits{
    .bytes_max = 32u << 20, .depth_max = 64, .values_max = 1u << 21};

std::string Shown(const Json& value) {
  std::string text = DumpJson(value);
  constexpr size_t kBytesMax = 80;
  if (text.size() > kBytesMax) text = text.substr(0, kBytesMax) + "...";
  return text;
}

Status Wrong(std::string_view key, const Json& value, std::string_view wanted) {
  return BadModel(StrCat(Quote(key), " is ", Shown(value), "; ", wanted));
}

std::optional<int> IntOf(const Json& value, IntRange range) {
  if (!value.is_number_integer()) return std::nullopt;
  // An unsigned value above int64's range would turn negative.
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::max<int64_t>(range.max, 0))) {
    return std::nullopt;
  }
  const auto number = value.get<int64_t>();
  if (number < range.min || number > range.max) return std::nullopt;
  return static_cast<int>(number);
}

std::optional<double> RealOf(const Json& value, RealRange range) {
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(number >= range.min && number <= range.max)) return std::nullopt;
  return number;
}

std::string Wanted(IntRange range) {
  return StrCat("an integer from ", range.min, " to ", range.max, " is needed");
}
std::string Wanted(RealRange range) {
  return StrCat("a number from ", range.min, " to ", range.max, " is needed");
}

}  // namespace

const Json* JsonFields::Find(std::string_view key) const {
  const auto entry = object_->find(key);
  return entry == object_->end() || entry->is_null() ? nullptr : &*entry;
}

bool JsonFields::IsNull(std::string_view key) const {
  const auto entry = object_->find(key);
  return entry != object_->end() && entry->is_null();
}

Status JsonFields::Int(std::string_view key, IntRange range, int* value) const {
  const Json* json = Find(key);
  if (!json) return OkStatus();
  const std::optional<int> number = IntOf(*json, range);
  if (!number) return Wrong(key, *json, Wanted(range));
  *value = *number;
  return OkStatus();
}

Status JsonFields::Real(std::string_view key, RealRange range, double* value) const {
  const Json* json = Find(key);
  if (!json) return OkStatus();
  const std::optional<double> number = RealOf(*json, range);
  if (!number) return Wrong(key, *json, Wanted(range));
  *value = *number;
  return OkStatus();
}

Status JsonFields::Real(std::string_view key, RealRange range, float* value) const {
  double number = *value;
  SLUICE_RETURN_IF_ERROR(Real(key, range, &number));
  *value = static_cast<float>(number);
  return OkStatus();
}

Status JsonFields::Real(std::string_view key, RealRange range, std::optional<double>* value) const {
  if (!Has(key)) return OkStatus();
  return Real(key, range, &value->emplace());
}

Status JsonFields::Real(std::string_view key, RealRange range, std::optional<float>* value) const {
  if (!Has(key)) return OkStatus();
  return Real(key, range, &value->emplace());
}

Status JsonFields::Bool(std::string_view key, bool* value) const {
  const Json* json = Find(key);
  if (!json) return OkStatus();
  if (!json->is_boolean()) return Wrong(key, *json, "true or false is needed");
  *value = json->get<bool>();
  return OkStatus();
}

Status JsonFields::Text(std::string_view key, std::string* value) const {
  const Json* json = Find(key);
  if (!json) return OkStatus();
  if (!json->is_string()) return Wrong(key, *json, "a string is needed");
  *value = json->get<std::string>();
  return OkStatus();
}

Status JsonFields::Reals(std::string_view key, RealRange range, size_t size_max,
                         std::vector<float>* values) const {
  const Json* json = Find(key);
  if (!json) return OkStatus();
  if (!json->is_array() || json->size() > size_max) {
    return Wrong(key, *json, StrCat("a list of at most ", size_max, " numbers is needed"));
  }
  values->clear();
  for (const Json& item : *json) {
    const std::optional<double> number = RealOf(item, range);
    if (!number) return Wrong(key, *json, StrCat("for each item ", Wanted(range)));
    values->push_back(static_cast<float>(*number));
  }
  return OkStatus();
}

Status JsonFields::Ids(std::string_view key, IntRange range, std::vector<int>* ids) const {
  const Json* json = Find(key);
  if (!json) return OkStatus();
  constexpr size_t kIdsMax = 1024;
  if (json->is_array() && json->size() <= kIdsMax) {
    for (const Json& item : *json) {
      const std::optional<int> id = IntOf(item, range);
      if (!id) return Wrong(key, *json, StrCat("for each item ", Wanted(range)));
      ids->push_back(*id);
    }
    return OkStatus();
  }
  const std::optional<int> id = IntOf(*json, range);
  if (!id) return Wrong(key, *json, StrCat(Wanted(range), ", or a list of at most ", kIdsMax));
  ids->push_back(*id);
  return OkStatus();
}

Result<std::optional<JsonFields>> JsonFields::Object(std::string_view key) const {
  const Json* json = Find(key);
  if (!json) return std::optional<JsonFields>();
  if (!json->is_object()) return Wrong(key, *json, "an object is needed");
  return std::optional<JsonFields>(std::in_place, *json);
}

Result<Json> ParseModelJson(std::string_view text, std::string_view what) {
  Result<Json> json = ParseJson(text, what, kModelJsonLimits);
  if (!json.ok()) return BadModel(json.status().message());
  if (!json->is_object()) return BadModel(StrCat(what, " is not a JSON object"));
  return json;
}

}  // namespace sluice::files
