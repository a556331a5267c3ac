// Any bytes as a stream of events: what is read does not depend on where the stream is cut.
#include "cli/load/sse_reader.h"

#include <vector>

#include "base/check.h"
#include "base/fuzz_target.h"

void sluice::FuzzInput(std::string_view input) {
  std::vector<std::string> whole, pieces;
  load::SseReader one, many;
  const Status status = one.Add(input, [&](std::string_view data) { whole.emplace_back(data); });
  CHECK(status.ok(), status.message());  // inputs are shorter than an event may be
  // The first byte says how long the pieces are.
  const size_t step = input.empty() ? 1 : 1 + static_cast<unsigned char>(input.front()) % 7;
  for (size_t at = 0; at < input.size(); at += step) {
    const Status added =
        many.Add(input.substr(at, step), [&](std::string_view data) { pieces.emplace_back(data); });
    CHECK(added.ok(), added.message());
  }
  CHECK(whole == pieces, whole.size(), pieces.size());
}
