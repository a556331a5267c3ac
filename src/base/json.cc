#include "base/json.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"

namespace sluice {
namespace {

// Builds the value from what nlohmann's parser reports, and stops the parser at the first breach of
// a limit, so that no deep tree exists, whose destructor would recurse. nlohmann's own builders
// look through all siblings of each value when they call back, and ordered objects search their
// keys, and copy all values when they grow, at each insertion: the square of what a client sends.
// Here an object's entries stay in a plain vector until its end.
template <class J>
class Builder {
 public:
  using number_integer_t = typename J::number_integer_t;
  using number_unsigned_t = typename J::number_unsigned_t;
  using number_float_t = typename J::number_float_t;
  using string_t = typename J::string_t;
  using binary_t = typename J::binary_t;

  Builder(const JsonLimits& limits, std::string_view what) : limits_(limits), what_(what) {}

  // After the parser.
  Result<J> Take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

  // ---- What the parser calls; false stops it.
  bool null() { return Place(nullptr) != nullptr; }
  bool boolean(bool value) { return Place(value) != nullptr; }
  bool number_integer(number_integer_t value) { return Place(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) { return Place(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) { return Place(value) != nullptr; }
  bool string(string_t& value) { return Place(std::move(value)) != nullptr; }
  bool binary(binary_t&) { return false; }  // not in JSON texts
  bool start_object(size_t) { return Open(J::object()); }
  bool start_array(size_t) { return Open(J::array()); }
  bool end_array() {
    levels_.pop_back();
    return true;
  }

  bool key(string_t& name) {
    if (!Count()) return false;
    std::vector<Entry>& entries = levels_.back().entries;
    entries.emplace_back(std::move(name), nullptr);
    if (entries.size() <= limits_.keys_max) return true;
    return Fail(StrCat("has an object of more than ", limits_.keys_max, " keys"));
  }

  bool end_object() {
    std::vector<Entry>& entries = levels_.back().entries;
    std::vector<Entry*> sorted;
    sorted.reserve(entries.size());
    for (Entry& entry : entries) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(),
              [](const Entry* a, const Entry* b) { return a->first < b->first; });
    const auto twice =
        std::adjacent_find(sorted.begin(), sorted.end(),
                           [](const Entry* a, const Entry* b) { return a->first == b->first; });
    if (twice != sorted.end()) {
      return Fail(StrCat("has the key ", Quote((*twice)->first), " twice"));
    }
    auto& object = levels_.back().value->template get_ref<typename J::object_t&>();
    if constexpr (std::is_same_v<J, OrderedJson>) {
      object.reserve(entries.size());
      for (auto& [name, value] : entries) object.emplace_back(std::move(name), std::move(value));
    } else {
      for (Entry* entry : sorted) {
        object.emplace_hint(object.end(), std::move(entry->first), std::move(entry->second));
      }
    }
    levels_.pop_back();
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    // The reason repeats the text that it does not understand, however long that is.
    constexpr size_t kReasonBytesMax = 300;
    std::string_view reason = error.what();
    if (const size_t end = reason.find("] "); end != std::string::npos)
      reason.remove_prefix(end + 2);
    const bool cut = reason.size() > kReasonBytesMax;
    return Fail(StrCat("is not valid JSON: ", RepairUtf8(reason.substr(0, kReasonBytesMax)),
                       cut ? "..." : ""));
  }

 private:
  using Entry = std::pair<std::string, J>;

  // An array or object that is not closed yet.
  struct Level {
    J* value;
    std::vector<Entry> entries;  // of an object
    const JsonItemsLimit* items_max = nullptr;
  };

  bool Fail(std::string message, std::string_view field = {}) {
    status_ = InvalidArgument(StrCat(what_, " ", message), std::string(field));
    return false;
  }

  bool Count() {
    if (++values_ <= limits_.values_max) return true;
    return Fail(StrCat("has more than ", limits_.values_max, " values"));
  }

  // Where the value stands; null at a breach. A level's value stays where it is while it is open,
  // as only the innermost level grows.
  J* Place(J value) {
    if (!Count()) return nullptr;
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_object()) {
      level.entries.back().second = std::move(value);
      return &level.entries.back().second;
    }
    auto& items = level.value->template get_ref<typename J::array_t&>();
    if (level.items_max != nullptr && items.size() == level.items_max->items_max) {
      const auto& [name, items_max] = *level.items_max;
      status_ = InvalidArgument(StrCat(name, " has more items than the limit of ", items_max),
                                std::string(name));
      return nullptr;
    }
    items.push_back(std::move(value));
    return &items.back();
  }

  bool Open(J container) {
    if (levels_.size() >= static_cast<size_t>(limits_.depth_max)) {
      return Fail(StrCat("is nested deeper than ", limits_.depth_max, " levels"));
    }
    Level level;
    if (levels_.size() == 1 && levels_[0].value->is_object() && container.is_array()) {
      for (const JsonItemsLimit& limit : limits_.items_max) {
        if (limit.name == levels_[0].entries.back().first) level.items_max = &limit;
      }
    }
    level.value = Place(std::move(container));
    if (level.value == nullptr) return false;
    levels_.push_back(std::move(level));
    return true;
  }

  const JsonLimits& limits_;
  const std::string_view what_;
  size_t values_ = 0;
  J root_;
  std::vector<Level> levels_;  // outermost first
  Status status_;
};

template <class J>
Result<J> Parse(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return InvalidArgument(
        StrCat(what, " has ", text.size(), " bytes; the limit is ", limits.bytes_max));
  }
  // The parser takes one for the end of the text, whatever stands behind it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidArgument(
        StrCat(what, " is not valid JSON: byte ", nul + 1, " is NUL, which no JSON text has"));
  }
  Builder<J> builder(limits, what);
  J::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return Parse<Json>(text, what, limits);
}
Result<OrderedJson> ParseOrderedJson(std::string_view text, std::string_view what,
                                     const JsonLimits& limits) {
  return Parse<OrderedJson>(text, what, limits);
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string DumpJson(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace sluice
