#include "base/log.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "base/json.h"
#include "base/log_fields.h"
#include "base/log_options.h"

namespace sluice {
namespace {

TEST(LogTest, WhatAMessageRepeatsStaysOnItsLine) {
  testing::internal::CaptureStderr();
  LogWarning("the name ", "a\n2026-01-01 error forged\x1b[2J", " is odd");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("the name a\\x0a2026-01-01 error forged\\x1b[2J is odd\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1);
}

class LogOptionsTest : public ::testing::Test {
 protected:
  ~LogOptionsTest() override { SetLog(LogLevel::kInfo, LogFormat::kText); }
};

TEST_F(LogOptionsTest, LinesBelowTheLeastLevelAreNotWritten) {
  SetLog(LogLevel::kWarning, LogFormat::kText);
  testing::internal::CaptureStderr();
  LogInfo("one");
  LogWarning("two");
  LogError("three");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("one"), std::string::npos) << text;
  EXPECT_NE(text.find("warning two\n"), std::string::npos) << text;
  EXPECT_NE(text.find("error three\n"), std::string::npos) << text;
}

TEST_F(LogOptionsTest, JsonIsOneObjectALine) {
  SetLog(LogLevel::kInfo, LogFormat::kJson);
  testing::internal::CaptureStderr();
  LogWarning("a \"quoted\" name\nof \xff bytes");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json line = Json::parse(text);
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["message"], "a \"quoted\" name\\x0aof \\xff bytes");
  EXPECT_EQ(line["time"].get<std::string>().size(), std::string("2026-01-01T00:00:00.000Z").size());
}

TEST_F(LogOptionsTest, FieldsStandBehindTheMessageOfTheirLineAlone) {
  testing::internal::CaptureStderr();
  int asked = 0;
  LogWithFields(LogLevel::kInfo, "it took 3 ms", [&asked] {
    ++asked;
    return OrderedJson{{"duration_ms", 3}};
  });
  EXPECT_EQ(asked, 0) << "a line of text shows no fields";
  SetLog(LogLevel::kInfo, LogFormat::kJson);
  LogWithFields(LogLevel::kError, "it failed", [] {
    return OrderedJson{{"path", "a\n\xff"}, {"duration_ms", 3}};
  });
  LogInfo("end");
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::string line;
  std::getline(text, line);
  EXPECT_TRUE(line.ends_with(" info it took 3 ms")) << line;
  std::getline(text, line);
  const OrderedJson failed = OrderedJson::parse(line);
  std::vector<std::string> names;
  for (const auto& [name, value] : failed.items()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"time", "level", "message", "path", "duration_ms"}));
  EXPECT_EQ(failed["path"], "a\n\xef\xbf\xbd");
  std::getline(text, line);
  EXPECT_EQ(Json::parse(line).size(), 3u);
}

TEST_F(LogOptionsTest, LogLinesStandAboveTheProgress) {
  testing::internal::CaptureStderr();
  ShowProgress("loading 1 %");
  LogInfo("hello");
  ShowProgress("loading 2 %");
  ShowProgress("");
  LogInfo("end");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("\r\x1b[Kloading 1 %\r\x1b[K2"), 0u) << text;
  EXPECT_NE(text.find("info hello\nloading 1 %\r\x1b[Kloading 2 %\r\x1b[K2"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("loading", text.find("info end")), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice
