// Who may be connected. There are so many places; when they are taken, a newcomer gets the place of
// the connection that has waited longest for a part of a request, header or body, among those of
// the address that has most such connections, so that silent and slow connections keep nobody out.
// Not thread-safe.
//
// Invariants: (1) at most places_max connections hold a place, and at most refusals_max others are
// being refused; (2) a connection waits exactly if it stands in the queue of its address; (3) every
// queue has a connection and is ranked once, by its length and its first connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace sluice::server {

// Every call takes time that grows with the logarithm of the number of connections.
class ConnectionPlaces {
 public:
  using Holder = const void*;  // a connection, of which only the identity counts
  enum class Entry {
    kPlace,    // it may be served
    kRefusal,  // it may be told that it is refused
    kNothing,  // it must be closed at once
  };
  struct Admission {
    Entry entry = Entry::kNothing;
    Holder evicted = nullptr;  // whose place it is now; must be closed
  };

  ConnectionPlaces(size_t places_max, size_t refusals_max)
      : places_max_(places_max), refusals_max_(refusals_max) {}

  // A new connection, which waits for a request if it gets a place. `owner`: whom it
  // counts for, an address or a network.
  Admission Enter(Holder newcomer, const std::string& owner);
  // It waits, from now on. No effect on one without a place.
  void Wait(Holder holder);
  // It waits no more and keeps its place until it waits or leaves. False: it has no place.
  bool Serve(Holder holder);
  // It is gone, whether it had a place or not.
  void Leave(Holder holder);

  // Ends the program if an invariant does not hold. For tests.
  void CheckInvariants() const;

 private:
  struct Place {
    std::string owner;
    uint64_t since = 0;  // its key in the queue; 0: it does not wait
  };
  using Queue = std::map<uint64_t, Holder>;  // ascending: the first has waited longest
  using Rank = std::pair<size_t, uint64_t>;  // greater: longer queue, then older first connection

  static Rank RankOf(const Queue& queue);
  void Enqueue(Holder holder, Place* place);
  void Dequeue(Place* place);

  const size_t places_max_;
  const size_t refusals_max_;
  uint64_t clock_ = 0;  // counts the waits
  std::unordered_map<Holder, Place> places_;
  std::unordered_set<Holder> refused_;
  std::unordered_map<std::string, Queue> queues_;  // by owner
  std::map<Rank, std::string> ranking_;            // their owners
};

}  // namespace sluice::server
