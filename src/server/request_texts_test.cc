#include "server/request_texts.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(RequestTextsTest, CountsEveryTextAndTellsNone) {
  Request request;
  request.prompt = std::string(10, 'p');
  request.second_text = std::string(20, 's');
  request.choice = {std::string(30, 'c')};
  request.grammar = {Grammar::Kind::kRegex, std::string(40, 'g'), false};
  request.prediction = std::string(50, 'q');
  request.held = std::make_shared<int>();
  request.cache_salt = "salt";
  const int64_t bytes = TextBytes(request, false);
  EXPECT_EQ(bytes, 150 + static_cast<int64_t>(sizeof(std::string)));
  EXPECT_EQ(TextBytes(request, true), bytes + 10);
  const Request told = WithoutTexts(&request);
  EXPECT_EQ(TextBytes(told, true), 0);
  EXPECT_EQ(told.held, nullptr);
  EXPECT_EQ(told.cache_salt, "salt");
  EXPECT_EQ(told.grammar.kind, Grammar::Kind::kRegex);
  EXPECT_EQ(TextBytes(request, false), bytes);
  EXPECT_NE(request.held, nullptr);
  request.prompt = std::vector<int32_t>{1, 2, 3};
  EXPECT_EQ(TextBytes(request, true), bytes - 10 + 12);
  request.prompt = ChatPrompt{.messages_json = "[]", .tools_json = "[1]"};
  EXPECT_EQ(TextBytes(request, true), bytes - 10 + 5);
}

}  // namespace
}  // namespace sluice::server
