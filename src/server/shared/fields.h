// Reads one JSON object of a request strictly: every field has a type and a range, and a field that
// nobody asked for is an error. The first error is kept; after it every read gives nothing. Not
// thread-safe; keeps references to the object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "sluice/status.h"

namespace sluice::server {

// Limits of texts: of a long one the body's is the real one; of a word that is one of a few; and of
// a name that is repeated to whoever sent it.
inline constexpr size_t kTextBytesMax = size_t{1} << 30, kNameBytesMax = 256,
                        kLongNameBytesMax = 4096;

// Parses a request's body as an object. `body` is within the server's limit.
Result<OrderedJson> ParseBody(std::string_view body);

class Fields {
 public:
  // `path` stands before the names in errors: "messages[0]."
  explicit Fields(const OrderedJson& object, std::string path = {});

  // Nothing when the field is absent, null, or wrong.
  std::optional<bool> Bool(std::string_view name);
  // A number without a fraction, however it is written (8, 8.0, 8e0).
  std::optional<int64_t> Integer(std::string_view name, int64_t low, int64_t high);
  std::optional<int> Int(std::string_view name, int low, int high);
  std::optional<double> Number(std::string_view name);
  std::optional<std::string> String(std::string_view name, size_t bytes_max);
  const OrderedJson* Array(std::string_view name, size_t items_max);
  const OrderedJson* Object(std::string_view name);
  // Any type; nullptr when absent or null.
  const OrderedJson* Any(std::string_view name);

  // The field may be there with this value alone, which is what happens without it.
  void OnlyValue(std::string_view name, const OrderedJson& neutral);

  void Fail(std::string_view name, std::string message);
  // Fails with what `value` is and with what it must be.
  void WrongType(std::string_view name, const OrderedJson& value, std::string_view wanted);
  // The same of the field's own value, which may be missing.
  void WrongValue(std::string_view name, std::string_view wanted);
  // The same where it is missing, or empty.
  void Missing(std::string_view name, std::string_view wanted);
  // Fails for a `type` of content that no model here takes, as an image; `send`: what to send.
  void WrongContent(std::string_view type, std::string_view send);
  // Fails where two fields, whose values differ, say one thing.
  void Differ(std::string_view name, std::string_view other);
  // Takes over the error of an object within this one.
  void Take(Status status);
  bool ok() const { return status_.ok(); }
  // The first error, or that of a field which was never asked for.
  Status Finish();

  // The names asked for so far.
  const std::vector<std::string>& known() const { return known_; }

 private:
  const OrderedJson& object_;
  const std::string path_;
  std::vector<std::string> known_;
  Status status_;
};

// "a string", "a number", ... for errors.
std::string_view TypeName(const OrderedJson& value);
// A value as an error repeats it: escaped, and cut to what fits in a sentence.
std::string ShownValue(const OrderedJson& value);

}  // namespace sluice::server
