#include "files/gguf_pre_tokenizers.h"

#include <string>
#include <utility>

namespace sluice::files {
namespace {

// The regular expressions of the published tokenizer.json files; code points beyond ASCII are
// written as escapes.
constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen35[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                           R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt4o[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kKimiK2[] =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kDeepSeekV3Words[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Marks that end or divide sentences, the full-width, Devanagari and Arabic ones too, stand alone.
constexpr char kBloom[] = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr char kDeepSeekV3Cjk[] = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr char kDeepSeekCjk[] = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr char kDeepSeekLlmPunctuation[] =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr char kDeepSeekLlmLetters[] =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})"
    R"(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B})"
    R"(\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";

TextStep PatternStep(const char* type) {
  TextStep step;
  step.type = type;
  return step;
}

TextStep Regex(const char* pattern) {
  TextStep step = PatternStep("Split");
  step.pattern = pattern;
  step.pattern_is_regex = true;
  step.behavior = "Isolated";
  step.options["invert"] = false;
  return step;
}

TextStep ByteLevel(bool use_regex) {
  TextStep step = PatternStep("ByteLevel");
  step.options["add_prefix_space"] = false;
  step.options["use_regex"] = use_regex;
  return step;
}

TextStep Digits(bool individual) {
  TextStep step = PatternStep("Digits");
  step.options["individual_digits"] = individual;
  return step;
}

TextStep Punctuation(const char* behavior) {
  TextStep step = PatternStep("Punctuation");
  step.behavior = behavior;
  return step;
}

GgufPreTokenizer Make(std::vector<TextStep> pre_tokenizers, bool nfc = false) {
  GgufPreTokenizer made;
  if (nfc) made.normalizers.push_back(PatternStep("NFC"));
  made.pre_tokenizers = std::move(pre_tokenizers);
  return made;
}

GgufPreTokenizer OneRegex(const char* pattern, bool nfc = false) {
  return Make({Regex(pattern), ByteLevel(false)}, nfc);
}

GgufPreTokenizer Gpt2() { return Make({ByteLevel(true)}); }
GgufPreTokenizer GptNeoX() { return Make({ByteLevel(true)}, true); }
GgufPreTokenizer StarCoder() { return Make({Digits(true), ByteLevel(true)}); }
GgufPreTokenizer CommandR() { return Make({Digits(true), ByteLevel(true)}, true); }
GgufPreTokenizer Qwen2() { return OneRegex(kQwen2, true); }
GgufPreTokenizer Qwen35() { return OneRegex(kQwen35, true); }
GgufPreTokenizer PlainQwen2() { return OneRegex(kQwen2); }
GgufPreTokenizer Gpt4o() { return OneRegex(kGpt4o); }
GgufPreTokenizer KimiK2() { return OneRegex(kKimiK2); }
GgufPreTokenizer Bloom() { return OneRegex(kBloom); }
GgufPreTokenizer Dbrx() { return OneRegex(kLlama3); }

GgufPreTokenizer Glm4() {
  GgufPreTokenizer made = OneRegex(kLlama3);
  made.ignore_merges = true;
  return made;
}

GgufPreTokenizer Llama3() {
  GgufPreTokenizer made = Glm4();
  made.adds_bos = true;
  return made;
}

GgufPreTokenizer Tekken() {
  GgufPreTokenizer made = OneRegex(kTekken);
  made.ignore_merges = true;
  made.adds_bos = true;
  return made;
}

// Its digits are split after the bytes have become characters.
GgufPreTokenizer Falcon() {
  return Make(
      {Punctuation("Contiguous"), ByteLevel(true), Digits(false), Regex("[0-9][0-9][0-9]")});
}

GgufPreTokenizer DeepSeekLlm() {
  return Make({Regex(R"([\r\n])"), Regex(kDeepSeekLlmLetters), Regex(kDeepSeekLlmPunctuation),
               Regex(R"(\s+$)"), Regex(kDeepSeekCjk), Digits(true), ByteLevel(false)});
}

GgufPreTokenizer DeepSeekCoder() {
  return Make({Regex(R"([\r\n])"), Regex(R"(\s?\p{L}+)"), Regex(R"(\s?\p{P}+)"),
               Regex(kDeepSeekCjk), Digits(true), ByteLevel(false)});
}

GgufPreTokenizer DeepSeekV3() {
  return Make(
      {Regex(R"(\p{N}{1,3})"), Regex(kDeepSeekV3Cjk), Regex(kDeepSeekV3Words), ByteLevel(false)});
}

struct Named {
  std::string_view name;
  GgufPreTokenizer (*make)();
};

constexpr Named kByName[] = {
    {"gpt-2", Gpt2},
    {"phi-2", Gpt2},
    {"modern-bert", GptNeoX},
    {"gigachat", Gpt2},
    {"mellum", Gpt2},
    {"exaone4", Gpt2},
    {"jais", Gpt2},
    {"trillion", Gpt2},
    {"gpt-neox", GptNeoX},
    {"mpt", GptNeoX},
    {"olmo", GptNeoX},
    {"starcoder", StarCoder},
    {"refact", StarCoder},
    {"smollm", StarCoder},
    {"codeshell", StarCoder},
    {"exaone", StarCoder},
    {"minerva-7b", StarCoder},
    {"command-r", CommandR},
    {"falcon", Falcon},
    {"bloom", Bloom},
    {"gpt3-finnish", Bloom},
    {"llama3", Llama3},
    {"llama-v3", Llama3},
    {"llama-bpe", Llama3},
    {"falcon3", Llama3},
    {"falcon-h1", Llama3},
    {"midm-2.0", Llama3},
    {"lfm2", Llama3},
    {"dbrx", Dbrx},
    {"smaug-bpe", Dbrx},
    {"chatglm-bpe", Dbrx},
    {"glm4", Glm4},
    {"glm5", Glm4},
    {"qwen2", Qwen2},
    {"deepseek-r1-qwen", Qwen2},
    {"megrez", Qwen2},
    {"qwen35", Qwen35},
    {"stablelm2", PlainQwen2},
    {"hunyuan", PlainQwen2},
    {"grok-2", PlainQwen2},
    {"deepseek-llm", DeepSeekLlm},
    {"deepseek-coder", DeepSeekCoder},
    {"deepseek-v3", DeepSeekV3},
    {"hunyuan-dense", DeepSeekV3},
    {"tekken", Tekken},
    {"pixtral", Tekken},
    {"gpt-4o", Gpt4o},
    {"llama4", Gpt4o},
    {"minimax-m2", Gpt4o},
    {"kimi-k2", KimiK2},
};

// Files from before tokenizer.ggml.pre existed.
constexpr Named kByArchitecture[] = {
    {"gptneox", GptNeoX},     {"mpt", GptNeoX},          {"falcon", Falcon},
    {"starcoder", StarCoder}, {"starcoder2", StarCoder}, {"refact", StarCoder},
    {"command-r", CommandR},  {"qwen2", Qwen2},          {"qwen2moe", Qwen2},
    {"qwen3", Qwen2},
};

}  // namespace

std::optional<GgufPreTokenizer> FindGgufPreTokenizer(std::string_view name,
                                                     std::string_view architecture) {
  if (name.empty() || name == "default") {
    for (const Named& entry : kByArchitecture) {
      if (entry.name == architecture) return entry.make();
    }
    return Gpt2();
  }
  for (const Named& entry : kByName) {
    if (entry.name == name) return entry.make();
  }
  return std::nullopt;
}

}  // namespace sluice::files
