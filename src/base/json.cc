#include "base/json.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/str_cat.h"

namespace sluice {
namespace {

// Checks limits while nlohmann's parser calls back, and stops it at the first breach, so that no
// deep tree is ever built (its destructor recurses).
class LimitGuard {
 public:
  explicit LimitGuard(const JsonLimits& limits) : limits_(limits) {}

  template <class Value>
  bool operator()(int depth, nlohmann::detail::parse_event_t event, Value& value) {
    using Event = nlohmann::detail::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth + 1 > limits_.depth_max) {
        Fail(StrCat("is nested deeper than ", limits_.depth_max, " levels"));
      }
      keys_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys_.pop_back();
    } else if (event == Event::key) {
      const auto& key = value.template get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) Fail(StrCat("has the key \"", key, "\" twice"));
      if (keys_.back().size() > limits_.keys_max) {
        Fail(StrCat("has an object of more than ", limits_.keys_max, " keys"));
      }
    }
    if (++values_ > limits_.values_max) {
      Fail(StrCat("has more than ", limits_.values_max, " values"));
    }
    return true;
  }

  struct Breach {
    std::string message;
  };

 private:
  [[noreturn]] void Fail(std::string message) { throw Breach{std::move(message)}; }

  const JsonLimits& limits_;
  size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;
};

template <class J>
Result<J> Parse(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return InvalidArgument(
        StrCat(what, " has ", text.size(), " bytes; the limit is ", limits.bytes_max));
  }
  LimitGuard guard(limits);
  try {
    return J::parse(text.begin(), text.end(),
                    [&guard](int depth, nlohmann::detail::parse_event_t event, J& value) {
                      return guard(depth, event, value);
                    });
  } catch (const LimitGuard::Breach& breach) {
    return InvalidArgument(StrCat(what, " ", breach.message));
  } catch (const nlohmann::json::exception& error) {
    std::string reason = error.what();
    if (size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    return InvalidArgument(StrCat(what, " is not valid JSON: ", reason));
  }
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
