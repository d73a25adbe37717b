// A text as numbers: the characters that occur in it, numbered, and the sequence of their numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct Text {
  std::string characters;    // that occur, in the order of their codes: bytes, so UTF-8 text works as it is
  std::vector<int> symbols;  // the text, each an index into `characters`

  int character_count() const { return static_cast<int>(characters.size()); }
  std::string decode(const std::vector<int>& numbers) const;
};

Text text_of(const std::string& bytes);

// Throws std::runtime_error with the file and what is wrong.
Text read_text(const std::filesystem::path& file);

// Sentences about who sees what where, by a small grammar: enough of spelling, agreement and order to learn.
Text make_text(size_t length, uint64_t seed);

// The number that `temperature` draws by the scores: 0 takes the greatest, 1 draws as often as the model says.
int draw(const float* logits, int count, double temperature, double random);
