#include "engine/turn_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;

void Push(TurnQueue* queue, RequestId id, const std::string& client) {
  auto state = std::make_shared<RequestState>();
  state->id = id;
  state->request.client = client;
  queue->Push(std::move(state));
}

std::vector<RequestId> PopAll(TurnQueue* queue) {
  std::vector<RequestId> ids;
  while (!queue->empty()) ids.push_back(queue->Pop()->id);
  return ids;
}

TEST(TurnQueue, OneClientIsServedInOrder) {
  TurnQueue queue;
  EXPECT_TRUE(queue.empty());
  for (const RequestId id : {3, 1, 2}) Push(&queue, id, "a");
  EXPECT_THAT(PopAll(&queue), ElementsAre(3, 1, 2));
}

TEST(TurnQueue, WhoSendsManyDelaysAnotherByOne) {
  TurnQueue queue;
  for (const RequestId id : {1, 2, 3, 4}) Push(&queue, id, "a");
  Push(&queue, 5, "b");
  Push(&queue, 6, "b");
  EXPECT_EQ(queue.Pop()->id, 1u);
  Push(&queue, 7, "c");
  EXPECT_THAT(PopAll(&queue), ElementsAre(5, 2, 7, 6, 3, 4));
}

// Leaving and coming back is no way to the front.
TEST(TurnQueue, WhoComesBackStandsAtTheEnd) {
  TurnQueue queue;
  Push(&queue, 1, "a");
  Push(&queue, 2, "b");
  EXPECT_EQ(queue.Pop()->id, 1u);
  Push(&queue, 3, "a");
  EXPECT_THAT(PopAll(&queue), ElementsAre(2, 3));
}

}  // namespace
}  // namespace sluice::engine
