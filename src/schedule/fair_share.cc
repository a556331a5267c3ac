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
  // Those that are gone had no more than the level, at which they would come back.
  if (present_ == 0) by_id_.clear();
  Client& client = by_id_[id];
  if (client.sequences == 0) {
    client.served = std::max(client.served, Level());
    client.id = id;
    // Meanwhile all steps were of others.
    client.behind_us = std::min(0.0, client.behind_us + passed_us_ - client.left_us) + alone_us_;
    ++present_;
  }
  client.weight = weight;
  ++client.sequences;
  return &client;
}

void FairShare::Leave(Client* client) {
  CHECK(client->sequences > 0, client->id);
  if (--client->sequences > 0) return;
  left_.push_back(client->id);
  left_at_ = client->served;
  client->left_us = passed_us_;
  --present_;
  if (by_id_.size() - present_ <= kGoneMax) return;
  std::erase_if(by_id_, [](const auto& entry) { return entry.second.sequences == 0; });
  left_.clear();
}

void FairShare::EndVisits() {
  for (const uint64_t id : left_) {
    Client* const client = Find(id);
    if (client == nullptr || client->sequences > 0 || client->visit_us == 0.0) continue;
    const double most = short_visit_us_ > 0.0 ? kVisitGrowth * short_visit_us_ : client->visit_us;
    short_visit_us_ = std::min(client->visit_us, most);
    client->visit_us = 0.0;
  }
  left_.clear();
}

FairShare::Client* FairShare::Find(uint64_t id) {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &it->second;
}

}  // namespace sluice::schedule
