// Learns sequences by recurrent networks, through the public interface alone, on a GPU or a CPU: `text` trains a
// language model on characters and lets it write, `digits` trains a reader of written numbers.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "digit_reader.hpp"
#include "language_model.hpp"

namespace {

struct Options {
  std::string device = "auto";
  TextOptions text;
  std::optional<double> max_loss;
  DigitOptions digits;
  std::optional<double> min_accuracy;
};

template <class T>
void number(CLI::App* app, const char* name, T& value, double low, double high, const char* meaning) {
  app->add_option(name, value, meaning)->check(CLI::Range(low, high))->capture_default_str();
}

CLI::App* declare_text(CLI::App& app, Options& options) {
  CLI::App* text = app.add_subcommand("text", "an LSTM that learns to tell the next character of a text, and writes");
  TextOptions& o = options.text;
  text->add_option("--text", o.file, "the text to learn (default: one that the program makes)")->type_name("FILE");
  number(text, "--iterations", o.iterations, 1, 1e9, "updates of the weights");
  number(text, "--batch", o.batch, 1, 65536, "places in the text that are read at once");
  number(text, "--length", o.length, 1, 65536, "characters from one update to the next");
  number(text, "--hidden", o.hidden, 1, 16384, "units of a layer");
  number(text, "--layers", o.layers, 1, 64, "layers");
  number(text, "--rate", o.rate, 0, 1, "learning rate of the first update; it falls to a tenth");
  number(text, "--sample", o.sample, 0, 1e6, "characters to write at the end");
  number(text, "--temperature", o.temperature, 0, 10, "0: always the likeliest character; 1: as likely as learned");
  text->add_option("--seed", o.seed, "of the weights, the made text and the writing")->capture_default_str();
  text->add_option("--curve", o.curve, "write the loss of each update to this table")->type_name("FILE");
  text->add_option("--max-loss", options.max_loss, "exit with 1 where the training ends with more");
  return text;
}

void declare_digits(CLI::App& app, Options& options) {
  CLI::App* digits = app.add_subcommand("digits", "a two-way LSTM that learns to read lines of digits by the CTC loss");
  DigitOptions& o = options.digits;
  number(digits, "--iterations", o.iterations, 1, 1e9, "updates of the weights");
  number(digits, "--batch", o.batch, 1, 65536, "lines an update");
  number(digits, "--hidden", o.hidden, 1, 16384, "units in each direction");
  number(digits, "--rate", o.rate, 0, 1, "learning rate of the first update; it falls to a tenth");
  number(digits, "--test", o.test, 1, 1e9, "lines to read at the end");
  digits->add_option("--seed", o.seed, "of the weights and the lines")->capture_default_str();
  digits->add_option("--curve", o.curve, "write the loss of each update to this table")->type_name("FILE");
  digits->add_option("--min-accuracy", options.min_accuracy, "exit with 1 where fewer lines are right, in percent");
}

int run(const Options& options, bool is_text) {
  if (options.device == "host") setenv("GPUDNN_BACKEND", "host", 1);
  const gpudnn::Handle handle;
  if (handle.is_host() && options.device == "gpu") {
    throw std::runtime_error("--device gpu: the library found no GPU to work on (or GPUDNN_BACKEND=host is set)");
  }
  std::printf("computing on the %s\n", handle.is_host() ? "CPU (host backend)" : "GPU (CUDA backend)");
  if (is_text) {
    const double loss = model_text(handle, options.text);
    std::printf("loss at the end %.3f\n", loss);
    return options.max_loss && loss > *options.max_loss ? 1 : 0;
  }
  const double accuracy = read_digits(handle, options.digits);
  return options.min_accuracy && accuracy < *options.min_accuracy ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Learns sequences by recurrent networks.");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--device", options.device, "auto: the GPU if there is one, else the CPU")
      ->check(CLI::IsMember({"auto", "gpu", "host"}))
      ->capture_default_str();
  const CLI::App* text = declare_text(app, options);
  declare_digits(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    return run(options, text->parsed());
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
