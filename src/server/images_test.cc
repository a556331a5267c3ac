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
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c",
           "content":[{"type":"image_url","image_url":{"url":"data:,a"}}]}]})"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"system","content":[{"type":"input_audio","input_audio":{}}]},
           {"role":"user","content":"a"}]})"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"a"}],
           "prediction":{"type":"content","content":[{"type":"image_url","image_url":{}}]}})"},
      {"/v1/responses",
       R"({"input":[{"type":"function_call_output","call_id":"c",
           "output":[{"type":"input_image","image_url":"data:,a"}]}]})"},
      {"/v1/responses",
       R"({"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]})"},
      {"/v1/messages",
       R"({"max_tokens":8,"messages":[{"role":"user","content":[{"type":"tool_result",
           "tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"image",
           "source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}]})"},
      {"/v1/messages",
       R"({"max_tokens":8,"messages":[{"role":"user","content":[{"type":"tool_result",
           "tool_use_id":"t","content":[{"type":"document","source":{"type":"text",
           "media_type":"text/plain","data":"a"}}]}]}]})"},
      {"/v1/messages",
       R"({"max_tokens":8,"system":[{"type":"image","source":{"type":"url","url":"http://a"}}],
           "messages":[{"role":"user","content":"a"}]})"},
      {"/v1/messages",
       R"({"max_tokens":8,"messages":[{"role":"user","content":"a"},
           {"role":"assistant","content":[{"type":"image","source":{}}]}]})"},
      {"/v1/messages/count_tokens",
       R"({"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",
           "content":[{"type":"image","source":{}}]}]}]})"},
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
    // Where it stands, and what it is.
    EXPECT_TRUE(sentence.find("].type is \"") != std::string::npos ||
                sentence.find("images is an array of 1 item") != std::string::npos)
        << sentence;
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
