// Runs a fuzz target without libFuzzer, by the same options: each seed as it is, then mutations of them, from a seed
// that is printed. The inputs run in a process of their own; where it ends early, the input it had is written to a
// file, whose path is printed. Run with that file, the program runs it alone.
//   fuzz_problem_text [-runs=N] [-max_total_time=S] [-seed=N] [-artifact_prefix=PATH] FOLDER...
//   fuzz_problem_text --lines|--blocks|--hex FILE...
//   fuzz_problem_text INPUT...
// A folder's files are seeds; so are a file's lines, its blocks between lines that begin with "==", and its lines of
// hexadecimal digits. Where a seed is no text, half of the further inputs are random bytes.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Clock = std::chrono::steady_clock;

// What the process that runs the inputs leaves to the one that waits for it.
struct Shared {
  static constexpr std::size_t kMaxSize = 1 << 20;
  std::uint64_t executed;
  std::uint64_t size;
  bool running;  // an input, the first `size` bytes
  char input[kMaxSize];
};

struct Options {
  long runs = -1;
  long max_seconds = 0;
  unsigned timeout = 1200;  // of one input, in seconds
  std::size_t max_size = Shared::kMaxSize;
  unsigned seed = static_cast<unsigned>(Clock::now().time_since_epoch().count());
  std::string prefix = "./";
  std::vector<std::string> seeds;
  std::vector<std::string> inputs;
};

void run(const std::string& input, unsigned timeout, Shared* shared) {
  shared->size = std::min(input.size(), Shared::kMaxSize);
  std::memcpy(shared->input, input.data(), shared->size);
  shared->running = true;
  alarm(timeout);
  // A copy of just its size, so that a sanitizer sees a read beyond it.
  const std::vector<std::uint8_t> bytes(shared->input, shared->input + shared->size);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  alarm(0);
  shared->running = false;
  ++shared->executed;
}

std::ifstream opened(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) std::exit((std::fprintf(stderr, "%s cannot be read\n", path.c_str()), 2));
  return file;
}

std::string whole(const std::filesystem::path& path) {
  std::ifstream file = opened(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add_lines(const char* path, std::vector<std::string>* seeds) {
  std::ifstream file = opened(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') seeds->push_back(line);
  }
}

void add_blocks(const char* path, std::vector<std::string>* seeds) {
  std::ifstream file = opened(path);
  std::string block;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("==", 0) == 0) {
      if (!block.empty()) seeds->push_back(block);
      block.clear();
    } else {
      block += line + '\n';
    }
  }
  if (!block.empty()) seeds->push_back(block);
}

// Each line of the file: two hexadecimal digits a byte.
void add_hex(const char* path, std::vector<std::string>* seeds) {
  std::ifstream file = opened(path);
  for (std::string line; std::getline(file, line);) {
    std::string& seed = seeds->emplace_back();
    for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
      seed += static_cast<char>(std::strtoul(line.substr(i, 2).c_str(), nullptr, 16));
    }
  }
}

void add_folder(const char* path, std::vector<std::string>* seeds) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) seeds->push_back(whole(file));
}

bool is_text(const std::string& seed) {
  return std::all_of(seed.begin(), seed.end(), [](unsigned char c) { return c == '\n' || (c >= ' ' && c < 0x7f); });
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

int fuzz(const Options& options, Shared* shared) {
  for (const std::string& input : options.inputs) run(input, options.timeout, shared);
  if (!options.inputs.empty()) return 0;
  if (options.seeds.empty()) return std::fprintf(stderr, "no seed was read\n"), 2;
  const bool bytes = !std::all_of(options.seeds.begin(), options.seeds.end(), is_text);
  std::printf("%zu seeds, -runs=%ld -max_total_time=%ld -seed=%u\n", options.seeds.size(), options.runs,
              options.max_seconds, options.seed);
  std::fflush(stdout);
  const auto end = Clock::now() + std::chrono::seconds(options.max_seconds);
  std::mt19937 random(options.seed);
  for (const std::string& seed : options.seeds) run(seed, options.timeout, shared);
  for (long i = 0; options.runs < 0 || i < options.runs; ++i) {
    if (options.max_seconds > 0 && Clock::now() >= end) break;
    const bool anew = bytes && random() % 2 == 0;
    const std::string& seed = options.seeds[random() % options.seeds.size()];
    std::string input = anew ? random_bytes(random) : mutated(seed, options.seeds, random);
    input.resize(std::min(input.size(), options.max_size));
    run(input, options.timeout, shared);
  }
  return 0;
}

// Writes the input during which the process ended.
void keep_input(const Options& options, const Shared& shared) {
  char name[32];
  const std::string_view input(shared.input, shared.size);
  std::snprintf(name, sizeof name, "crash-%016zx", std::hash<std::string_view>()(input));
  const std::string path = options.prefix + name;
  std::ofstream file(path, std::ios::binary);
  file.write(input.data(), static_cast<std::streamsize>(input.size()));
  file.close();
  std::fprintf(stderr, file ? "Test unit written to %s\n" : "%s cannot be written\n", path.c_str());
}

// Whether the argument is "-name=", and then its value.
bool takes(std::string_view argument, std::string_view name, const char** value) {
  if (argument.substr(0, name.size()) != name) return false;
  *value = argument.data() + name.size();
  return true;
}

bool parse(int argc, char** argv, Options* o) {
  std::string_view form;
  for (int i = 1; i < argc; ++i) {
    const char* const argument = argv[i];
    const char* value = nullptr;
    if (takes(argument, "-runs=", &value)) {
      o->runs = std::atol(value);
    } else if (takes(argument, "-max_total_time=", &value)) {
      o->max_seconds = std::atol(value);
    } else if (takes(argument, "-timeout=", &value)) {
      o->timeout = static_cast<unsigned>(std::atol(value));
    } else if (takes(argument, "-max_len=", &value)) {
      o->max_size = static_cast<std::size_t>(std::atol(value));
    } else if (takes(argument, "-seed=", &value)) {
      o->seed = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    } else if (takes(argument, "-artifact_prefix=", &value)) {
      o->prefix = value;
    } else if (takes(argument, "-rss_limit_mb=", &value) || takes(argument, "-print_final_stats=", &value)) {
      // libFuzzer's alone; the count is always printed.
    } else if (argument[0] == '-') {
      form = argument;
      if (form != "--lines" && form != "--blocks" && form != "--hex") return false;
    } else if (form == "--lines") {
      add_lines(argument, &o->seeds);
    } else if (form == "--blocks") {
      add_blocks(argument, &o->seeds);
    } else if (form == "--hex") {
      add_hex(argument, &o->seeds);
    } else if (std::filesystem::is_directory(argument)) {
      add_folder(argument, &o->seeds);
    } else {
      o->inputs.push_back(whole(argument));
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) return std::fprintf(stderr, "see the top of tests/fuzz/driver.cpp\n"), 2;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 2;
  auto* const shared = static_cast<Shared*>(memory);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(fuzz(options, shared));
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return std::perror("fork"), 2;
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!good && WIFSIGNALED(status)) std::fprintf(stderr, "ended by signal %d\n", WTERMSIG(status));
  if (!good && shared->running) keep_input(options, *shared);
  std::printf("stat::number_of_executed_units: %llu\n", static_cast<unsigned long long>(shared->executed));
  return good ? 0 : 1;
}
