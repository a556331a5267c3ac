// Bounded JSON parsing: every JSON text that enters the program comes through here. The time grows
// with the length of the text alone (times its logarithm, for the keys of an object), whatever the
// text holds. Thread-safe; the returned value belongs to the caller.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

using Json = nlohmann::json;
// Keeps the order of keys, as templates and schemas need.
using OrderedJson = nlohmann::ordered_json;

// How many items the list `name` of the outermost object may have.
struct JsonItemsLimit {
  std::string_view name;
  size_t items_max;
};

struct JsonLimits {
  size_t bytes_max = 64u << 20;  // of text
  int depth_max = 64;            // of nested arrays and objects
  size_t values_max = 1u << 22;  // values and keys in all
  size_t keys_max = 1u << 22;    // of one object
  std::span<const JsonItemsLimit> items_max = {};
};

// Parses one JSON text; reading stops at the first breach of a limit. Errors (kInvalidArgument):
// over a limit, not JSON, invalid UTF-8, a number out of double's range, a duplicate key in one
// object. `what` names the text in the error; that of a list over its limit has the list's name as
// its field.
Result<Json> ParseJson(std::string_view text, std::string_view what, const JsonLimits& limits = {});
Result<OrderedJson> ParseOrderedJson(std::string_view text, std::string_view what,
                                     const JsonLimits& limits = {});

// Serializes; bytes that are not UTF-8 become U+FFFD. Never throws.
std::string DumpJson(const Json& value);
std::string DumpJson(const OrderedJson& value);

}  // namespace sluice
