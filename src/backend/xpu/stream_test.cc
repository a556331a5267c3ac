// What a stream asks of the driver: that nothing is waited for, how errors of work that was not
// waited for are found, and how many calls a list of copies takes. Drivers that fail, or are
// stricter than the one of this machine, are fakes before it.
#include "backend/xpu/stream.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "backend/xpu/xpu_fixture.h"
#include "ops/embedding.h"

namespace sluice::xpu {
namespace {

using device::CopyItem;
using device::MemoryKind;
using ::testing::HasSubstr;

constexpr int kVocab = 3, kHidden = 5;

OpenClApi real_driver;  // behind a fake

class StreamTest : public XpuTest {
 protected:
  void SetUp() override {
    XpuTest::SetUp();
    Prepare();
  }
  void Prepare() {
    std::vector<float> table(kVocab * kHidden);
    std::iota(table.begin(), table.end(), 1.0f);
    table_ = Upload(table);
    ids_ = Upload(std::vector<int32_t>{2, 0});
    out_ = Upload(std::vector<float>(2 * kHidden));
    ASSERT_TRUE(Embed().ok()) << "compiled, and its memory is there";
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
  Status Embed() {
    SLUICE_ASSIGN_OR_RETURN(
        const auto bound,
        ops::Bind<ops::Embedding>(device_->ops(), {.vocab = kVocab, .hidden = kHidden}));
    return bound(*stream_, {.ids = ops::Dense(ids_.view(), DType::kI32, {2}),
                            .table = ops::Dense(table_.view(), DType::kF32, {kVocab, kHidden}),
                            .out = ops::Dense(out_.view(), DType::kF32, {2, kHidden})});
  }
  // One of the floats of a buffer.
  static device::View At(const device::Buffer& buffer, size_t index) {
    device::View view = buffer.view();
    view.data += index * sizeof(float);
    view.bytes = sizeof(float);
    return view;
  }
  uint64_t Waits() const { return AsXpu(*stream_).waits(); }

  device::Buffer table_, ids_, out_;
};

// Holds a stream's queue until it is let go.
class HeldQueue {
 public:
  explicit HeldQueue(XpuStream& stream) {
    void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto create =
        reinterpret_cast<decltype(&clCreateUserEvent)>(dlsym(library, "clCreateUserEvent"));
    set_ =
        reinterpret_cast<decltype(&clSetUserEventStatus)>(dlsym(library, "clSetUserEventStatus"));
    cl_int error = CL_SUCCESS;
    event_ = create(stream.context()->handle(), &error);
    EXPECT_EQ(error, CL_SUCCESS);
    EXPECT_EQ(Cl().EnqueueBarrierWithWaitList(stream.queue(), 1, &event_, nullptr), CL_SUCCESS);
  }
  void LetGo() {
    if (event_ == nullptr) return;
    EXPECT_EQ(set_(event_, CL_COMPLETE), CL_SUCCESS);
    Cl().ReleaseEvent(event_);
    event_ = nullptr;
  }
  ~HeldQueue() { LetGo(); }

 private:
  decltype(&clSetUserEventStatus) set_ = nullptr;
  cl_event event_ = nullptr;
};

// What a step does: ids to the device, a graph of ops, more ops, results to the host. A wait would
// never end here: the device comes to nothing before the queue is let go.
TEST_F(StreamTest, AStepReturnsBeforeTheDeviceComesToIt) {
  const auto pinned = device_->Allocate(2 * kHidden * sizeof(float), MemoryKind::kPinned);
  const auto ids = device_->Allocate(2 * sizeof(int32_t), MemoryKind::kPinned);
  ASSERT_TRUE(pinned.ok() && ids.ok());
  EXPECT_EQ(pinned->view().memory, MemoryKind::kPinned);
  reinterpret_cast<int32_t*>(ids->data())[0] = 2;
  const auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream&) { return Embed(); });
  ASSERT_TRUE(graph.ok());
  const auto done = std::move(device_->CreateEvent().value());
  const uint64_t before = Waits();
  HeldQueue held(AsXpu(*stream_));
  ASSERT_TRUE((*graph)->Replay(*stream_, {{{"ids", ids->view(), ids_.view()}}}).ok());
  ASSERT_TRUE(Embed().ok());
  const CopyItem item{pinned->view(), out_.view()};
  ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
  ASSERT_TRUE(stream_->Record(*done).ok());
  EXPECT_EQ(Waits(), before);
  EXPECT_FALSE(done->Done());
  held.LetGo();
  ASSERT_TRUE(done->Synchronize().ok());
  const auto* values = reinterpret_cast<const float*>(pinned->data());
  EXPECT_EQ(values[0], 11.0f);
  EXPECT_EQ(values[kHidden], 1.0f);
  EXPECT_EQ(Waits(), before);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Waits(), before + 1);
}

// As NVIDIA's driver, which says of the launch that an argument is missing when a null was given as
// shared memory, or an argument of the same kernel both as shared memory and as a memory object.
std::map<std::pair<cl_kernel, cl_uint>, bool> given_as_shared;
cl_int Give(cl_kernel kernel, cl_uint index, bool shared) {
  return given_as_shared.try_emplace({kernel, index}, shared).first->second == shared
             ? CL_SUCCESS
             : CL_INVALID_ARG_VALUE;
}

TEST_F(StreamTest, AnArgumentIsGivenInOneWayAndNullNeverAsSharedMemory) {
  real_driver = Cl();
  OpenClApi strict = real_driver;
  strict.SetKernelArgSVMPointer = [](cl_kernel kernel, cl_uint index, const void* value) -> cl_int {
    if (value == nullptr) return CL_INVALID_ARG_VALUE;
    const cl_int error = Give(kernel, index, true);
    return error == CL_SUCCESS ? real_driver.SetKernelArgSVMPointer(kernel, index, value) : error;
  };
  strict.SetKernelArg = [](cl_kernel kernel, cl_uint index, size_t bytes,
                           const void* value) -> cl_int {
    const cl_int error = Give(kernel, index, false);
    return error == CL_SUCCESS ? real_driver.SetKernelArg(kernel, index, bytes, value) : error;
  };
  given_as_shared.clear();
  // The kernel that copies takes 16 runs, of which those that a list lacks are null.
  const std::vector<float> values = {1, 2, 3, 4, 5};
  const auto from = Upload(values);
  const UseOpenCl use(strict);
  for (int round = 0; round < 2; ++round) {
    for (const size_t runs : {2, 3}) {
      const auto to = Upload(std::vector<float>(values.size()));
      std::vector<CopyItem> items;
      for (size_t i = 0; i < 2 * runs; i += 2) items.push_back({At(to, i), At(from, i)});
      const Status status = device_->Copy(*stream_, items);
      ASSERT_TRUE(status.ok()) << status.message();
      const std::vector<float> copied = Download<float>(to);
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(copied[i], i % 2 == 0 && i < 2 * runs ? values[i] : 0.0f) << runs << " " << i;
      }
    }
  }
}

// Drivers whose kernels fail after the launch, as out of bounds: one says so of what lies behind
// the kernel in the queue, one of the wait.
int launches_until_failure = 0;
bool failed() { return launches_until_failure == 0; }

OpenClApi FailingDriver(int launches) {
  real_driver = Cl();
  launches_until_failure = launches;
  OpenClApi api = real_driver;
  api.EnqueueNDRangeKernel = [](cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                const size_t* offset, const size_t* global, const size_t* local,
                                cl_uint waits, const cl_event* list, cl_event* event) -> cl_int {
    if (launches_until_failure > 0) --launches_until_failure;
    return real_driver.EnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, waits, list,
                                            event);
  };
  return api;
}

OpenClApi DriverWhoseEventsFail(int launches) {
  OpenClApi api = FailingDriver(launches);
  api.GetEventInfo = [](cl_event event, cl_event_info what, size_t size, void* value,
                        size_t* needed) -> cl_int {
    const cl_int error = real_driver.GetEventInfo(event, what, size, value, needed);
    if (failed() && what == CL_EVENT_COMMAND_EXECUTION_STATUS)
      *static_cast<cl_int*>(value) = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    return error;
  };
  api.WaitForEvents = [](cl_uint count, const cl_event* events) -> cl_int {
    const cl_int error = real_driver.WaitForEvents(count, events);
    return failed() ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : error;
  };
  return api;
}

OpenClApi DriverWhoseWaitsFail(int launches) {
  OpenClApi api = FailingDriver(launches);
  api.Finish = [](cl_command_queue queue) -> cl_int {
    const cl_int error = real_driver.Finish(queue);
    return failed() ? CL_INVALID_COMMAND_QUEUE : error;
  };
  api.WaitForEvents = [](cl_uint count, const cl_event* events) -> cl_int {
    const cl_int error = real_driver.WaitForEvents(count, events);
    return failed() ? CL_INVALID_COMMAND_QUEUE : error;
  };
  return api;
}

using FailingDriverMaker = OpenClApi (*)(int);
class FailingStreamTest : public StreamTest,
                          public ::testing::WithParamInterface<FailingDriverMaker> {};
INSTANTIATE_TEST_SUITE_P(Drivers, FailingStreamTest,
                         ::testing::Values(&DriverWhoseEventsFail, &DriverWhoseWaitsFail),
                         [](const auto& driver) { return driver.index == 0 ? "Events" : "Waits"; });

TEST_P(FailingStreamTest, AKernelThatFailsIsToldByTheNextSynchronize) {
  const OpenClApi api = GetParam()(2);
  const UseOpenCl use(api);
  ASSERT_TRUE(Embed().ok());
  ASSERT_TRUE(stream_->Synchronize().ok()) << "nothing has failed yet";
  const auto event = std::move(device_->CreateEvent().value());
  ASSERT_TRUE(Embed().ok()) << "the launch itself succeeds";
  ASSERT_TRUE(stream_->Record(*event).ok());
  for (const Status& status : {event->Synchronize(), stream_->Synchronize()}) {
    EXPECT_EQ(status.code(), StatusCode::kDevice);
    EXPECT_THAT(status.message(), HasSubstr("the last kernel launched was any_f32_embedding"));
    EXPECT_THAT(status.message(), HasSubstr("CL_"));
  }
}

TEST_P(FailingStreamTest, ACopyThatIsWaitedForTellsOfAKernelThatFailedBeforeIt) {
  const OpenClApi api = GetParam()(1);
  const UseOpenCl use(api);
  ASSERT_TRUE(Embed().ok());
  std::vector<float> values(2 * kHidden);
  const CopyItem item{Host(values), out_.view()};
  const Status status = device_->Copy(*stream_, {&item, 1});
  EXPECT_THAT(status.message(), HasSubstr("any_f32_embedding"));
}

TEST_P(FailingStreamTest, WithEachOpCheckedTheOpItselfSaysSo) {
  Open({.check_each_op = true, .cache_folder = TestCache()});
  Prepare();
  const OpenClApi api = GetParam()(1);
  const UseOpenCl use(api);
  const Status status = Embed();
  EXPECT_EQ(status.code(), StatusCode::kDevice);
  EXPECT_TRUE(status.message().starts_with("any_f32_embedding: waiting for the stream"))
      << status.message();
}

// Runs that stay on the device are submitted together, however many: 16 by one launch.
TEST_F(StreamTest, AListOfCopiesTakesALaunchForSixteen) {
  constexpr size_t kRuns = 37, kEach = 5001, kApart = 8192;
  std::vector<uint8_t> source(kRuns * kApart);
  std::iota(source.begin(), source.end(), uint8_t{0});
  const auto from = Upload(source);
  const auto to = Upload(std::vector<uint8_t>(kRuns * kApart));
  const auto part = [](const device::Buffer& buffer, size_t offset, size_t bytes) {
    device::View view = buffer.view();
    view.data += offset;
    view.bytes = bytes;
    return view;
  };
  std::vector<CopyItem> items;
  std::vector<uint8_t> expected(source.size());
  for (size_t i = 0; i < kRuns; ++i) {
    // Of every alignment, some of them more than a work-group does.
    const size_t at = i * kApart + i % 5, there = (kRuns - 1 - i) * kApart + i % 3;
    items.push_back({part(to, there, kEach - i), part(from, at, kEach - i)});
    std::copy_n(&source[at], kEach - i, &expected[there]);
  }
  const auto calls = [&](std::span<const CopyItem> list) {
    const uint64_t before = stream_->counts().host_calls;
    EXPECT_TRUE(device_->Copy(*stream_, list).ok());
    return stream_->counts().host_calls - before;
  };
  EXPECT_EQ(calls(items), (kRuns + 15) / 16);
  EXPECT_EQ(Download<uint8_t>(to), expected);
  EXPECT_EQ(calls(std::span(items).first(16)), 1u);
  EXPECT_EQ(calls(std::span(items).first(1)), 1u);
}

}  // namespace
}  // namespace sluice::xpu
