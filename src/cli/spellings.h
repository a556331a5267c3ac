// How other programs spell what this one calls otherwise: a few are taken, others hinted at. Pure.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

// The arguments of `command` with llama.cpp's names of the model, threads, context and others in
// this program's spelling. What the command has itself stays as it is.
std::vector<std::string> Translated(const std::vector<std::string>& arguments,
                                    const CLI::App& command);

// What was meant by a flag that the command does not have: "; did you mean --help?" Empty: nothing
// is near.
std::string FlagHint(const std::string& word, const CLI::App& command);

// The one of `names` that `word` may be a slip of, or nothing.
std::string Nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace sluice::cli
