// The language model: batches out of a text, the loss, and writing.
// SPDX-License-Identifier: Apache-2.0
#include "language_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/cross_entropy.hpp"
#include "common/curve.hpp"
#include "common/progress.hpp"
#include "common/random.hpp"
#include "common/text.hpp"
#include "sequence_network.hpp"

namespace {

// Readers that start at even distances in the text and go on from batch to batch, each round and round.
class Readers {
 public:
  Readers(const Text& text, int count, int length) : text_(text), length_(static_cast<size_t>(length)) {
    for (int i = 0; i < count; ++i) places_.push_back(text.symbols.size() * i / count);
  }
  // The next characters, step by step, and those that follow each of them.
  void read(std::vector<int>* here, std::vector<int>* next) {
    here->clear(), next->clear();
    for (size_t t = 0; t < length_; ++t) {
      for (size_t& place : places_) {
        here->push_back(text_.symbols[place]);
        place = (place + 1) % text_.symbols.size();
        next->push_back(text_.symbols[place]);
      }
    }
  }

 private:
  const Text& text_;
  size_t length_;
  std::vector<size_t> places_;
};

// Lets the network go on after `symbol`, a character at a time: each is drawn by the scores, and read for the next.
std::string write(SequenceNetwork& network, const Text& text, int symbol, const TextOptions& options) {
  Random random(options.seed + 1);
  std::vector<int> written;
  network.forget();
  for (int i = 0; i < options.sample; ++i) {
    network.forward(one_hot({symbol}, text.character_count()), {1});
    symbol = draw(network.logits().download<float>().data(), text.character_count(), options.temperature,
                  uniform(random, 0, 1));
    written.push_back(symbol);
  }
  return text.decode(written);
}

}  // namespace

double model_text(const gpudnn::Handle& handle, const TextOptions& options) {
  const Text text = options.file.empty() ? make_text(50000, options.seed) : read_text(options.file);
  const int classes = text.character_count();
  std::printf("%zu characters of %s, %d different ones: guessing has a loss of %.3f\n", text.symbols.size(),
              options.file.empty() ? "a made text" : options.file.c_str(), classes, std::log(classes));

  const SequenceSpec spec{classes, options.hidden, options.layers, classes};
  SequenceNetwork network(handle, spec, options.length, options.batch);
  network.randomize(options.seed);
  Readers readers(text, options.batch, options.length);
  const CrossEntropy loss(handle, options.length * options.batch, classes);
  const std::vector<int> lengths(static_cast<size_t>(options.batch), options.length);
  const size_t places = lengths.size() * static_cast<size_t>(options.length);

  Progress progress("training", "characters", 10);
  Curve curve(options.curve, "characters");
  std::vector<int> here, next;
  double recent = 0, last_sum = 0;
  const int last = std::max(1, options.iterations / 10);
  for (int i = 0; i < options.iterations; ++i) {
    readers.read(&here, &next);
    network.forward(one_hot(here, classes), lengths);
    const double now = loss(network.logits(), next, network.logit_gradient());
    if (!std::isfinite(now)) throw std::runtime_error("the training diverged: try a smaller --rate");
    // Down to a tenth of the first rate at the end.
    network.learn(options.rate * (1 - 0.9 * i / options.iterations));
    recent = i == 0 ? now : 0.95 * recent + 0.05 * now;
    if (i >= options.iterations - last) last_sum += now;
    curve.add((static_cast<size_t>(i) + 1) * places, now);
    progress.show((static_cast<size_t>(i) + 1) * places, static_cast<size_t>(options.iterations) * places, recent);
  }

  // The same weights, for one sequence and one step at a time.
  SequenceNetwork writer(handle, spec, 1, 1);
  writer.set_parameters(network.parameters());
  std::printf("\n%s\n\n", write(writer, text, text.symbols[0], options).c_str());
  return last_sum / last;
}
