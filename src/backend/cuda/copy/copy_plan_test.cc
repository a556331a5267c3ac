#include "backend/cuda/copy/copy_plan.h"

#include <gtest/gtest.h>

namespace sluice::cuda {
namespace {

using device::CopyRun;
using device::MemoryKind;

std::byte* At(uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

CopyRun RunOf(MemoryKind to, MemoryKind from, size_t row_bytes, size_t rows = 1) {
  return {At(1 << 20), At(1 << 24), to, from, rows, row_bytes, 2 * row_bytes, 3 * row_bytes, 0};
}

TEST(CopyPlanTest, PlainHostMemoryMakesTheHostWait) {
  EXPECT_EQ(MethodFor(RunOf(MemoryKind::kDevice, MemoryKind::kHost, 16), true),
            CopyMethod::kBlocking);
  EXPECT_EQ(MethodFor(RunOf(MemoryKind::kHost, MemoryKind::kDevice, 16), false),
            CopyMethod::kBlocking);
  EXPECT_EQ(MethodFor(RunOf(MemoryKind::kHost, MemoryKind::kPinned, 16), false), CopyMethod::kHost);
  EXPECT_EQ(MethodFor(RunOf(MemoryKind::kHost, MemoryKind::kHost, 16), false), CopyMethod::kHost);
}

TEST(CopyPlanTest, RunsOfABatchGoInOneKernelAndALoneOneToTheDriver) {
  const CopyRun run = RunOf(MemoryKind::kDevice, MemoryKind::kDevice, 1 << 24);
  EXPECT_EQ(MethodFor(run, true), CopyMethod::kDriver);
  EXPECT_EQ(MethodFor(run, false), CopyMethod::kKernel);
  EXPECT_EQ(MethodFor(RunOf(MemoryKind::kDevice, MemoryKind::kDevice, 16, 4), true),
            CopyMethod::kKernel);
  EXPECT_EQ(MethodFor(RunOf(MemoryKind::kDevice, MemoryKind::kPinned, 4096), false),
            CopyMethod::kKernel);
  EXPECT_EQ(MethodFor(RunOf(MemoryKind::kDevice, MemoryKind::kPinned, 1 << 24), false),
            CopyMethod::kDriver);
}

TEST(CopyPlanTest, TheUnitDividesAddressesSizesAndTheStridesOfRows) {
  CopyRun run = RunOf(MemoryKind::kDevice, MemoryKind::kDevice, 48, 2);
  EXPECT_EQ(ParamsOf(run).unit, 16u);
  EXPECT_EQ(ParamsOf(run).row_units, 3u);
  run.source_stride = 100;
  EXPECT_EQ(ParamsOf(run).unit, 4u);
  run.rows = 1;
  EXPECT_EQ(ParamsOf(run).unit, 16u) << "one row has no stride";
  run.source += 1;
  EXPECT_EQ(ParamsOf(run).unit, 1u);
  EXPECT_EQ(ParamsOf(run).row_units, 48u);
}

TEST(CopyPlanTest, EveryRunHasItsRowOfBlocksAndTheLargestSaysHowMany) {
  CopyRunList list = {};
  list.runs[0] = ParamsOf(RunOf(MemoryKind::kDevice, MemoryKind::kDevice, 16));
  list.runs[1] = ParamsOf(RunOf(MemoryKind::kDevice, MemoryKind::kDevice, 16 * 1024 * 3 + 16));
  const LaunchShape shape = ShapeOf(list, 2);
  EXPECT_EQ(shape.grid[0], 4u);
  EXPECT_EQ(shape.grid[1], 2u);
  list.runs[1].row_units = uint64_t{1} << 40;
  EXPECT_EQ(ShapeOf(list, 2).grid[0], 1024u);
}

}  // namespace
}  // namespace sluice::cuda
