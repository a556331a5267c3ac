// Profiles of an engine, by the whole engine over a tiny checkpoint.
#include "engine/profiler.h"

#include <thread>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

const std::vector<int32_t> kProfiledPrompt = {1, 100, 101, 102};

int Named(const Json& trace, const char* name) {
  return static_cast<int>(std::count_if(
      trace.begin(), trace.end(), [&](const Json& event) { return event.at("name") == name; }));
}

TEST(EngineProfile, HasTheNextStepsAndNoMore) {
  const auto engine = OpenTiny(TinyOptions());
  std::string text;
  std::thread profile([&] {
    text = engine->Admin(R"({"command": "profile", "steps": 5, "seconds": 60})").value();
  });
  // Whichever is first: the requests go on until the profile has its steps.
  std::atomic<bool> done = false;
  std::thread load([&] {
    while (!done) Ask(*engine, TinyRequest(kProfiledPrompt, 8));
  });
  profile.join();
  done = true;
  load.join();
  const Json trace = Json::parse(text);
  EXPECT_EQ(Named(trace, "step"), 5);
  EXPECT_EQ(Named(trace, "execute"), 5);
}

TEST(EngineProfile, OneAtATimeEndedByTimeOrByACommand) {
  const auto engine = OpenTiny(TinyOptions());
  const Json idle =
      Json::parse(engine->Admin(R"({"command": "profile", "seconds": 0.01})").value());
  EXPECT_EQ(Named(idle, "step"), 0);
  std::string text;
  std::atomic<bool> ended = false;
  std::thread first([&] {
    Result<std::string> answer = Status(StatusCode::kInternal, "not asked yet");
    while (!answer.ok()) answer = engine->Admin(R"({"command": "profile", "seconds": 60})");
    text = *answer;
    ended = true;
  });
  // Until the first has begun, this is one that takes a moment, and may be in the first's way.
  const std::string second = R"({"command": "profile", "seconds": 0.001})";
  while (engine->Admin(second).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(engine->Admin(second).status().code(), StatusCode::kFailedPrecondition);
  while (!ended) {
    EXPECT_TRUE(engine->Admin(R"({"command": "profile_end"})").ok());
    std::this_thread::yield();
  }
  first.join();
  EXPECT_EQ(Named(Json::parse(text), "step"), 0);
}

TEST(EngineProfile, WrongNumbersAreRefused) {
  const auto engine = OpenTiny(TinyOptions());
  const auto refused = [&](const std::string& field, const std::string& value) {
    const Status status =
        engine->Admin(R"({"command": "profile", ")" + field + "\": " + value + "}").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << value;
    EXPECT_EQ(status.field(), field) << value;
    EXPECT_THAT(status.message(), HasSubstr(field + " is " + value));
  };
  for (const char* steps : {"0", "-1", "1001", "1.5", "\"5\"", "[]"}) refused("steps", steps);
  for (const char* seconds : {"0", "-1", "60.5", "\"5\"", "{}"}) refused("seconds", seconds);
}

}  // namespace
}  // namespace sluice::engine
