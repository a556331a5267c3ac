#include "text/schema_contained.h"

#include <cmath>

#include "base/str_cat.h"
#include "text/schema_children.h"

namespace sluice::text {
namespace {

constexpr int64_t kContainedMax = 64;

// Counting goes through the items one by one.
void RefuseOthers(const SchemaForm& form, int64_t least, SchemaRefusals* refusals) {
  for (size_t i = 0; i < form.members.size(); ++i) {
    const OrderedJson* items = form.Find(i, "minItems");
    const bool enough = items != nullptr && items->is_number() && *items <= least;
    if (items != nullptr && !enough) {
      refusals->Refuse(form, i, "minItems", "is not supported beside contains");
    }
    if (form.Find(i, "maxItems") != nullptr || FrontItems(form, i) > 0) {
      refusals->Refuse(form, i, form.Find(i, "maxItems") != nullptr ? "maxItems" : "prefixItems",
                       "is not supported beside contains");
    }
  }
}

}  // namespace

std::optional<Contained> ContainedOf(const SchemaForm& form, SchemaRefusals* refusals) {
  std::optional<size_t> member;
  for (size_t i = 0; i < form.members.size(); ++i) {
    if (form.Find(i, "contains") == nullptr) continue;
    if (member) refusals->Refuse(form, i, "contains", "is supported once for an array");
    member = i;
  }
  if (!member) return std::nullopt;
  const auto count = [&](const char* keyword, int64_t otherwise) {
    const OrderedJson* value = form.Find(*member, keyword);
    if (value == nullptr) return otherwise;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (number >= 0 && number == std::floor(number) && number <= kContainedMax) {
      return static_cast<int64_t>(number);
    }
    refusals->Refuse(form, *member, keyword,
                     StrCat("must be an integer, and is supported from 0 to ", kContainedMax));
    return otherwise;
  };
  const Contained contained = {*member, count("minContains", 1), count("maxContains", -1)};
  if (contained.least == 0 && contained.most < 0) return std::nullopt;
  RefuseOthers(form, contained.least, refusals);
  return contained;
}

}  // namespace sluice::text
