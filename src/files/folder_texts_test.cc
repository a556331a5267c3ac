#include "files/folder_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_files.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

std::string TemplateError(const TempFolder& folder, std::string_view tokenizer_config) {
  auto text = ReadFolderTemplate(folder.path(), tokenizer_config);
  if (text.ok()) return "no error";
  EXPECT_EQ(text.status().code(), StatusCode::kBadModel);
  return text.status().message();
}

TEST(FolderTextsTest, TheNewestPlaceOfATemplateWins) {
  TempFolder folder;
  EXPECT_EQ(*ReadFolderTemplate(folder.path(), ""), "");
  EXPECT_EQ(*ReadFolderTemplate(folder.path(), R"({"chat_template":null})"), "");
  folder.Write("chat_template.json", R"({"chat_template":"oldest"})");
  EXPECT_EQ(*ReadFolderTemplate(folder.path(), "{}"), "oldest");
  EXPECT_EQ(*ReadFolderTemplate(folder.path(), R"({"chat_template":"old"})"), "old");
  folder.Write("chat_template.jinja", "new");
  EXPECT_EQ(*ReadFolderTemplate(folder.path(), R"({"chat_template":"old"})"), "new");
}

TEST(FolderTextsTest, TheDefaultOfNamedTemplatesIsMeant) {
  TempFolder folder;
  EXPECT_EQ(*ReadFolderTemplate(folder.path(),
                                R"({"chat_template":[{"name":"tool_use","template":"no"},
                                                     {"name":"default","template":"yes"}]})"),
            "yes");
  EXPECT_EQ(*ReadFolderTemplate(folder.path(), R"({"chat_template":[]})"), "");
}

TEST(FolderTextsTest, RefusesMalformedTemplates) {
  TempFolder folder;
  EXPECT_THAT(TemplateError(folder, "{"), HasSubstr("tokenizer_config.json is not valid JSON"));
  EXPECT_THAT(TemplateError(folder, R"({"chat_template":1})"), HasSubstr("neither a string"));
  EXPECT_THAT(TemplateError(folder, R"({"chat_template":["x"]})"), HasSubstr("neither a string"));
  EXPECT_THAT(TemplateError(folder, R"({"chat_template":[{"name":1}]})"),
              HasSubstr("string is needed"));
  const std::string big((1u << 20) + 1, 'x');
  EXPECT_THAT(TemplateError(folder, R"({"chat_template":")" + big + "\"}"),
              HasSubstr("the limit is"));
  folder.Write("chat_template.jinja", big);
  EXPECT_THAT(TemplateError(folder, ""), HasSubstr("the limit is"));
}

}  // namespace
}  // namespace sluice::files
