// No model here takes images: every API says so, and none passes over one in silence.
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

struct Body {
  const char *path, *text;
};

class ImagesTest : public RoutesTest {};

TEST_F(ImagesTest, ABodyWithAnImageIsRefusedWithASentence) {
  constexpr Body kBodies[] = {
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},
           {"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}]})"},
      {"/v1/responses",
       R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:,a"}]}]})"},
      {"/v1/messages",
       R"({"max_tokens":8,"messages":[{"role":"user","content":[{"type":"image",
           "source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]})"},
      {"/api/chat", R"({"messages":[{"role":"user","content":"a","images":["aGk="]}]})"},
      {"/api/generate", R"({"prompt":"a","images":["aGk="]})"},
  };
  for (const auto& [path, text] : kBodies) {
    const auto exchange = Send("POST", path, text);
    EXPECT_EQ(exchange->reply.status, 400) << path;
    const std::string& sentence = exchange->reply.error;
    const size_t refused = sentence.find(" is not supported ");
    ASSERT_NE(refused, std::string::npos) << path << ": " << exchange->reply.body;
    EXPECT_NE(sentence.find("; ", refused), std::string::npos) << "without a remedy: " << sentence;
  }
  EXPECT_TRUE(engine_.submitted.empty());
}

// What clients look at before they offer to send one.
TEST_F(ImagesTest, TheModelIsSaidToTakeText) {
  EXPECT_EQ(Send("GET", "/props")->body()["modalities"],
            (Json{{"vision", false}, {"audio", false}}));
  const Json shown = Send("POST", "/api/show", R"({"model":"tiny"})")->body();
  for (const Json& capability : shown["capabilities"]) EXPECT_NE(capability, "vision");
}

}  // namespace
}  // namespace sluice::server
