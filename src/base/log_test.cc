#include "base/log.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice
