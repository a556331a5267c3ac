#include "cli/load/sse_reader.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::load {
namespace {

// The data of the events of `stream`, given in pieces of `step` bytes.
std::vector<std::string> Events(std::string_view stream, size_t step) {
  std::vector<std::string> events;
  SseReader reader;
  for (size_t at = 0; at < stream.size(); at += step) {
    const Status status = reader.Add(stream.substr(at, step),
                                     [&](std::string_view data) { events.emplace_back(data); });
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return events;
}

TEST(SseReaderTest, EventsSurviveAnyCutAndAnyLineEnd) {
  const std::string_view streams[] = {
      "data: {\"a\":1}\n\ndata:b\n\n: a comment\n\nevent: x\ndata: [DONE]\n\n",
      "data: {\"a\":1}\r\n\r\ndata:b\r\n\r\n: a comment\r\n\r\nevent: x\r\ndata: [DONE]\r\n\r\n",
      "data: {\"a\":1}\r\rdata:b\r\r: a comment\r\revent: x\rdata: [DONE]\r\r",
      "\xef\xbb\xbf"
      "data: {\"a\":1}\n\ndata:b\n\nid: 4\n\ndata: [DONE]\n\n"};
  for (const std::string_view stream : streams) {
    for (const size_t step : {1, 2, 3, 7, 1000}) {
      EXPECT_EQ(Events(stream, step), (std::vector<std::string>{"{\"a\":1}", "b", "[DONE]"}))
          << stream << " in pieces of " << step;
    }
  }
}

TEST(SseReaderTest, LinesOfDataAreJoinedAndAnUnfinishedEventIsNone) {
  EXPECT_EQ(Events("data: a\ndata:\ndata:  b\n\ndata: c\n", 4),
            (std::vector<std::string>{"a\n\n b"}));
  EXPECT_EQ(Events("data\n\n", 2), (std::vector<std::string>{""}));
  EXPECT_TRUE(Events("datum: a\n\n\n\n", 3).empty());
}

TEST(SseReaderTest, AnEventWithoutEndIsRefusedAtTheLimit) {
  SseReader reader;
  const auto ignore = [](std::string_view) {};
  const std::string half(SseReader::kEventBytesMax / 2, 'x');
  EXPECT_TRUE(reader.Add("data: " + half + "\ndata: ", ignore).ok());
  const Status status = reader.Add(half, ignore);
  EXPECT_EQ(status.code(), StatusCode::kTooLarge);
}

}  // namespace
}  // namespace sluice::load
