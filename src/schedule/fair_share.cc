#include "schedule/fair_share.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace sluice::schedule {

double FairShare::Level() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [id, client] : by_id_) {
    if (client.sequences > 0) least = std::min(least, client.served);
  }
  return present_ == 0 ? left_at_ : least;
}

FairShare::Client* FairShare::Join(uint64_t id, int32_t weight) {
  CHECK(weight > 0, weight);
  Client& client = by_id_[id];
  if (client.sequences == 0) {
    client.served = std::max(client.served, Level());
    client.id = id;
    ++present_;
  }
  client.weight = weight;
  ++client.sequences;
  return &client;
}

void FairShare::Leave(Client* client) {
  CHECK(client->sequences > 0, client->id);
  if (--client->sequences > 0) return;
  left_at_ = client->served;
  --present_;
  // Those that had no more than the level would come back at the level.
  if (present_ == 0 || by_id_.size() - present_ > kGoneMax) {
    std::erase_if(by_id_, [](const auto& entry) { return entry.second.sequences == 0; });
  }
}

}  // namespace sluice::schedule
