// For tests of chains: launches of two of them, which wait for all thread blocks a different number
// of times, one behind another in a graph.
#pragma once

#include <gtest/gtest.h>

#include "device/device.h"

namespace sluice::cuda {

// A Layer runs as one op or by its parts, gives what either has written, and spoils that.
template <class Layer>
void ExpectLaunchesFollow(device::Device& device, device::Stream& stream, const Layer& with,
                          const Layer& without) {
  ASSERT_TRUE(with.RunParts(stream).ok());
  ASSERT_TRUE(without.RunParts(stream).ok());
  const auto expected = with.Outputs(), expected_without = without.Outputs();
  const auto body = [&](device::Stream& on) {
    for (int i = 0; i < 20; ++i) {
      SLUICE_RETURN_IF_ERROR(with.RunOne(on));
      if (i % 3 == 0) SLUICE_RETURN_IF_ERROR(without.RunOne(on));
    }
    return OkStatus();
  };
  ASSERT_TRUE(body(stream).ok());
  auto graph = device.Capture(stream, nullptr, body);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (int replay = 0; replay < 10; ++replay) {
    with.Spoil();
    without.Spoil();
    ASSERT_TRUE((*graph)->Replay(stream, {}).ok());
    ASSERT_TRUE(stream.Synchronize().ok());
    EXPECT_TRUE(with.Outputs() == expected) << replay;
    EXPECT_TRUE(without.Outputs() == expected_without) << replay;
  }
}

}  // namespace sluice::cuda
