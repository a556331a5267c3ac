// How weights reach a device whose memory the host can't write: bytes, order, bounds, errors.
#include "weights/staged_fill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStagedColumns = 64;

// Matrices of every way to be stored, from one row to far more than a buffer holds, with borders
// of sources that are none of row groups.
class StagedFillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddMatrix("plain", DType::kF32, {3, 200});
    AddMatrix("packed", DType::kF16, {5, 203});
    AddMatrix("small", DType::kF16, {1});
    specs_.push_back(Matrix("table", kStagedColumns, {{"plain0", 3}}));
    source_.AddHalf("rows", DType::kBF16, {301, kStagedColumns}, Ramp(301 * kStagedColumns, 7));
    specs_.push_back(Matrix("rows", kStagedColumns, {{"rows", 301}}));
    specs_.back().role = ParamRole::kEmbedding;
    source_.AddF32("norm", {700}, Ramp(700, 3));
    specs_.push_back(Vector("norm", ParamRole::kNorm, "norm", 700));
    std::vector<std::byte> eights;
    for (int64_t i = 0; i < 90 * kStagedColumns; ++i) {
      eights.push_back(std::byte{F32ToF8E4M3(static_cast<float>(i % 32) * 0.5f)});
    }
    source_.Add("eight", DType::kF8E4M3, {90, kStagedColumns}, eights);
    source_.AddF32("eight_scale", {90, 1}, Ramp(90, 1));
    specs_.push_back(Matrix("eight", kStagedColumns, {{"eight", 90}}));
    AddMatrix("last", DType::kF16, {31});
    staged_.facts_.device_memory = staged_.facts_.pinned_memory = true;
    staged_.facts_.host_threads = 0;
    options_.staging_bytes = kBuffer;
  }
  void AddMatrix(const std::string& name, DType dtype, const std::vector<int64_t>& rows) {
    SourceList sources;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string part = name + std::to_string(i);
      const std::vector<float> values =
          Ramp(rows[i] * kStagedColumns, static_cast<float>(1000 * specs_.size() + 100 * i));
      if (dtype == DType::kF32) {
        source_.AddF32(part, {rows[i], kStagedColumns}, values);
      } else {
        source_.AddHalf(part, dtype, {rows[i], kStagedColumns}, values);
      }
      sources.push_back({part, rows[i]});
    }
    specs_.push_back(Matrix(name, kStagedColumns, sources));
  }
  Result<ParameterMap> PlaceStaged() { return Place(specs_, source_, staged_, {}, options_); }
  void ExpectSameAsInPlace(const ParameterMap& map) {
    FakeDevice host;
    const auto want = Place(specs_, source_, host);
    ASSERT_TRUE(want.ok()) << want.status().message();
    for (const ParamSpec& spec : specs_) {
      const auto bytes = [&](const ParameterMap& m) {
        const Parameter* parameter = m.Find(spec.name);
        const ops::Tensor& tensor =
            parameter->parts.empty() ? parameter->tensor : parameter->parts[0].weight.data;
        const size_t count = RowBytes(tensor.dtype, static_cast<size_t>(tensor.size()));
        return std::vector<std::byte>(tensor.data, tensor.data + count);
      };
      EXPECT_EQ(bytes(map), bytes(*want)) << spec.name;
    }
  }
  // After an error nothing of the way is left: no memory, no copy that reads freed memory.
  void ExpectNothingLeft() const {
    EXPECT_EQ(staged_.staging_now, 0u);
    EXPECT_FALSE(staged_.freed_while_read);
  }

  static constexpr size_t kBuffer = 4096;
  FakeSource source_;
  FakeDevice staged_;
  std::vector<ParamSpec> specs_;
  PlaceOptions options_;
};

TEST_F(StagedFillTest, BytesAreThoseOfFillingInPlace) {
  for (const size_t bytes : {size_t{1}, size_t{512}, kBuffer, size_t{100000}, size_t{16} << 20}) {
    for (const bool pinned : {true, false}) {
      options_.staging_bytes = bytes;
      staged_.facts_.pinned_memory = pinned;
      const auto map = PlaceStaged();
      ASSERT_TRUE(map.ok()) << map.status().message();
      ExpectSameAsInPlace(*map);
      ExpectNothingLeft();
    }
  }
}

TEST_F(StagedFillTest, StagingMemoryIsBounded) {
  ASSERT_TRUE(PlaceStaged().ok());
  // Four buffers; all but the smallest matrix are larger than one.
  EXPECT_LE(staged_.staging_most, kStagingBuffers * kBuffer);
  EXPECT_GT(staged_.staging_most, kBuffer);
  // One row group at least, where that is larger.
  staged_.staging_most = 0;
  options_.staging_bytes = 1;
  ASSERT_TRUE(PlaceStaged().ok());
  EXPECT_LE(staged_.staging_most, kStagingBuffers * size_t{2816});  // the norm of 700 as F32
}

TEST_F(StagedFillTest, CopiesRunWhileLaterPiecesAreFilled) {
  ASSERT_TRUE(PlaceStaged().ok());
  EXPECT_GE(staged_.pending_most, 2u);
  EXPECT_EQ(staged_.copies_run, staged_.copies);
}

TEST_F(StagedFillTest, SmallParametersShareACopy) {
  options_.staging_bytes = 16u << 20;
  ASSERT_TRUE(PlaceStaged().ok());
  EXPECT_EQ(staged_.copy_calls, 1);
}

TEST_F(StagedFillTest, ParametersArriveInTheirOrderOnTheLoadingThread) {
  std::vector<size_t> done;
  const std::thread::id loader = std::this_thread::get_id();
  options_.progress = [&](size_t bytes, size_t) {
    EXPECT_EQ(std::this_thread::get_id(), loader);
    done.push_back(bytes);
  };
  const auto map = PlaceStaged();
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(done.size(), specs_.size());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), map->bytes());
}

TEST_F(StagedFillTest, PlainMemoryServesWhereThatMuchCannotBePinned) {
  staged_.pinned_bytes_max = kBuffer - 1;
  const auto map = PlaceStaged();
  ASSERT_TRUE(map.ok()) << map.status().message();
  ExpectSameAsInPlace(*map);
}

TEST_F(StagedFillTest, ACopyThatIsRefusedEndsTheLoad) {
  ASSERT_TRUE(PlaceStaged().ok());
  const int calls = staged_.copy_calls;
  ASSERT_GT(calls, 10);
  for (const int which : {1, 2, calls / 2, calls}) {
    staged_.copy_calls = 0;
    staged_.copy_that_is_refused = which;
    const auto map = PlaceStaged();
    ASSERT_FALSE(map.ok()) << which;
    EXPECT_EQ(map.status().code(), StatusCode::kDevice);
    EXPECT_THAT(map.status().message(), HasSubstr("copying weights: refused"));
    EXPECT_EQ(staged_.copy_calls, which);
    ExpectNothingLeft();
  }
}

// The error shows when the copy runs, after Copy has returned; the last copy's too.
TEST_F(StagedFillTest, ACopyThatFailsLaterIsFound) {
  ASSERT_TRUE(PlaceStaged().ok());
  const int copies = staged_.copies;
  for (const int which : {1, copies / 2, copies}) {
    FakeDevice device;
    device.facts_.device_memory = device.facts_.pinned_memory = true;
    device.facts_.host_threads = 0;
    device.copy_that_fails = which;
    const auto map = Place(specs_, source_, device, {}, options_);
    ASSERT_FALSE(map.ok()) << which;
    EXPECT_THAT(map.status().message(), HasSubstr("copying weights: came to nothing"));
    EXPECT_EQ(device.staging_now, 0u);
    EXPECT_FALSE(device.freed_while_read);
  }
}

TEST_F(StagedFillTest, APackingThatFailsEndsTheLoadAndIsNamed) {
  source_.Add("broken", DType::kF16, {40, kStagedColumns},
              std::vector<std::byte>(40 * kStagedColumns * 2, kUnpackable));
  specs_.insert(specs_.begin() + 2, Matrix("broken", kStagedColumns, {{"broken", 40}}));
  const auto map = PlaceStaged();
  ASSERT_FALSE(map.ok());
  EXPECT_THAT(map.status().message(), HasSubstr("broken: it cannot be packed"));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace sluice::weights
