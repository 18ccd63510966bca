// Distributed training with real messages, on one machine: does it converge, and in how many bits? CONTRIBUTING.md says
// how to run it; spec/experiments.md has what came out.
//   train --method dqsg:levels=5 --csv run.csv --svg run.svg
//   train --plot all.svg DQSG=run.csv Uncompressed=other.csv
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>

#include "cli/numbers.h"
#include "codec/error.h"
#include "format/files.h"
#include "tools/train/plot.h"
#include "tools/train/run.h"

using namespace gradcodec;
using namespace gradcodec::train;

namespace {

struct Arguments {
  Settings settings;
  std::string csv, svg, plot, init = "he";
  std::vector<std::string> curves;
  double momentum = -1;
};

void declare(CLI::App& app, Arguments& args) {
  Settings& settings = args.settings;
  app.add_option("--method", settings.method,
                 "a scheme, or ndqsg:..., local:h=H/SCHEME, svrg/SCHEME, gossip:eps=E/SCHEME, sketched-sgd:..., "
                 "fetch-sgd:...");
  app.add_option("--model", settings.model, "mlp (784-300-100-10) or softmax (784-10)")->capture_default_str();
  app.add_option("--data", settings.data, "the folder of Fashion-MNIST, or synthetic")->capture_default_str();
  app.add_option("--workers", settings.workers)->capture_default_str()->check(CLI::Range(1, 4096));
  app.add_option("--batch", settings.batch, "samples a worker a step")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--steps", settings.steps)->capture_default_str()->check(CLI::Range(1, 10000000));
  app.add_option("--every", settings.every, "steps between two lines of the CSV")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000000));
  app.add_option("--lr", settings.lr, "of the first step")->capture_default_str()->check(CLI::Range(0.0, 1000.0));
  app.add_option("--final-lr", settings.final_lr, "which part of it is left in the last step: between them a line")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--momentum", args.momentum, "[0.9; 0 where the method has its own]")->check(CLI::Range(0.0, 0.9999));
  app.add_option("--l2", settings.l2, "half of it times the squared weights is added to the loss")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--init", args.init, "he, or truncated (0.1, biases 0.1)")
      ->capture_default_str()
      ->check(CLI::IsMember({"he", "truncated"}));
  app.add_option("--seed", settings.seed)->capture_default_str();
  app.add_option("--level", settings.level, "of the coders, 1 to 9")->capture_default_str();
  app.add_option("--csv", args.csv, "what was measured");
  app.add_option("--svg", args.svg, "the same drawn");
  CLI::Option* const plot = app.add_option("--plot", args.plot, "draws CSV files instead of running");
  app.add_option("curves", args.curves, "of --plot: NAME=CSV")->needs(plot);
}

void write(const std::string& path, const std::string& text) {
  OutputFile output(path, true, Origin{});
  output.write(std::as_bytes(std::span(text)));
  output.commit();
}

void say(const Record& record) {
  std::fprintf(stderr, "%7llu  loss %.4f  accuracy %.4f  up %.1f Kbit\n", static_cast<unsigned long long>(record.step),
               record.test_loss, record.test_accuracy, record.traffic.up / 1000);
}

int draw_files(const Arguments& args) {
  std::vector<Curve> curves;
  for (const std::string& text : args.curves) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos) throw Error(Exit::usage, "a curve is NAME=CSV, not '" + escaped(text) + "'");
    curves.push_back({text.substr(0, equals), read_csv(text.substr(equals + 1))});
  }
  if (curves.empty()) throw Error(Exit::usage, "--plot needs curves, NAME=CSV");
  write(args.plot, draw(curves));
  return 0;
}

int run_all(Arguments& args) {
  if (!args.plot.empty()) return draw_files(args);
  if (args.settings.method.empty()) throw Error(Exit::usage, "--method is needed, as in --method dqsg:levels=5");
  args.settings.init = args.init == "he" ? Init::he : Init::truncated;
  if (args.momentum >= 0) args.settings.momentum = args.momentum;
  const Data data = load_data(args.settings.data);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Record> records = run(args.settings, data, say);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!args.csv.empty()) write(args.csv, csv(records));
  if (!args.svg.empty()) write(args.svg, draw({{args.settings.method, records}}));
  const Record& last = records.back();
  const auto steps = static_cast<double>(last.step);
  if (last.step < args.settings.steps) std::printf("it diverged after %.0f steps\n", steps);
  std::printf("%s: accuracy %.4f, loss %.4f, %.1f Kbit up and %.1f down a worker a step, %.0f s\n",
              args.settings.method.c_str(), last.test_accuracy, last.test_loss, last.traffic.up / steps / 1000,
              last.traffic.down / steps / 1000, seconds);
  if (last.traffic.nested > 0) {
    std::printf("overloads: %llu of %llu nested values\n", static_cast<unsigned long long>(last.traffic.overloads),
                static_cast<unsigned long long>(last.traffic.nested));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Thousands of messages a second would else give their memory back to the system, each its own.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  CLI::App app{"Trains a small network on Fashion-MNIST by simulated workers, whose messages are real."};
  Arguments args;
  declare(app, args);
  CLI11_PARSE(app, argc, argv);
  try {
    return run_all(args);
  } catch (const Error& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return static_cast<int>(Exit::bug);
  }
}
