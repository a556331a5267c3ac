#include "server/openai/list_page.h"

#include <algorithm>
#include <utility>

#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/target.h"

namespace sluice::server {
namespace {

Result<size_t> ReadLimit(std::string_view query, PageSize size) {
  const std::string text = QueryValue(query, "limit");
  if (text.empty()) return size.otherwise;
  const std::optional<size_t> limit = ParseNumber<size_t>(text, 1, size.max);
  if (!limit) {
    return InvalidArgument(
        StrCat("limit is ", Quote(text), "; it must be a whole number from 1 to ", size.max),
        "limit");
  }
  return *limit;
}

OrderedJson IdOf(const OrderedJson& list, bool first) {
  if (list.empty()) return nullptr;
  return (first ? list.front() : list.back())["id"];
}

}  // namespace

Result<OrderedJson> PageOf(std::vector<OrderedJson> items, std::string_view query, PageSize size) {
  SLUICE_ASSIGN_OR_RETURN(const size_t limit, ReadLimit(query, size));
  const std::string order = QueryValue(query, "order");
  if (order == "asc") {
    std::reverse(items.begin(), items.end());
  } else if (!order.empty() && order != "desc") {
    return InvalidArgument(StrCat("order is ", Quote(order), "; it must be asc or desc"), "order");
  }
  auto begin = items.begin();
  if (const std::string after = QueryValue(query, "after"); !after.empty()) {
    begin = std::find_if(items.begin(), items.end(),
                         [&](const OrderedJson& item) { return item["id"] == after; });
    if (begin == items.end()) {
      return Status(StatusCode::kNotFound,
                    StrCat("the list has nothing with the id ", Quote(after),
                           "; it may have been deleted, or too old: begin without after"),
                    "after");
    }
    ++begin;
  }
  OrderedJson data = OrderedJson::array();
  for (; begin != items.end() && data.size() < limit; ++begin) data.push_back(std::move(*begin));
  OrderedJson page{{"object", "list"}};
  page["first_id"] = IdOf(data, true);
  page["last_id"] = IdOf(data, false);
  page["data"] = std::move(data);
  page["has_more"] = begin != items.end();
  return page;
}

}  // namespace sluice::server
