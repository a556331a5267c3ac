#include "server/http/connection_places.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace sluice::server {
namespace {

using Entry = ConnectionPlaces::Entry;
using Holder = ConnectionPlaces::Holder;

class ConnectionPlacesTest : public ::testing::Test {
 protected:
  Holder Of(int number) const { return &connections_[number]; }

  // Enters with a place; gives the number of the evicted one, or -1.
  int Evicted(int number, const std::string& owner) {
    const auto admission = places_.Enter(Of(number), owner);
    EXPECT_EQ(admission.entry, Entry::kPlace);
    places_.CheckInvariants();
    if (!admission.evicted) return -1;
    return static_cast<int>(static_cast<const char*>(admission.evicted) - connections_.data());
  }

  std::array<char, 100> connections_{};
  ConnectionPlaces places_{4, 2};
};

TEST_F(ConnectionPlacesTest, ANewcomerTakesThePlaceOfTheLongestWaiting) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Evicted(i, "a"), -1);
  EXPECT_EQ(Evicted(4, "b"), 0);
  EXPECT_FALSE(places_.Serve(Of(0)));
  EXPECT_EQ(Evicted(5, "b"), 1);
  // Now two wait of each; the one that has waited longest is a's.
  EXPECT_EQ(Evicted(6, "c"), 2);
}

TEST_F(ConnectionPlacesTest, TheAddressWithMostGivesWayThoughAnotherHasWaitedLonger) {
  EXPECT_EQ(Evicted(0, "a"), -1);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(Evicted(i, "b"), -1);
  EXPECT_EQ(Evicted(4, "b"), 1);
  EXPECT_EQ(Evicted(5, "c"), 2);
  EXPECT_TRUE(places_.Serve(Of(0)));
}

TEST_F(ConnectionPlacesTest, WhatIsServedKeepsItsPlace) {
  for (int i = 0; i < 4; ++i) Evicted(i, "a");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(places_.Serve(Of(i)));
  EXPECT_EQ(Evicted(4, "b"), 3);
  EXPECT_TRUE(places_.Serve(Of(4)));
  EXPECT_EQ(places_.Enter(Of(5), "b").entry, Entry::kRefusal);
  places_.Wait(Of(1));  // answered
  EXPECT_EQ(Evicted(6, "b"), 1);
}

TEST_F(ConnectionPlacesTest, AWaitBeginsAnewBehindEveryAnswer) {
  for (int i = 0; i < 4; ++i) Evicted(i, "a");
  EXPECT_TRUE(places_.Serve(Of(0)));
  places_.Wait(Of(0));
  EXPECT_EQ(Evicted(4, "b"), 1);
}

TEST_F(ConnectionPlacesTest, RefusalsAreBoundedAndTakeNoPlaces) {
  for (int i = 0; i < 4; ++i) {
    Evicted(i, "a");
    places_.Serve(Of(i));
  }
  EXPECT_EQ(places_.Enter(Of(4), "b").entry, Entry::kRefusal);
  EXPECT_EQ(places_.Enter(Of(5), "b").entry, Entry::kRefusal);
  EXPECT_EQ(places_.Enter(Of(6), "b").entry, Entry::kNothing);
  places_.Wait(Of(4));
  EXPECT_EQ(places_.Enter(Of(6), "b").entry, Entry::kNothing);
  places_.Leave(Of(0));
  EXPECT_EQ(Evicted(7, "c"), -1);
  places_.Leave(Of(4));
  EXPECT_TRUE(places_.Serve(Of(7)));
  EXPECT_EQ(places_.Enter(Of(8), "b").entry, Entry::kRefusal);
}

TEST_F(ConnectionPlacesTest, InvariantsHoldWhateverHappens) {
  std::mt19937 draw(1);
  std::array<bool, 100> in{};
  for (int step = 0; step < 20'000; ++step) {
    const int number = static_cast<int>(draw() % in.size());
    switch (draw() % 4) {
      case 0:
        if (in[number]) break;
        in[number] =
            places_.Enter(Of(number), std::string(1, 'a' + draw() % 3)).entry != Entry::kNothing;
        break;
      case 1:
        places_.Wait(Of(number));
        break;
      case 2:
        places_.Serve(Of(number));
        break;
      default:
        places_.Leave(Of(number));
        in[number] = false;
    }
    places_.CheckInvariants();
  }
}

}  // namespace
}  // namespace sluice::server
