#include "server/http/connection_places.h"

#include "base/check.h"

namespace sluice::server {

ConnectionPlaces::Admission ConnectionPlaces::Enter(Holder newcomer, const std::string& owner) {
  Admission admission{Entry::kPlace};
  if (places_.size() >= places_max_) {
    if (ranking_.empty()) {
      if (refused_.size() >= refusals_max_) return {Entry::kNothing};
      refused_.insert(newcomer);
      return {Entry::kRefusal};
    }
    admission.evicted = queues_.at(ranking_.rbegin()->second).begin()->second;
    Leave(admission.evicted);
  }
  Enqueue(newcomer, &places_.emplace(newcomer, Place{owner}).first->second);
  return admission;
}

void ConnectionPlaces::Wait(Holder holder) {
  const auto found = places_.find(holder);
  if (found == places_.end()) return;
  Dequeue(&found->second);
  Enqueue(holder, &found->second);
}

bool ConnectionPlaces::Serve(Holder holder) {
  const auto found = places_.find(holder);
  if (found == places_.end()) return false;
  Dequeue(&found->second);
  return true;
}

void ConnectionPlaces::Leave(Holder holder) {
  refused_.erase(holder);
  const auto found = places_.find(holder);
  if (found == places_.end()) return;
  Dequeue(&found->second);
  places_.erase(found);
}

ConnectionPlaces::Rank ConnectionPlaces::RankOf(const Queue& queue) {
  return {queue.size(), ~queue.begin()->first};
}

void ConnectionPlaces::Enqueue(Holder holder, Place* place) {
  Queue& queue = queues_[place->owner];
  if (!queue.empty()) ranking_.erase(RankOf(queue));
  place->since = ++clock_;
  queue.emplace(place->since, holder);
  ranking_.emplace(RankOf(queue), place->owner);
}

void ConnectionPlaces::Dequeue(Place* place) {
  if (place->since == 0) return;
  const auto found = queues_.find(place->owner);
  Queue& queue = found->second;
  ranking_.erase(RankOf(queue));
  queue.erase(std::exchange(place->since, 0));
  if (queue.empty()) {
    queues_.erase(found);
  } else {
    ranking_.emplace(RankOf(queue), place->owner);
  }
}

void ConnectionPlaces::CheckInvariants() const {
  CHECK(places_.size() <= places_max_ && refused_.size() <= refusals_max_);
  size_t waiting = 0;
  for (const auto& [holder, place] : places_) {
    if (place.since == 0) continue;
    ++waiting;
    CHECK(queues_.at(place.owner).at(place.since) == holder);
  }
  for (const auto& [owner, queue] : queues_) {
    CHECK(!queue.empty());
    CHECK(ranking_.at(RankOf(queue)) == owner);
    waiting -= queue.size();
  }
  CHECK(waiting == 0);
  CHECK(ranking_.size() == queues_.size());
}

}  // namespace sluice::server
