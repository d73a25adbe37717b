// Trains a small transformer language model on the characters of a text, and lets it write: attention, layer
// normalization, products and GELU by the graph interface, on a GPU or a CPU.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "common/command_line.hpp"
#include "common/cross_entropy.hpp"
#include "common/curve.hpp"
#include "common/progress.hpp"
#include "common/random.hpp"
#include "common/text.hpp"
#include "transformer.hpp"

namespace {

struct Options {
  std::string device = "auto";
  std::string file;  // empty: a text of the program's own
  int iterations = 500;
  int batch = 8;
  int length = 32;
  int width = 48;
  int heads = 3;
  int blocks = 2;
  double rate = 0.003;
  int sample = 300;
  double temperature = 0.7;
  uint64_t seed = 1;
  std::optional<double> max_loss;
  std::string curve;
};

void declare_options(CLI::App& app, Options& o) {
  const auto number = [&](const char* name, auto& value, double low, double high, const char* meaning) {
    app.add_option(name, value, meaning)->check(CLI::Range(low, high))->capture_default_str();
  };
  app.add_option("--text", o.file, "the text to learn (default: one that the program makes)")->type_name("FILE");
  app.add_option("--device", o.device, "auto: the GPU if there is one, else the CPU")
      ->check(CLI::IsMember({"auto", "gpu", "host"}))
      ->capture_default_str();
  number("--iterations", o.iterations, 1, 1e9, "updates of the weights");
  number("--batch", o.batch, 1, 65536, "pieces of text an update");
  number("--length", o.length, 2, 65536, "characters of a piece: what the model sees at once");
  number("--width", o.width, 1, 65536, "numbers that stand for a character; a multiple of 4 and of --heads");
  number("--heads", o.heads, 1, 1024, "heads of the attention");
  number("--blocks", o.blocks, 1, 256, "blocks of attention and two linear layers");
  number("--rate", o.rate, 0, 1, "learning rate after the first steps; it falls to a tenth");
  number("--sample", o.sample, 0, 1e6, "characters to write at the end");
  number("--temperature", o.temperature, 0, 10, "0: always the likeliest character; 1: as likely as learned");
  app.add_option("--seed", o.seed, "of the weights, the made text and the writing")->capture_default_str();
  app.add_option("--curve", o.curve, "write the loss of each update to this table")->type_name("FILE");
  app.add_option("--max-loss", o.max_loss, "exit with 1 where the training ends with more");
}

// Pieces from anywhere in the text, one after the other, and the characters that follow each of their characters.
void read_pieces(const Text& text, int count, int length, Random& random, std::vector<int>* here,
                 std::vector<int>* next) {
  here->clear(), next->clear();
  for (int i = 0; i < count; ++i) {
    const auto first = text.symbols.begin() +
                       static_cast<std::ptrdiff_t>(random() % (text.symbols.size() - static_cast<size_t>(length)));
    here->insert(here->end(), first, first + length);
    next->insert(next->end(), first + 1, first + 1 + length);
  }
}

// Rises over the first twentieth of the training, then falls along a cosine to a tenth.
double rate_of(int iteration, const Options& options) {
  const double warm = std::max(1.0, options.iterations * 0.05);
  if (iteration < warm) return options.rate * (iteration + 1) / (warm + 1);
  const double along = (iteration - warm) / std::max(1.0, options.iterations - warm);
  return options.rate * (0.55 + 0.45 * std::cos(3.14159265 * along));
}

// Returns the mean loss of the last tenth of the training.
double train(const gpudnn::Handle& handle, Transformer& model, const Text& text, const Options& options) {
  const CrossEntropy loss(handle, options.batch * options.length, text.character_count());
  Random random(options.seed);
  Progress progress("training", "tokens", 10);
  Curve curve(options.curve, "tokens");
  const size_t tokens = static_cast<size_t>(options.batch) * static_cast<size_t>(options.length);
  const int last = std::max(1, options.iterations / 10);
  std::vector<int> here, next;
  double recent = 0, last_sum = 0;
  for (int i = 0; i < options.iterations; ++i) {
    read_pieces(text, options.batch, options.length, random, &here, &next);
    model.forward(here);
    const double now = loss(model.logits(), next, model.logit_gradient());
    if (!std::isfinite(now)) throw std::runtime_error("the training diverged: try a smaller --rate");
    model.learn(rate_of(i, options));
    recent = i == 0 ? now : 0.95 * recent + 0.05 * now;
    if (i >= options.iterations - last) last_sum += now;
    curve.add((static_cast<size_t>(i) + 1) * tokens, now);
    progress.show((static_cast<size_t>(i) + 1) * tokens, static_cast<size_t>(options.iterations) * tokens, recent);
  }
  return last_sum / last;
}

// Lets a model of batch 1 go on after the first character of the text; it sees what it wrote last.
std::string write(Transformer& model, const Text& text, const Options& options) {
  Random random(options.seed + 1);
  const auto length = static_cast<size_t>(options.length);
  std::vector<int> written = {text.symbols[0]};
  while (written.size() <= static_cast<size_t>(options.sample)) {
    const size_t seen = std::min(written.size(), length);
    // What stands behind the last character is not seen by it: any character will do.
    std::vector<int> window(written.end() - static_cast<std::ptrdiff_t>(seen), written.end());
    window.resize(length, 0);
    model.forward(window);
    const std::vector<float> logits = model.logits().download<float>();
    const int classes = text.character_count();
    written.push_back(draw(logits.data() + (seen - 1) * static_cast<size_t>(classes), classes, options.temperature,
                           uniform(random, 0, 1)));
  }
  return text.decode(written);
}

int run(const Options& options) {
  // Parts of a row begin at multiples of 16 bytes, which is what the graphs say of their tensors.
  if (options.width % options.heads != 0 || options.width % 4 != 0) {
    throw std::runtime_error("--width " + std::to_string(options.width) + " must be a multiple of 4 and of --heads " +
                             std::to_string(options.heads));
  }
  if (options.device == "host") setenv("GPUDNN_BACKEND", "host", 1);
  const gpudnn::Handle handle;
  if (handle.is_host() && options.device == "gpu") {
    throw std::runtime_error("--device gpu: the library found no GPU to work on (or GPUDNN_BACKEND=host is set)");
  }
  const Text text = options.file.empty() ? make_text(50000, options.seed) : read_text(options.file);
  if (text.symbols.size() <= static_cast<size_t>(options.length)) {
    throw std::runtime_error("the text of " + std::to_string(text.symbols.size()) +
                             " characters is not longer than --length");
  }
  const TransformerSpec spec{text.character_count(), options.length, options.width, options.heads, options.blocks};
  Transformer model(handle, spec, options.batch);
  model.randomize(options.seed);
  std::printf("computing on the %s\n", handle.is_host() ? "CPU (host backend)" : "GPU (CUDA backend)");
  std::printf("%zu characters of %s, %d different ones: guessing has a loss of %.3f; %zu parameters\n",
              text.symbols.size(), options.file.empty() ? "a made text" : options.file.c_str(), spec.symbols,
              std::log(spec.symbols), model.parameter_count());

  const double loss = train(handle, model, text, options);
  // The same weights, for one piece at a time.
  Transformer writer(handle, spec, 1);
  writer.set_parameters(model.parameters());
  std::printf("\n%s\n\nloss at the end %.3f\n", write(writer, text, options).c_str(), loss);
  return options.max_loss && loss > *options.max_loss ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_with_options<Options>(
      argc, argv, "Trains a small transformer language model on a text, and lets it write.", declare_options, run);
}
