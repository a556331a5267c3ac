#include "fetch/model_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/source_dir_fixture.h"
#include "fetch/file_name.h"

namespace sluice::fetch {
namespace {

using ::testing::HasSubstr;

constexpr char kHub[] = "https://hub.example:8443";

// "OWNER/NAME selector revision", with - for what is empty.
std::string Read(const std::string& name) {
  const auto read = ParseModelName(name, kHub);
  if (!read.ok()) {
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
    return "refused: " + read.status().message();
  }
  if (read->entry != nullptr) return "entry " + std::string(read->entry->name);
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  return read->repository + " " + or_dash(read->selector) + " " + or_dash(read->revision);
}

TEST(ModelNameTest, ANameOfTheCatalogueIsItsEntry) {
  for (const CatalogueEntry& entry : Catalogue()) {
    EXPECT_EQ(Read(std::string(entry.name)), "entry " + std::string(entry.name));
  }
  EXPECT_THAT(Read("nonsense"), HasSubstr(CatalogueNames()));
}

TEST(ModelNameTest, TheDemoModelIsTheOneThatTheScriptsGet) {
  std::ifstream file(SourceDir() + "/scripts/lib/model.sh");
  const std::string script((std::istreambuf_iterator<char>(file)), {});
  const CatalogueEntry& demo = Catalogue().front();
  const std::string version(demo.wheel.substr(demo.package.size() + 1, 5));
  EXPECT_THAT(script, HasSubstr("SHA256=" + std::string(demo.sha256)));
  EXPECT_THAT(script, HasSubstr("BYTES=" + std::to_string(demo.bytes) + "\n"));
  EXPECT_THAT(script, HasSubstr("/" + std::string(demo.file) + "\n"));
  EXPECT_THAT(script, HasSubstr(std::string(demo.package) + "==" + version + "\n"));
}

TEST(ModelNameTest, ARepositoryMayNameAFileOrAQuantization) {
  EXPECT_EQ(Read("Qwen/Qwen3-0.6B"), "Qwen/Qwen3-0.6B - -");
  EXPECT_EQ(Read("a_b/c.d:Q4_K_M"), "a_b/c.d Q4_K_M -");
  EXPECT_EQ(Read("a/b:sub/x-Q8_0.gguf"), "a/b sub/x-Q8_0.gguf -");
}

TEST(ModelNameTest, AUrlMayComeFromABrowser) {
  EXPECT_EQ(Read("https://huggingface.co/a/b"), "a/b - -");
  EXPECT_EQ(Read("https://huggingface.co/a/b/"), "a/b - -");
  EXPECT_EQ(Read("http://hf.co/a/b?library=x"), "a/b - -");
  EXPECT_EQ(Read("hf.co/a/b:Q8_0"), "a/b Q8_0 -");
  EXPECT_EQ(Read("https://hub.example:8443/a/b"), "a/b - -");
  EXPECT_EQ(Read("https://huggingface.co/a/b/tree/v1.0"), "a/b - v1.0");
  EXPECT_EQ(Read("https://huggingface.co/a/b/blob/main/s/x.gguf"), "a/b s/x.gguf main");
  EXPECT_EQ(Read("https://huggingface.co/a/b/resolve/main/x.gguf?download=true"),
            "a/b x.gguf main");
}

TEST(ModelNameTest, AnotherHostIsNotTakenForTheHub) {
  EXPECT_THAT(Read("https://huggingface.co.example/a/b"), HasSubstr("--hf-endpoint"));
  EXPECT_THAT(Read("https://hub.example/a/b"), HasSubstr("--hf-endpoint"));
}

TEST(ModelNameTest, WhatLeadsElsewhereIsRefused) {
  for (const char* name : {"",
                           "a",
                           "a/",
                           "/a",
                           "a/b/c",
                           "../b",
                           "a/..",
                           "./a",
                           "a/.b",
                           "a/b:",
                           "/a/b",
                           "a b/c",
                           "a/b\n",
                           "a\\b/c",
                           "a/b/tree/main",
                           "https://huggingface.co/a",
                           "https://huggingface.co/a/b/tree/..",
                           "https://huggingface.co/a/b/blob/main",
                           "https://huggingface.co/a/b/blob/main/x.gguf:Q4_0",
                           "ftp://huggingface.co/a/b@",
                           "https://user@huggingface.co/a/b"}) {
    EXPECT_THAT(Read(name), HasSubstr("refused")) << name;
  }
  EXPECT_THAT(Read(std::string(5000, 'a') + "/b"), HasSubstr("refused"));
}

TEST(ModelNameTest, ARevisionIsOneOfGitThatStaysInItsFolder) {
  for (const char* good :
       {"main", "v1.0", "refs/pr/12", "0123456789abcdef0123456789abcdef01234567"}) {
    EXPECT_TRUE(CheckRevision(good).ok()) << good;
  }
  for (const char* bad : {"", "..", "a/../b", "/a", "a/", "-x", "a b", "a@b", "a+b", "a:b"}) {
    EXPECT_EQ(CheckRevision(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(FolderOf("a/b", "main"), "a/b");
  EXPECT_EQ(FolderOf("a/b", "refs/pr/1"), "a/b@refs+pr+1");
}

TEST(FileNameTest, NamesStayBelowTheirFolder) {
  for (const char* good :
       {"config.json", "1_Pooling/config.json", "a b.gguf", "...gguf", "\xc3\xa4.gguf"}) {
    EXPECT_TRUE(CheckFileName(good).ok()) << good;
  }
  for (const char* bad : {"", "..", ".", "../x", "a/../x", "/x", "a//b", "a/", "a\\b", "..\\x",
                          "a\nb", "\x7f", "\xff"}) {
    EXPECT_EQ(CheckFileName(bad).code(), StatusCode::kBadModel) << bad;
  }
  EXPECT_FALSE(CheckFileName(std::string_view("a\0b", 3)).ok());
  EXPECT_FALSE(CheckFileName(std::string(201, 'a')).ok());
  EXPECT_TRUE(CheckFileName(std::string(200, 'a')).ok());
}

TEST(FileNameTest, AUrlHoldsEveryName) {
  EXPECT_EQ(EscapePath("a b/c#1?.gguf"), "a%20b/c%231%3F.gguf");
  EXPECT_EQ(EscapePath("\xc3\xa4%-._~"), "%C3%A4%25-._~");
}

}  // namespace
}  // namespace sluice::fetch
