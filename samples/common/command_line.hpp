// What the main functions of the samples have in common: options are read, `run` does the work, and what it throws is
// told on the error stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

template <class Options, class Run>
int run_with_options(int argc, char** argv, const std::string& what, void (*declare)(CLI::App&, Options&), Run run) {
  Options options;
  CLI::App app(what);
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
