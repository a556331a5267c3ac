#include "cli/load/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace sluice::load {
namespace {

// The deviation of the times between arrivals over their mean: 1 of a Poisson process.
double Variation(const std::vector<double>& times) {
  double before = 0, sum = 0, squares = 0;
  for (const double time : times) {
    sum += time - before;
    squares += (time - before) * (time - before);
    before = time;
  }
  const double count = static_cast<double>(times.size()), mean = sum / count;
  return std::sqrt(squares / count - mean * mean) / mean;
}

TEST(ArrivalsTest, TheyComeAtTheRateInOrder) {
  const std::vector<double> times = Arrivals(500, 20, 1, 3);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_GT(times.front(), 0);
  EXPECT_DOUBLE_EQ(times.back(), 25);
  EXPECT_EQ(times, Arrivals(500, 20, 1, 3));
  EXPECT_NE(times, Arrivals(500, 20, 1, 4));
}

TEST(ArrivalsTest, BurstinessIsTheShapeOfTheGammaDistribution) {
  // Whose variation is 1 / sqrt(shape).
  for (const double burstiness : {0.25, 1.0, 16.0}) {
    EXPECT_NEAR(Variation(Arrivals(20000, 5, burstiness, 1)), 1 / std::sqrt(burstiness),
                0.05 / std::sqrt(burstiness))
        << burstiness;
  }
}

TEST(ArrivalsTest, AnInfiniteRateSendsAllAtOnceAndExtremesStayFinite) {
  EXPECT_EQ(Arrivals(3, INFINITY, 1, 1), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(Arrivals(0, 1, 1, 1).empty());
  for (const double time : Arrivals(10, 2, 1e-9, 1)) EXPECT_TRUE(time >= 0 && time <= 5) << time;
}

}  // namespace
}  // namespace sluice::load
