// The answers of /v1/responses that clients may ask for again or go on from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/shared/owned_store.h"

namespace sluice::server {

struct StoredResponse {
  std::string body;  // the response, as it was answered
  // The conversation up to its answer, as OpenAI's chat messages; empty: it was cancelled or has
  // failed, and nothing goes on from it.
  std::string messages;
  std::string_view status;  // a literal: "completed", "incomplete", "failed", "cancelled"

  int64_t bytes() const { return static_cast<int64_t>(body.size() + messages.size()); }
};

class ResponseStore : public OwnedStore<StoredResponse> {
 public:
  explicit ResponseStore(int64_t bytes_max = 64 << 20,
                         int64_t age_us_max = int64_t{24} * 3600 * 1'000'000)
      : OwnedStore(bytes_max, age_us_max) {}
};

}  // namespace sluice::server
