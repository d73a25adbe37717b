// Reading, making and drawing text.
// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "random.hpp"

std::string Text::decode(const std::vector<int>& numbers) const {
  std::string bytes;
  for (const int number : numbers) bytes += characters[static_cast<size_t>(number)];
  return bytes;
}

Text text_of(const std::string& bytes) {
  const auto less = [](char a, char b) { return static_cast<uint8_t>(a) < static_cast<uint8_t>(b); };
  const std::set<char, decltype(less)> found(bytes.begin(), bytes.end(), less);
  Text text{{found.begin(), found.end()}, {}};
  std::array<int, 256> number{};
  for (size_t i = 0; i < text.characters.size(); ++i)
    number[static_cast<uint8_t>(text.characters[i])] = static_cast<int>(i);
  for (const char byte : bytes) text.symbols.push_back(number[static_cast<uint8_t>(byte)]);
  return text;
}

Text read_text(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file))
    throw std::runtime_error(file.string() + ": expected a text file, found a directory");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error(file.string() + ": cannot be opened: " + std::strerror(errno));
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (bytes.size() < 1000) {
    throw std::runtime_error(file.string() + ": expected a text of at least 1000 characters, found " +
                             std::to_string(bytes.size()));
  }
  return text_of(bytes);
}

Text make_text(size_t length, uint64_t seed) {
  Random random(seed);
  const auto pick = [&](const std::vector<std::string>& words) -> const std::string& {
    return words[random() % words.size()];
  };
  const std::vector<std::string> adjectives = {"old", "small", "red", "quiet", "clever", "tall"};
  const std::vector<std::string> nouns = {"cat", "farmer", "bird", "child", "horse", "teacher"};
  const std::vector<std::string> verbs = {"sees", "follows", "hears", "finds", "calls"};
  const std::vector<std::string> places = {"in the garden", "near the river", "on the hill", "behind the house"};
  std::string bytes;
  while (bytes.size() < length) {
    const auto thing = [&] { return "the " + (chance(random, 0.5) ? pick(adjectives) + " " : "") + pick(nouns); };
    std::string sentence = thing() + " " + pick(verbs) + " " + thing();
    if (chance(random, 0.5)) sentence += " " + pick(places);
    sentence[0] = 'T';
    bytes += sentence + (chance(random, 0.2) ? ".\n" : ". ");
  }
  bytes.resize(length);
  return text_of(bytes);
}

int draw(const float* logits, int count, double temperature, double random) {
  const int best = static_cast<int>(std::max_element(logits, logits + count) - logits);
  if (temperature <= 0) return best;
  std::vector<double> weights;
  double total = 0;
  for (int i = 0; i < count; ++i) total += weights.emplace_back(std::exp((logits[i] - logits[best]) / temperature));
  double left = random * total;
  for (int i = 0; i < count; ++i) {
    left -= weights[static_cast<size_t>(i)];
    if (left < 0) return i;
  }
  return best;
}
