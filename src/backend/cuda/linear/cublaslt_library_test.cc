// The library absent, broken, too old and present; which of its algorithms are taken. Needs neither
// the library nor a GPU.
#include "backend/cuda/linear/cublaslt_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "backend/cuda/linear/cublaslt.h"

// The constants against the library's own, where its header is.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
namespace sluice::cuda {
static_assert(lt::kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(lt::kR32F == CUDA_R_32F && lt::kR16BF == CUDA_R_16BF);
static_assert(lt::kCompute32F == CUBLAS_COMPUTE_32F && lt::kOpT == CUBLAS_OP_T);
static_assert(lt::kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(lt::kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(lt::kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(lt::kDescBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(lt::kDescBiasType == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(lt::kPrefWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(lt::kPrefReductionMask == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(lt::kPrefAlignment[0] == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(lt::kPrefAlignment[3] == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(lt::kAlgoId == CUBLASLT_ALGO_CONFIG_ID);
static_assert(lt::kAlgoSplitK == CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
static_assert(lt::kAlgoReduction == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
static_assert(sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(LtHeuristic, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));
}  // namespace sluice::cuda
#endif

namespace sluice::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

size_t Version13() { return 130100; }
size_t Version11() { return 110801; }
int Nothing() { return 0; }

// A machine with some libraries, each with a version and perhaps a function that it lacks.
struct FakeLibrary {
  size_t (*version)() = &Version13;
  std::string lacks;
};
struct FakeMachine {
  std::map<std::string, FakeLibrary> libraries;

  LibraryLoader Loader() {
    return {[this](const char* name) -> void* {
              const auto found = libraries.find(name);
              return found == libraries.end() ? nullptr : &found->second;
            },
            [](void* library, const char* function) -> void* {
              const auto& fake = *static_cast<FakeLibrary*>(library);
              if (function == fake.lacks) return nullptr;
              if (std::string_view(function) == "cublasLtGetVersion")
                return reinterpret_cast<void*>(fake.version);
              return reinterpret_cast<void*>(&Nothing);
            }};
  }
  std::string WhyNot() { return OpenCublasLt(Loader()).status().message(); }
};

TEST(CublasLtLibraryTest, AMachineWithoutItSaysWhatItLookedFor) {
  FakeMachine machine;
  EXPECT_EQ(OpenCublasLt(machine.Loader()).status().code(), StatusCode::kDevice);
  EXPECT_EQ(machine.WhyNot(), "libcublasLt.so.13 was not found; libcublasLt.so.12 was not found");
}

TEST(CublasLtLibraryTest, ALibraryThatLacksAFunctionIsNamedWithIt) {
  FakeMachine machine{{{"libcublasLt.so.13", {&Version13, "cublasLtMatmul"}}}};
  EXPECT_THAT(machine.WhyNot(), HasSubstr("libcublasLt.so.13 lacks cublasLtMatmul"));
  machine.libraries["libcublasLt.so.13"].lacks = "cublasLtGetVersion";
  EXPECT_THAT(machine.WhyNot(), HasSubstr("libcublasLt.so.13 lacks cublasLtGetVersion"));
}

TEST(CublasLtLibraryTest, AnOldLibraryIsNamedWithItsVersionWhateverItLacks) {
  FakeMachine machine{{{"libcublasLt.so.12", {&Version11, "cublasLtMatmul"}}}};
  EXPECT_THAT(machine.WhyNot(),
              AllOf(HasSubstr("libcublasLt.so.12 has version 11.8.1, this program needs 12.0.0"),
                    Not(HasSubstr("lacks"))));
}

TEST(CublasLtLibraryTest, TheFirstThatIsWholeIsTaken) {
  FakeMachine machine{{{"libcublasLt.so.13", {&Version13, "cublasLtCreate"}},
                       {"libcublasLt.so.12", {&Version13, ""}}}};
  const auto second = OpenCublasLt(machine.Loader());
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(second->name, "libcublasLt.so.12, version 13.1.0");
  machine.libraries["libcublasLt.so.13"].lacks = "";
  EXPECT_EQ(OpenCublasLt(machine.Loader())->name, "libcublasLt.so.13, version 13.1.0");
}

// Holds with and without it on this machine.
TEST(CublasLtLibraryTest, TheSystemsIsThereOrItsAbsenceIsTold) {
  const auto loaded = LoadCublasLt();
  const std::string line = DescribeCublasLt();
  EXPECT_THAT(line, HasSubstr(loaded.ok() ? (*loaded)->name : loaded.status().message()));
  EXPECT_THAT(line, HasSubstr("libcublasLt.so.1"));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

// A fake algorithm holds its configuration: data[attribute].
int FakeConfig(const LtAlgorithm* algorithm, int attribute, void* value, size_t bytes,
               size_t* written) {
  if (bytes != sizeof(int)) return 7;
  *static_cast<int*>(value) = static_cast<int>(algorithm->data[attribute]);
  *written = bytes;
  return lt::kSuccess;
}

struct Offer {
  uint64_t split_k = 1, reduction = 0;
  size_t workspace_bytes = 0;
  int status = lt::kSuccess;
};

int Taken(std::initializer_list<Offer> offers) {
  LtFunctions library;
  library.cublasLtMatmulAlgoConfigGetAttribute = &FakeConfig;
  std::vector<LtHeuristic> found;
  for (const Offer& offer : offers) {
    LtHeuristic heuristic = {};
    heuristic.algorithm.data[lt::kAlgoSplitK] = offer.split_k;
    heuristic.algorithm.data[lt::kAlgoReduction] = offer.reduction;
    heuristic.workspace_bytes = offer.workspace_bytes;
    heuristic.status = offer.status;
    found.push_back(heuristic);
  }
  return FirstInOneOrder(library, found);
}

TEST(CublasLtTest, AnAlgorithmThatSplitsKOrNeedsAWorkspaceIsPassedOver) {
  EXPECT_EQ(Taken({}), -1);
  EXPECT_EQ(Taken({{}, {}}), 0);
  EXPECT_EQ(Taken({{.split_k = 0}}), 0);
  EXPECT_EQ(Taken({{.split_k = 2}}), -1);
  EXPECT_EQ(Taken({{.split_k = 4}, {.reduction = 2}, {.workspace_bytes = 1}, {.status = 15}, {}}),
            4);
}

TEST(CublasLtTest, RowsChooseTheAlgorithm) {
  EXPECT_EQ(AlgorithmFor(1), 0u);
  EXPECT_EQ(AlgorithmFor(16), 0u);
  EXPECT_EQ(AlgorithmFor(17), 1u);
  EXPECT_EQ(AlgorithmFor(1000000), kLtRows.size() - 1);
  for (size_t i = 0; i + 1 < kLtRows.size(); ++i) {
    EXPECT_EQ(AlgorithmFor(kLtRows[i]), i);
    EXPECT_EQ(AlgorithmFor(kLtRows[i] + 1), i + 1);
  }
}

TEST(CublasLtTest, AResultThatDiffersInOneBitIsFound) {
  std::vector<std::byte> outs(4 * 100, std::byte{7});
  EXPECT_EQ(SameAsLast(outs, 4), std::vector<bool>(4, true));
  outs[199] = std::byte{6};
  EXPECT_EQ(SameAsLast(outs, 4), (std::vector<bool>{true, false, true, true}));
  outs[300] = std::byte{6};
  EXPECT_EQ(SameAsLast(outs, 4), (std::vector<bool>{false, false, false, true}));
}

}  // namespace
}  // namespace sluice::cuda
