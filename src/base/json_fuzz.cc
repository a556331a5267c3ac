// Any bytes as JSON: what is read is what nlohmann's own parser makes of them.
#include "base/json.h"

#include "base/check.h"
#include "base/fuzz_target.h"

void sluice::FuzzInput(std::string_view input) {
  const JsonItemsLimit lists[] = {{"messages", 16}};
  const JsonLimits limits{.keys_max = 1024, .items_max = lists};
  const Result<Json> sorted = ParseJson(input, "the text", limits);
  const Result<OrderedJson> ordered = ParseOrderedJson(input, "the text", limits);
  CHECK(sorted.ok() == ordered.ok(), sorted.status().message(), ordered.status().message());
  if (!sorted.ok()) {
    CHECK(sorted.status().message() == ordered.status().message(), sorted.status().message());
    return;
  }
  CHECK(input.find('\0') == std::string_view::npos, "where nlohmann's parser ends");
  CHECK(*sorted == Json::parse(input), DumpJson(*sorted));
  const Result<Json> again = ParseJson(DumpJson(*ordered), "the text", limits);
  CHECK(again.ok() && *again == *sorted, DumpJson(*ordered));
}
