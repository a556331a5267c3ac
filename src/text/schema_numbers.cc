#include "text/schema_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/str_cat.h"
#include "base/utf8.h"

namespace sluice::text {
namespace {

// Of integers' multipleOf: what the library compiles in reasonable time.
constexpr int64_t kMultipleMax = 1000;
constexpr int64_t kDecimalsMax = 6;
constexpr int64_t kCountMax = 1'000'000'000;  // of a Decimal that is reckoned with
constexpr int64_t kListedMultiplesMax = 1024;
constexpr double kExactMax = 9007199254740992.0;  // 2^53
constexpr double kSteps = 1e6;                    // of 1: the library writes up to six decimals
constexpr const char* kBounds[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};

OrderedJson NumberJson(double value) {
  const bool whole = value == std::floor(value);
  return whole ? OrderedJson(static_cast<int64_t>(value)) : OrderedJson(value);
}

// Refuses a bound that numbers as the library writes them cannot be told from.
void CheckDecimals(const SchemaForm& form, const char* keyword, SchemaRefusals* refusals) {
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* value = form.Find(i, keyword);
    if (value == nullptr || !value->is_number()) continue;
    const double steps = value->get<double>() * kSteps;
    const double rounding = std::abs(steps) * 4 * std::numeric_limits<double>::epsilon();
    if (std::abs(steps - std::round(steps)) > std::max(1e-9, rounding)) {
      refusals->Refuse(form, i, keyword, "is supported with up to six decimals");
    }
  }
}

// A decimal number: count / 10^decimals, with as few decimals as can be.
struct Decimal {
  int64_t count = 1;
  int decimals = 0;
};

// Nothing where it is not positive or has more digits than matter.
std::optional<Decimal> DecimalOf(const OrderedJson& value) {
  if (!value.is_number() || value.get<double>() <= 0) return std::nullopt;
  Decimal decimal;
  double scaled = value.get<double>();
  while (scaled != std::floor(scaled)) {
    if (++decimal.decimals > 12) return std::nullopt;
    // From the value itself, so that no rounding adds up.
    scaled = value.get<double>() * std::pow(10, decimal.decimals);
    const double near = std::round(scaled);
    if (std::abs(scaled - near) <= std::abs(scaled) * 4 * std::numeric_limits<double>::epsilon()) {
      scaled = near;
    }
  }
  if (scaled > 1e15) return std::nullopt;
  decimal.count = static_cast<int64_t>(scaled);
  return decimal;
}

// What all multipleOf of the form come to; nothing: there are none, or one is refused.
std::optional<Decimal> MultipleOf(const SchemaForm& form, bool integers, SchemaRefusals* refusals) {
  std::optional<Decimal> all;
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* value = form.Find(i, "multipleOf");
    if (value == nullptr) continue;
    auto one = DecimalOf(*value);
    if (one && integers) {
      // Integers that are multiples of it are those of an integer.
      const auto ten = static_cast<int64_t>(std::pow(10, one->decimals));
      *one = {one->count / std::gcd(one->count, ten), 0};
    }
    if (one && (one->count > kCountMax || one->decimals > kDecimalsMax)) one.reset();
    if (one && all) {
      const int decimals = std::max(one->decimals, all->decimals);
      const auto scaled = [&](const Decimal& part) {
        return part.count * static_cast<int64_t>(std::pow(10, decimals - part.decimals));
      };
      const int64_t a = scaled(*one), b = scaled(*all), step = b / std::gcd(a, b);
      one = a <= kCountMax && step <= kCountMax ? std::optional(Decimal{a * step, decimals})
                                                : std::nullopt;
    }
    if (!one || one->count > kMultipleMax || one->decimals > kDecimalsMax ||
        one->count * (one->decimals + 1) > 2 * kMultipleMax) {
      refusals->Refuse(
          form, i, "multipleOf",
          StrCat("is supported for integers from 1 to ", kMultipleMax, ", and numbers of up to ",
                 kDecimalsMax, " decimals that have as few digits"));
      return std::nullopt;
    }
    all = one;
  }
  return all;
}

void RefuseMultiple(const SchemaForm& form, SchemaRefusals* refusals) {
  for (size_t i = 0; i < form.members.size(); ++i) {
    if (form.Find(i, "multipleOf") == nullptr) continue;
    refusals->Refuse(form, i, "multipleOf",
                     StrCat("is not supported beside a minimum or maximum, but for a minimum of 0, "
                            "or both of integers with up to ",
                            kListedMultiplesMax, " multiples between"));
  }
}

// Refuses what takes the library too long together: two near the limit of one take it seconds.
void CountMultiple(const SchemaForm& form, const Decimal& multiple, MultiplesTaken* taken,
                   SchemaRefusals* refusals) {
  taken->steps += multiple.count;
  taken->rules += multiple.count * (1 + multiple.decimals);
  if (taken->steps <= kMultipleMax && taken->rules <= 2 * kMultipleMax) return;
  for (size_t i = 0; i < form.members.size(); ++i) {
    if (form.Find(i, "multipleOf") == nullptr) continue;
    refusals->Refuse(form, i, "multipleOf",
                     StrCat("is one of several that are together above ", kMultipleMax,
                            ", without their decimal points, or have as many digits behind them"));
  }
}

// Multiples within bounds, which are whole where `multiple` is.
OrderedJson Multiples(const SchemaForm& form, const Decimal& multiple, std::optional<double> low,
                      std::optional<double> high, SchemaRefusals* refusals, bool* extended) {
  const bool whole = multiple.decimals == 0;
  if (!low && !high && whole) return {{"type", "integer"}, {"multipleOf", multiple.count}};
  const bool from_zero = low == 0 && !high;
  if (from_zero || (!low && !high)) {
    *extended = true;
    OrderedJson schema = {
        {"type", "number"}, {"multipleOf", multiple.count}, {"decimals", multiple.decimals}};
    if (from_zero) schema["minimum"] = 0;
    return schema;
  }
  if (!whole || !low || !high) {
    RefuseMultiple(form, refusals);
    return false;
  }
  const auto step = static_cast<double>(multiple.count);
  const auto first = static_cast<int64_t>(std::ceil(*low / step));
  const auto last = static_cast<int64_t>(std::floor(*high / step));
  if (first > last) return false;
  if (last - first >= kListedMultiplesMax) {
    RefuseMultiple(form, refusals);
    return false;
  }
  OrderedJson values = OrderedJson::array();
  for (int64_t i = first; i <= last; ++i) values.push_back(i * multiple.count);
  return {{"enum", std::move(values)}};
}

// Of numbers that are read as the library has them.
NumberBounds BoundsOf(const SchemaForm& form, bool integers, SchemaRefusals* refusals) {
  NumberBounds bounds = {BoundOf(form, "minimum", true, refusals),
                         BoundOf(form, "maximum", false, refusals),
                         BoundOf(form, "exclusiveMinimum", true, refusals),
                         BoundOf(form, "exclusiveMaximum", false, refusals)};
  auto& [low, high, above, below] = bounds;
  if (integers) {
    if (low) low = std::ceil(*low);
    if (high) high = std::floor(*high);
    if (above) low = std::max(low.value_or(-kExactMax), std::floor(*above) + 1);
    if (below) high = std::min(high.value_or(kExactMax), std::ceil(*below) - 1);
    above = below = std::nullopt;
  }
  if (low && above) (*above >= *low ? low : above).reset();
  if (high && below) (*below <= *high ? high : below).reset();
  return bounds;
}

// What is compared with bounds of 2^53 at most: an integer beyond them stays beyond.
double ComparedOf(const OrderedJson& value) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kExact}) return kExactMax + 2;
  if (value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() < -kExact)
    return -kExactMax - 2;
  return value.get<double>();
}

}  // namespace

std::optional<double> BoundOf(const SchemaForm& form, const char* keyword, bool largest,
                              SchemaRefusals* refusals) {
  std::optional<double> bound;
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* value = form.Find(i, keyword);
    if (value == nullptr) continue;
    // The number behind 2^53 is none that is held to.
    const bool outside = std::string_view(keyword).starts_with("exclusive");
    if (!value->is_number() || std::abs(value->get<double>()) > kExactMax ||
        (outside && std::abs(value->get<double>()) == kExactMax)) {
      refusals->Refuse(form, i, keyword, "must be a number, of at most 2^53");
      continue;
    }
    const double number = value->get<double>();
    if (!bound || (largest ? number > *bound : number < *bound)) bound = number;
  }
  return bound;
}

std::optional<int64_t> CountOf(const SchemaForm& form, const char* keyword, bool largest,
                               SchemaRefusals* refusals) {
  const std::optional<double> bound = BoundOf(form, keyword, largest, refusals);
  if (!bound) return std::nullopt;
  const bool whole = *bound >= 0 && *bound == std::floor(*bound);
  for (size_t i = 0; i < form.members.size() && !whole; ++i) {
    if (form.Find(i, keyword) != nullptr)
      refusals->Refuse(form, i, keyword, "must be an integer of 0 or more");
  }
  return static_cast<int64_t>(*bound);
}

bool ValueBounds::Hold(const OrderedJson& value) {
  if (value.is_string()) {
    if (!lengths_) {
      lengths_ = Lengths{CountOf(form_, "minLength", true, refusals_),
                         CountOf(form_, "maxLength", false, refusals_)};
    }
    const auto length = static_cast<int64_t>(CountUtf8(value.get_ref<const std::string&>()));
    return (!lengths_->least || length >= *lengths_->least) &&
           (!lengths_->most || length <= *lengths_->most);
  }
  if (!value.is_number()) return true;
  if (!bounds_) bounds_ = BoundsOf(form_, /*integers=*/false, refusals_);
  const double number = ComparedOf(value);
  const auto& [low, high, above, below] = *bounds_;
  return (!low || number >= *low) && (!high || number <= *high) && (!above || number > *above) &&
         (!below || number < *below);
}

OrderedJson NumbersOf(const SchemaForm& form, MultiplesTaken* taken, SchemaRefusals* refusals,
                      bool* extended) {
  uint8_t types = form.types & kNumberType;
  const bool only_integers = types == kIntegerType;
  const std::optional<Decimal> multiple = MultipleOf(form, only_integers, refusals);
  if (multiple && multiple->decimals == 0) types &= kIntegerType;
  if (types == 0) return false;
  const bool integers = types == kIntegerType;
  const auto [low, high, above, below] = BoundsOf(form, integers, refusals);
  if (!refusals->status.ok()) return false;
  if (types == kFractionType) {
    if (low || high || above || below || multiple) {
      refusals->Refuse(form, 0, "type",
                       "permits numbers that are no integers alone, which is not supported beside "
                       "what is said of them");
    }
    *extended = true;
    return {{"type", "fraction"}};
  }
  if (multiple && (above || below)) {
    RefuseMultiple(form, refusals);
    return false;
  }
  if (multiple && (multiple->count > 1 || multiple->decimals > 0)) {
    OrderedJson schema = Multiples(form, *multiple, low, high, refusals, extended);
    if (schema.is_object() && schema.contains("multipleOf")) {
      CountMultiple(form, *multiple, taken, refusals);
    }
    return schema;
  }
  if (!integers) {
    for (const char* keyword : kBounds) CheckDecimals(form, keyword, refusals);
  }
  const double least = low.value_or(above.value_or(-kExactMax));
  const double most = high.value_or(below.value_or(kExactMax));
  if (least > most || (least == most && (above || below))) return false;
  if (std::round(least * kSteps) + (above ? 1 : 0) > std::round(most * kSteps) - (below ? 1 : 0)) {
    const char* keyword = above ? "exclusiveMinimum" : "exclusiveMaximum";
    for (size_t i = 0; i < form.members.size(); ++i) {
      if (form.Find(i, keyword) == nullptr) continue;
      refusals->Refuse(form, i, keyword,
                       "leaves no number of up to six decimals, which are supported");
    }
  }
  OrderedJson schema = {{"type", integers ? "integer" : "number"}};
  if (low) schema["minimum"] = NumberJson(*low);
  if (high) schema["maximum"] = NumberJson(*high);
  if (above) schema["exclusiveMinimum"] = NumberJson(*above);
  if (below) schema["exclusiveMaximum"] = NumberJson(*below);
  return schema;
}

}  // namespace sluice::text
