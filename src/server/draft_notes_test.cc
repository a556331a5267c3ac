// Answers whose drafts were taken by lot make no sense, and those that were verified by rejection
// depend on their drafts: every API says so, and of other answers none says anything.
#include <gtest/gtest.h>

#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

struct NotingApi {
  const char *path, *body, *place;  // `place`: JSON pointer of what the notes stand in
};
constexpr NotingApi kNotingApis[] = {
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})",
     "/usage/completion_tokens_details"},
    {"/v1/completions", R"({"prompt":"hi"})", "/usage/completion_tokens_details"},
    {"/v1/responses", R"({"input":"hi"})", "/usage/output_tokens_details"},
    {"/v1/messages", R"({"max_tokens":5,"messages":[{"role":"user","content":"hi"}]})", "/usage"},
    {"/completion", R"({"prompt":"hi"})", "/timings"},
    {"/api/chat", R"({"model":"tiny","stream":false,"messages":[{"role":"user","content":"hi"}]})",
     ""},
    {"/api/generate", R"({"model":"tiny","stream":false,"prompt":"hi"})", ""},
};

class DraftNotes : public RoutesTest {
 protected:
  // What the answer says where its notes stand.
  Json NotesOf(const NotingApi& api) {
    const auto exchange = Send("POST", api.path, api.body);
    if (engine_.submitted.empty()) {
      ADD_FAILURE() << api.path << ": " << exchange->reply.body;
      return {};
    }
    engine_.Emit(engine_.submitted.size() - 1, "ab", FinishReason::kStop, true);
    const Json body = exchange->body();
    const Json::json_pointer place(api.place);
    EXPECT_TRUE(body.contains(place)) << exchange->reply.body;
    return body.contains(place) ? body[place] : Json();
  }
};

TEST_F(DraftNotes, EveryApiTellsOfDraftsThatWereTakenByLot) {
  engine_.synthetic_acceptance = 0.25;
  for (const NotingApi& api : kNotingApis)
    EXPECT_EQ(NotesOf(api).value("synthetic_acceptance", 0.0), 0.25) << api.path;
}

TEST_F(DraftNotes, EveryApiTellsOfRejection) {
  engine_.verified_by_rejection = true;
  for (const NotingApi& api : kNotingApis)
    EXPECT_TRUE(NotesOf(api).value("verified_by_rejection", false)) << api.path;
}

TEST_F(DraftNotes, OfOtherAnswersNothingIsSaid) {
  for (const NotingApi& api : kNotingApis) {
    const Json notes = NotesOf(api);
    EXPECT_FALSE(notes.contains("synthetic_acceptance")) << api.path;
    EXPECT_FALSE(notes.contains("verified_by_rejection")) << api.path;
  }
}

// As llama.cpp's server names them.
TEST_F(DraftNotes, TimingsOfLlamaCountDrafts) {
  const Json timings = NotesOf(kNotingApis[4]);
  EXPECT_EQ(timings["draft_n"], 4);
  EXPECT_EQ(timings["draft_n_accepted"], 1);
}

}  // namespace
}  // namespace sluice::server
