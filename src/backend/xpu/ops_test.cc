#include "backend/xpu/ops.h"

#include <gtest/gtest.h>

namespace sluice::xpu {
namespace {

TEST(XpuOpsTest, NamesSayInWhatKernelsMultiply) {
  const device::DeviceFacts facts;
  ops::OpTable table(&facts);
  RegisterXpuOps(table);
  EXPECT_FALSE(table.Arithmetics().empty());
  for (const auto& [name, arithmetic] : table.Arithmetics())
    EXPECT_EQ(arithmetic, ops::ArithmeticInName(name)) << name;
}

}  // namespace
}  // namespace sluice::xpu
