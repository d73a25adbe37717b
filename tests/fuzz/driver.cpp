// Runs a fuzz target without libFuzzer: each seed of the files as it is, then mutations of them, from a seed that is
// printed. With --bytes, half of the inputs are random bytes, and the seeds are lines of hexadecimal digits.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::ifstream opened(const char* path) {
  std::ifstream file(path);
  if (!file) std::exit((std::fprintf(stderr, "%s cannot be read\n", path), 2));
  return file;
}

// The seeds of a file: its lines, or the blocks between lines that begin with "==".
void add_seeds(const char* path, bool lines, std::vector<std::string>* seeds) {
  std::ifstream file = opened(path);
  std::string block;
  for (std::string line; std::getline(file, line);) {
    if (lines) {
      if (!line.empty() && line[0] != '#') seeds->push_back(line);
    } else if (line.rfind("==", 0) == 0) {
      if (!block.empty()) seeds->push_back(block);
      block.clear();
    } else {
      block += line + '\n';
    }
  }
  if (!block.empty()) seeds->push_back(block);
}

// Each line of the file: two hexadecimal digits a byte.
void add_bytes(const char* path, std::vector<std::string>* seeds) {
  std::ifstream file = opened(path);
  for (std::string line; std::getline(file, line);) {
    std::string& seed = seeds->emplace_back();
    for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
      seed += static_cast<char>(std::strtoul(line.substr(i, 2).c_str(), nullptr, 16));
    }
  }
}

std::string mutated(std::string text, const std::vector<std::string>& seeds, std::mt19937& random) {
  static const char* const kPieces[] = {
      "0", "-1", "99999999999999999999", "2147483648", "nan", "strides=", "\n", " ", ":", "x", ",", "n1c1h1w1"};
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  for (std::size_t changes = 1 + below(6); changes > 0; --changes) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, below(16));
        break;
      case 2:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(24)));
        break;
      case 4: {
        const std::string& other = seeds[below(seeds.size())];
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      default:
        if (at < text.size() && text[at] >= '0' && text[at] <= '9') text[at] = static_cast<char>('0' + below(10));
    }
  }
  return text;
}

std::string random_bytes(std::mt19937& random) {
  std::string bytes(1 + random() % 256, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  long runs = 1000;
  bool lines = false;
  bool bytes = false;
  auto seed = static_cast<unsigned>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::vector<std::string> seeds;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = std::atol(argv[++i]);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (std::strcmp(argv[i], "--lines") == 0) {
      lines = true;
    } else if (std::strcmp(argv[i], "--bytes") == 0) {
      bytes = true;
    } else if (bytes) {
      add_bytes(argv[i], &seeds);
    } else {
      add_seeds(argv[i], lines, &seeds);
    }
  }
  if (seeds.empty()) return std::fprintf(stderr, "no seed was read\n"), 2;
  std::printf("%zu seeds, %ld further inputs, --seed %u\n", seeds.size(), runs, seed);
  std::fflush(stdout);
  std::mt19937 random(seed);
  for (const std::string& input : seeds) run(input);
  for (long i = 0; i < runs; ++i) {
    const bool anew = bytes && random() % 2 == 0;
    run(anew ? random_bytes(random) : mutated(seeds[random() % seeds.size()], seeds, random));
  }
  return 0;
}
