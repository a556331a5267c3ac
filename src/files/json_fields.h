// Typed, range-checked look-ups in one JSON object of a model folder. A key that is absent or null
// leaves the value alone, so the caller sets the default first. Errors are kBadModel and name the
// key, its value and what is legal. Borrows the object; as thread-safe as it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "files/config_check.h"
#include "sluice/status.h"

namespace sluice::files {

class JsonFields {
 public:
  // REQUIRES: object.is_object()
  explicit JsonFields(const Json& object) : object_(&object) {}

  // nullptr when absent or null.
  const Json* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  bool IsNull(std::string_view key) const;  // present, and null

  Status Int(std::string_view key, IntRange range, int* value) const;
  Status Real(std::string_view key, RealRange range, double* value) const;
  Status Real(std::string_view key, RealRange range, float* value) const;
  Status Real(std::string_view key, RealRange range, std::optional<double>* value) const;
  Status Real(std::string_view key, RealRange range, std::optional<float>* value) const;
  Status Bool(std::string_view key, bool* value) const;
  Status Text(std::string_view key, std::string* value) const;
  // A list of at most `size_max` numbers, each in `range`.
  Status Reals(std::string_view key, RealRange range, size_t size_max,
               std::vector<float>* values) const;
  // One integer or a list of them, appended.
  Status Ids(std::string_view key, IntRange range, std::vector<int>* ids) const;
  // The object of that key; nothing when absent or null.
  Result<std::optional<JsonFields>> Object(std::string_view key) const;

 private:
  const Json* object_;
};

// ParseJson for a text that must be an object, with kBadModel errors.
Result<Json> ParseModelJson(std::string_view text, std::string_view what);

}  // namespace sluice::files
