#include "server/timelines.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace sluice::server {
namespace {

constexpr int64_t kMinute = 60'000'000;

std::vector<Request> Follow(Timelines* timelines, const std::string& key, const std::string& id,
                            int64_t now_us, size_t count = 1) {
  std::vector<Request> requests(count);
  timelines->Follow(key, id, now_us, &requests);
  return requests;
}

StatusCode Code(Timelines* timelines, const std::string& key, const std::string& path,
                int64_t now_us = 0) {
  return timelines->Show(key, path, now_us).status().code();
}

TEST(Timelines, TheLatestAreToldInOutline) {
  Timelines timelines;
  const auto first = Follow(&timelines, "key", "a", 1'000'000, 2);
  first[0].timeline->submitted_us = first[1].timeline->submitted_us = 1'000'000;
  first[0].timeline->admitted_us = 3'000'000;
  first[0].timeline->ended_us = 9'000'000;
  first[0].timeline->drawn = 5;
  first[1].timeline->admitted_us = 2'000'000;
  first[1].timeline->drawn = 2;
  const auto other = Follow(&timelines, "other", "b", 2'000'000);
  other[0].timeline->submitted_us = 2'000'000;
  Follow(&timelines, "key", "refused", 2'000'000);
  const Json a{{"id", "a"},           {"requests", 2}, {"begun_ms", 1000},   {"admitted_ms", 2000},
               {"first_token_ms", 0}, {"ended_ms", 0}, {"prompt_tokens", 0}, {"drawn_tokens", 7}};
  EXPECT_EQ(Json(timelines.Recent("key", false, 3'000'000)), Json::array({a}));
  const Json all(timelines.Recent("key", true, 3'000'000));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["id"], "b");
  EXPECT_EQ(all[1], a);
  first[1].timeline->ended_us = 8'000'000;
  EXPECT_EQ(timelines.Recent("key", false, 9'000'000)[0]["ended_ms"], 9000);
  EXPECT_TRUE(timelines.Recent("key", true, 2'000'001 + kMinute).empty());
  for (int i = 0; i < 101; ++i) {
    Follow(&timelines, "key", std::to_string(i), 0)[0].timeline->submitted_us = 1;
  }
  EXPECT_EQ(timelines.Recent("key", true, 1).size(), 100u);
}

TEST(Timelines, TellWhatTheEngineHasNoted) {
  Timelines timelines;
  const auto requests = Follow(&timelines, "key", "a", 1000);
  Timeline& timeline = *requests[0].timeline;
  timeline.submitted_us = 1500;
  timeline.admitted_us = 3000;
  timeline.prompt_tokens = 12;
  timeline.cached_tokens = 8;
  timeline.events.push_back({.kind = TimelineEvent::Kind::kDecode,
                             .choice = 1,
                             .steps = 4,
                             .first_step = 9,
                             .begin_us = 4000,
                             .end_us = 7000,
                             .tokens = 6,
                             .sequences = 10});
  timeline.events.push_back({.kind = TimelineEvent::Kind::kPreempted, .begin_us = 8000});
  const Json json =
      Json::parse(timelines.Show("key", "/v1/requests/a/timeline", 1'001'000).value());
  EXPECT_EQ(json["id"], "a");
  EXPECT_EQ(json["age_ms"], 1000.0);
  ASSERT_EQ(json["timelines"].size(), 1u);
  const Json& shown = json["timelines"][0];
  EXPECT_EQ(shown["submitted_ms"], 0.5);
  EXPECT_EQ(shown["admitted_ms"], 2.0);
  EXPECT_TRUE(shown["ended_ms"].is_null());
  EXPECT_EQ(shown["cached_tokens"], 8);
  EXPECT_EQ(shown["events"][0], (Json{{"kind", "decode"},
                                      {"choice", 1},
                                      {"begin_ms", 3.0},
                                      {"end_ms", 6.0},
                                      {"first_step", 9},
                                      {"steps", 4},
                                      {"tokens", 6},
                                      {"sequences_per_step", 2.5}}));
  EXPECT_EQ(shown["events"][1], (Json{{"kind", "preempted"}, {"choice", 0}, {"begin_ms", 7.0}}));
}

TEST(Timelines, BelongToTheKeyAndHaveOnePath) {
  Timelines timelines;
  Follow(&timelines, "key", "a", 0);
  EXPECT_EQ(Code(&timelines, "key", "/v1/requests/a/timeline"), StatusCode::kOk);
  EXPECT_EQ(Code(&timelines, "other", "/v1/requests/a/timeline"), StatusCode::kNotFound);
  for (const char* path : {"/v1/requests/b/timeline", "/v1/requests/a", "/v1/requests/timeline",
                           "/v1/requests//timeline", "/v1/requests/a/timeline/"}) {
    EXPECT_EQ(Code(&timelines, "key", path), StatusCode::kNotFound) << path;
  }
}

TEST(Timelines, AreBoundedInBytesAndAge) {
  Timelines timelines(/*bytes_max=*/100'000, /*age_us_max=*/10 * kMinute);
  for (int i = 0; i < 1000; ++i) {
    Follow(&timelines, "key", std::to_string(i), i);
    ASSERT_LE(timelines.bytes(), 100'000);
  }
  EXPECT_EQ(Code(&timelines, "key", "/v1/requests/0/timeline"), StatusCode::kNotFound);
  EXPECT_EQ(Code(&timelines, "key", "/v1/requests/999/timeline"), StatusCode::kOk);
  EXPECT_EQ(Code(&timelines, "key", "/v1/requests/999/timeline", 11 * kMinute),
            StatusCode::kNotFound);
  EXPECT_EQ(timelines.bytes(), 0);
}

TEST(Timelines, AnIdThatComesAgainIsTheLaterCall) {
  Timelines timelines(16 << 20, 10 * kMinute);
  Follow(&timelines, "key", "a", 0, 1);
  const int64_t bytes = timelines.bytes();
  Follow(&timelines, "key", "a", 5 * kMinute, 1);
  EXPECT_EQ(timelines.bytes(), bytes);
  // The first one's age is not the second one's.
  EXPECT_EQ(Code(&timelines, "key", "/v1/requests/a/timeline", 12 * kMinute), StatusCode::kOk);
  EXPECT_EQ(Code(&timelines, "key", "/v1/requests/a/timeline", 16 * kMinute),
            StatusCode::kNotFound);
  EXPECT_EQ(timelines.bytes(), 0);
}

TEST(Timelines, OfManyTextsTheFirstAreFollowed) {
  Timelines timelines;
  const auto requests = Follow(&timelines, "key", "a", 0, 100);
  EXPECT_NE(requests[15].timeline, nullptr);
  EXPECT_EQ(requests[16].timeline, nullptr);
  const Json json = Json::parse(timelines.Show("key", "/v1/requests/a/timeline", 0).value());
  EXPECT_EQ(json["requests"], 100);
  EXPECT_EQ(json["timelines"].size(), 16u);
}

}  // namespace
}  // namespace sluice::server
