#include "engine/tracer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "base/json.h"

namespace sluice::engine {
namespace {

std::string Path() { return ::testing::TempDir() + "/sluice_tracer_test.json"; }

Json Read(const std::string& path = Path()) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return Json::parse(text.str());
}

StepTrace Step(uint64_t step) {
  const auto at = static_cast<int64_t>(step) * 100;
  return {.step = step,
          .begin_us = at,
          .plan_us = 5,
          .launched_us = at + 6,
          .finished_us = at + 90,
          .prepare_us = 3,
          .sample_us = 4,
          .end_us = at + 95,
          .tokens = 7};
}

TEST(Tracer, TheFileHasStepsWithTheirPhasesAndRequests) {
  {
    const auto tracer = Tracer::Begin(Path()).value();
    tracer->RequestBegins(3, 50);
    tracer->Step(Step(1));
    tracer->RequestDraws(3, 195);
    tracer->RequestEnds(3, 196);
  }
  const Json json = Read();
  ASSERT_EQ(json.size(), 1u + 1 + 4 + 2);
  const auto expect = [&](size_t place, const char* name, const char* phase, int64_t at) {
    EXPECT_EQ(json[place]["name"], name);
    EXPECT_EQ(json[place]["ph"], phase);
    EXPECT_EQ(json[place]["ts"], at);
  };
  expect(1, "request", "b", 50);
  expect(2, "step", "X", 100);
  EXPECT_EQ(json[2]["dur"], 95);
  EXPECT_EQ(json[2]["args"],
            (Json{{"step", 1}, {"tokens", 7}, {"prepare_us", 3}, {"sample_us", 4}}));
  expect(3, "plan", "X", 100);
  expect(4, "execute", "X", 106);
  EXPECT_EQ(json[4]["dur"], 84);
  expect(5, "emit", "X", 190);
  expect(6, "first token", "n", 195);
  expect(7, "request", "e", 196);
  EXPECT_EQ(json[7]["id"], json[1]["id"]);
}

TEST(Tracer, StepsBehindOneAnotherStandOnTwoRows) {
  {
    const auto tracer = Tracer::Begin(Path()).value();
    for (uint64_t step = 1; step < 4; ++step) tracer->Step(Step(step));
  }
  const Json json = Read();
  EXPECT_NE(json[1]["tid"], json[5]["tid"]);
  EXPECT_EQ(json[1]["tid"], json[9]["tid"]);
}

// However many events come, what is written is JSON, and within its limit.
TEST(Tracer, TooManyEventsAndTooLongAFileAreCut) {
  {
    const auto tracer =
        Tracer::Begin(Path(), {}, {.waiting_events = 100, .file_bytes = 20'000}).value();
    for (uint64_t step = 1; step < 100'000; ++step) tracer->Step(Step(step));
  }
  EXPECT_GT(Read().size(), 10u);
  EXPECT_LT(std::ifstream(Path(), std::ios::ate).tellg(), 20'100);
}

TEST(Tracer, AFileThatCannotBeWrittenIsNamed) {
  const Status status = Tracer::Begin("/nowhere/trace.json").status();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("/nowhere/trace.json"), std::string::npos);
}

// Each engine is a process of its own name, and requests of the same number stay apart.
TEST(Tracer, SeveralEnginesShareAFile) {
  const std::string path = Path() + ".shared";  // which no other test has written
  {
    const auto one = Tracer::Begin(path, "small \"one\"").value();
    const auto two = Tracer::Begin(path, "large").value();
    one->RequestBegins(3, 50);
    two->RequestBegins(3, 60);
    std::thread other([&] {
      for (uint64_t step = 1; step < 1000; ++step) two->Step(Step(step));
    });
    for (uint64_t step = 1; step < 1000; ++step) one->Step(Step(step));
    other.join();
  }
  EXPECT_EQ(Read(path).size(), 2u + 2 + 2 * 999 * 4);
  { Tracer::Begin(path, "large").value()->Step(Step(7)); }  // loaded again
  std::map<int, std::string> processes;
  std::map<int, int> steps;
  std::set<Json> ids;
  for (const Json& event : Read(path)) {
    const int process = event["pid"];
    if (event["ph"] == "M") processes[process] = event["args"]["name"];
    if (event["name"] == "step") ++steps[process];
    if (event["name"] == "request") ids.insert(event["id"]);
  }
  EXPECT_EQ(processes,
            (std::map<int, std::string>{{1, "small \"one\""}, {2, "large"}, {3, "large"}}));
  EXPECT_EQ(steps, (std::map<int, int>{{1, 999}, {2, 999}, {3, 1}}));
  EXPECT_EQ(ids.size(), 2u);
  Tracer::Begin(path).value();  // alone, and anew
  EXPECT_EQ(Read(path).size(), 1u);
}

TEST(Tracer, AFileThatIsGoneIsMadeAnew) {
  Tracer::Begin(Path(), "one").value();
  std::ofstream(Path()) << "[";
  Tracer::Begin(Path(), "two").value();
  ASSERT_EQ(Read().size(), 1u);
  EXPECT_EQ(Read()[0]["args"]["name"], "two");
}

TEST(Tracer, InMemoryEndsBehindItsSteps) {
  const auto tracer = Tracer::InMemory({.steps = 2});
  tracer->RequestBegins(3, 50);
  tracer->Step(Step(1));
  tracer->Step(Step(2));
  tracer->AwaitSteps(3600.0);  // both have come
  tracer->Step(Step(3));
  const Json json = Json::parse(tracer->Text());
  ASSERT_EQ(json.size(), 1u + 1 + 2 * 4);
  EXPECT_EQ(json[6]["args"]["step"], 2);
}

TEST(Tracer, WhoWaitsForStepsIsInterruptedOrGivesUp) {
  const auto tracer = Tracer::InMemory({.steps = 1});
  tracer->AwaitSteps(0.001);
  std::thread other([&] { tracer->Interrupt(); });
  tracer->AwaitSteps(3600.0);
  other.join();
  EXPECT_EQ(Json::parse(tracer->Text()).size(), 1u);
}

}  // namespace
}  // namespace sluice::engine
