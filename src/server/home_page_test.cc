#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/pages.h"

namespace sluice::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The name comes from a file that somebody else may have made.
TEST(HomePage, AModelsNameIsTextAndNeverMarkup) {
  EngineInfo info;
  info.model_name = "<script>alert('x')</script> \"&amp;";
  const std::string page = HomePage(info);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert('x')&lt;/script&gt; &quot;&amp;amp;"));
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace sluice::server
