#include "server/shared/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/shared/api_call.h"
#include "sluice/limits.h"

namespace sluice::server {
namespace {

constexpr int kDepthMax = 64;
constexpr size_t kValuesMax = 2u << 20;
// An ordered object looks for a key from the front.
constexpr size_t kKeysMax = 1024;
// Lists that could be longer by far than what may stand in them: a body is refused at the first
// item too many.
constexpr JsonItemsLimit kItemsMax[] = {{"messages", kMessagesMax},
                                        {"tools", kToolsMax},
                                        {"stop", limits::kStopsMax},
                                        {"stop_token_ids", limits::kStopIdsMax},
                                        {"tokens", limits::kDetokenizeIdsMax}};
constexpr size_t kParamBytesMax = 64;

}  // namespace

std::string ShownValue(const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::string:
      return Quote(value.get_ref<const std::string&>());
    case OrderedJson::value_t::array:
      return StrCat("an array of ", value.size(), value.size() == 1 ? " item" : " items");
    case OrderedJson::value_t::object:
      return StrCat("an object of ", value.size(), value.size() == 1 ? " field" : " fields");
    default:
      return value.dump();  // a number, true, false or null
  }
}

std::string_view TypeName(const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::null:
      return "null";
    case OrderedJson::value_t::boolean:
      return "a boolean";
    case OrderedJson::value_t::string:
      return "a string";
    case OrderedJson::value_t::array:
      return "an array";
    case OrderedJson::value_t::object:
      return "an object";
    default:
      return "a number";
  }
}

Result<OrderedJson> ParseBody(std::string_view body) {
  JsonLimits limits;
  limits.bytes_max = std::numeric_limits<size_t>::max();  // the connection has its own
  limits.depth_max = kDepthMax;
  limits.values_max = kValuesMax;
  limits.keys_max = kKeysMax;
  limits.items_max = kItemsMax;
  SLUICE_ASSIGN_OR_RETURN(OrderedJson value, ParseOrderedJson(body, "the body", limits));
  if (!value.is_object()) {
    return InvalidArgument(StrCat("the body is ", TypeName(value), "; it must be a JSON object"));
  }
  return value;
}

Fields::Fields(const OrderedJson& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (!object.is_object()) {
    std::string name = path_;
    while (!name.empty() && name.back() == '.') name.pop_back();
    status_ =
        InvalidArgument(StrCat(name, " is ", TypeName(object), "; it must be an object"), name);
  }
}

void Fields::Fail(std::string_view name, std::string message) {
  if (status_.ok()) status_ = InvalidArgument(std::move(message), StrCat(path_, name));
}

void Fields::Take(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Fields::WrongType(std::string_view name, const OrderedJson& value, std::string_view wanted) {
  const bool shown = value.is_string() || value.is_number() || value.is_boolean();
  Fail(name, StrCat(path_, name, " is ", TypeName(value),
                    shown ? StrCat(" (", ShownValue(value), ")") : "", "; it must be ", wanted));
}

void Fields::WrongValue(std::string_view name, std::string_view wanted) {
  const OrderedJson* value = Any(name);
  if (value == nullptr) return Missing(name, wanted);
  Fail(name, StrCat(path_, name, " is ", ShownValue(*value), "; it must be ", wanted));
}

void Fields::Missing(std::string_view name, std::string_view wanted) {
  const OrderedJson* value = Any(name);
  Fail(name, StrCat(path_, name, value == nullptr ? " is missing" : " is empty", "; it must be ",
                    wanted));
}

void Fields::WrongContent(std::string_view type, std::string_view send) {
  if (type.empty()) return Missing("type", send);
  Fail("type", StrCat(path_, "type is ", Quote(type),
                      ", which is not supported by this version; send ", send));
}

void Fields::Differ(std::string_view name, std::string_view other) {
  const OrderedJson *one = Any(other), *two = Any(name);
  const auto shown = [](const OrderedJson* value) {
    return value == nullptr ? std::string("missing") : ShownValue(*value);
  };
  Fail(name, StrCat(path_, other, " is ", shown(one), " and ", path_, name, " is ", shown(two),
                    "; send one of them"));
}

const OrderedJson* Fields::Any(std::string_view name) {
  known_.emplace_back(name);
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> Fields::Bool(std::string_view name) {
  const OrderedJson* value = Any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  WrongType(name, *value, "true or false");
  return std::nullopt;
}

std::optional<int64_t> Fields::Integer(std::string_view name, int64_t low, int64_t high) {
  const OrderedJson* value = Any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    WrongType(name, *value, "an integer");
    return std::nullopt;
  }
  constexpr uint64_t kInt64Max = std::numeric_limits<int64_t>::max();
  std::optional<int64_t> number;
  if (value->is_number_unsigned()) {
    if (value->get<uint64_t>() <= kInt64Max) number = value->get<int64_t>();
  } else if (value->is_number_integer()) {
    number = value->get<int64_t>();
  } else {
    const double real = value->get<double>();
    if (real != std::floor(real)) {
      Fail(name, StrCat(path_, name, " is ", real, "; it must be an integer"));
      return std::nullopt;
    }
    if (std::abs(real) < 0x1p62) number = static_cast<int64_t>(real);
  }
  if (!number || *number < low || *number > high) {
    const std::string shown = value->dump();
    Fail(name, RangeError(StrCat(path_, name), shown, low, high));
    return std::nullopt;
  }
  return number;
}

std::optional<int> Fields::Int(std::string_view name, int low, int high) {
  const std::optional<int64_t> value = Integer(name, low, high);
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

std::optional<double> Fields::Number(std::string_view name) {
  const OrderedJson* value = Any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  WrongType(name, *value, "a number");
  return std::nullopt;
}

std::optional<std::string> Fields::String(std::string_view name, size_t bytes_max) {
  const OrderedJson* value = Any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    WrongType(name, *value, "a string");
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > bytes_max) {
    Fail(name, StrCat(path_, name, " has ", text.size(), " bytes; the limit is ", bytes_max));
    return std::nullopt;
  }
  return text;
}

const OrderedJson* Fields::Array(std::string_view name, size_t items_max) {
  const OrderedJson* value = Any(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    WrongType(name, *value, "an array");
    return nullptr;
  }
  if (value->size() > items_max) {
    Fail(name, StrCat(path_, name, " has ", value->size(), " items; the limit is ", items_max));
    return nullptr;
  }
  return value;
}

const OrderedJson* Fields::Object(std::string_view name) {
  const OrderedJson* value = Any(name);
  if (value == nullptr || value->is_object()) return value;
  WrongType(name, *value, "an object");
  return nullptr;
}

void Fields::OnlyValue(std::string_view name, const OrderedJson& neutral) {
  const OrderedJson* value = Any(name);
  if (value == nullptr) return;
  // nlohmann compares integers of either sign by their bits: 2^64 - 1 would be -1.
  const bool numbers = value->is_number() && neutral.is_number();
  if (numbers ? value->get<double>() == neutral.get<double>() : *value == neutral) return;
  Fail(name,
       StrCat(path_, name, " is ", ShownValue(*value),
              ", which is not supported by this version; leave it out or send ", neutral.dump()));
}

Status Fields::Finish() {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    return InvalidArgument(StrCat("the field ", Quote(path_ + key), " is not known; remove it"),
                           path_ + key.substr(0, kParamBytesMax));
  }
  return OkStatus();
}

}  // namespace sluice::server
