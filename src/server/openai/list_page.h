// The page of a list that a client asks for, as OpenAI's lists have it. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "sluice/status.h"

namespace sluice::server {

// How many items a page has.
struct PageSize {
  size_t otherwise = 0;  // where the query says nothing
  size_t max = 0;
};

// The part of `items` that the query's `limit`, `after` (the id of the item before the first one)
// and `order` ("desc", as they stand, or "asc") ask for, as an object with `data`, `first_id`,
// `last_id` and `has_more`. Each item has an `id`. kInvalidArgument and kNotFound name the
// parameter at fault.
Result<OrderedJson> PageOf(std::vector<OrderedJson> items, std::string_view query, PageSize size);

}  // namespace sluice::server
