// The training loop: its gradients are right, its protocols are what the papers say where that can be known exactly.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>

#include "codec/error.h"
#include "tools/train/plot.h"
#include "tools/train/rounds.h"
#include "tools/train/run.h"

using namespace gradcodec;
using namespace gradcodec::train;

namespace {

const Data& images() {
  static const Data data = load_data("synthetic");
  return data;
}

Settings settings_of(const std::string& method, const std::string& model = "softmax") {
  Settings settings;
  settings.method = method;
  settings.model = model;
  settings.workers = 4;
  settings.batch = 10;
  settings.steps = 5;
  settings.every = 5;
  settings.data = "synthetic";
  return settings;
}

std::vector<Record> run_quietly(const Settings& settings) {
  return run(settings, images(), [](const Record&) {});
}

// All parameters after the run's steps.
std::vector<float> model_after(const Settings& settings) {
  const Network network(settings.model, settings.l2);
  Workers workers(settings, network, images().train);
  const std::unique_ptr<Protocol> protocol = make_protocol(parse_method(settings.method), workers);
  for (uint64_t step = 0; step < settings.steps; ++step) protocol->step(step);
  std::vector<float> out;
  flatten(protocol->model(), out);
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

template <typename T>
Parameters<T> converted(const TensorValues& values) {
  Parameters<T> out;
  for (const std::vector<float>& tensor : values) out.emplace_back(tensor.begin(), tensor.end());
  return out;
}

}  // namespace

TEST_CASE("back-propagation gives the slopes of the loss") {
  for (const std::vector<size_t>& widths : {std::vector<size_t>{7, 6, 5, 4}, std::vector<size_t>{7, 4}}) {
    for (const double l2 : {0.0, 0.3}) {
      const Network network(widths, l2);
      Parameters<double> parameters = converted<double>(network.first_values(Init::truncated, 5));
      Numbers numbers(9, 9);
      std::vector<double> rows;
      std::vector<uint8_t> classes;
      for (size_t i = 0; i < 11 * widths.front(); ++i) rows.push_back(numbers.normal());
      for (size_t i = 0; i < 11; ++i) classes.push_back(static_cast<uint8_t>(numbers.below(widths.back())));
      Parameters<double> gradient, unused;
      network.gradient<double>(parameters, rows, classes, gradient);
      for (size_t t = 0; t < parameters.size(); ++t) {
        REQUIRE(gradient[t].size() == parameters[t].size());
        for (size_t i = 0; i < parameters[t].size(); ++i) {
          constexpr double kStep = 1e-6;
          double& x = parameters[t][i];
          const double at = x;
          x = at + kStep;
          const double above = network.gradient<double>(parameters, rows, classes, unused);
          x = at - kStep;
          const double below = network.gradient<double>(parameters, rows, classes, unused);
          x = at;
          CHECK(gradient[t][i] == Approx((above - below) / (2 * kStep)).margin(1e-8).epsilon(1e-5));
        }
      }
      // What a run computes in float32 is the same but for rounding.
      const std::vector<float> rows32(rows.begin(), rows.end());
      TensorValues gradient32;
      network.gradient<float>(network.first_values(Init::truncated, 5), rows32, classes, gradient32);
      for (size_t t = 0; t < gradient.size(); ++t) {
        for (size_t i = 0; i < gradient[t].size(); ++i) {
          CHECK(static_cast<double>(gradient32[t][i]) == Approx(gradient[t][i]).margin(1e-5));
        }
      }
    }
  }
}

TEST_CASE("the score is the loss that the gradient is of") {
  const Network network("softmax", 0.1);
  const TensorValues parameters = network.first_values(Init::he, 3);
  Dataset some;
  some.pixels.assign(images().test.pixels.begin(), images().test.pixels.begin() + 900 * kPixels);
  some.labels.assign(images().test.labels.begin(), images().test.labels.begin() + 900);
  std::vector<uint32_t> all(900);
  for (uint32_t i = 0; i < 900; ++i) all[i] = i;
  std::vector<float> rows;
  std::vector<uint8_t> classes;
  some.gather(all, rows, classes);
  TensorValues gradient;
  CHECK(network.score(parameters, some).loss == Approx(network.gradient<float>(parameters, rows, classes, gradient)));
}

TEST_CASE("networks have the sizes that the papers count") {
  CHECK(Network("mlp").parameters() == 266610);
  CHECK(Network("softmax").parameters() == 7850);
  CHECK(Network("mlp").tensors().size() == 6);
  CHECK_THROWS_AS(Network("cnn"), Error);
}

TEST_CASE("first weights have the deviation that is stated") {
  const Network network("mlp");
  for (const auto& [init, deviation, bias] :
       {std::tuple(Init::he, std::sqrt(2 / 784.0), 0.0F), std::tuple(Init::truncated, 0.1 * 0.8796, 0.1F)}) {
    const TensorValues values = network.first_values(init, 1);
    double squares = 0, largest = 0;
    for (const float x : values[0]) {
      squares += static_cast<double>(x) * static_cast<double>(x);
      largest = std::max(largest, std::fabs(static_cast<double>(x)));
    }
    CHECK(std::sqrt(squares / static_cast<double>(values[0].size())) == Approx(deviation).epsilon(0.01));
    CHECK((largest <= 0.2) == (init == Init::truncated));
    CHECK(values[1] == std::vector<float>(300, bias));
  }
}

TEST_CASE("each image belongs to one worker, and all are gone through before one comes again") {
  std::vector<uint32_t> some = {5, 6, 7, 8, 9, 10, 11};
  Shard shard(some, 1, 0);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const std::span<const uint32_t> batch = shard.next(some.size());
    CHECK(std::multiset<uint32_t>(batch.begin(), batch.end()) == std::multiset<uint32_t>(some.begin(), some.end()));
  }
  const Settings settings = settings_of("raw");
  const Network network("softmax");
  const Workers workers(settings, network, images().train);
  size_t total = 0;
  for (size_t i = 0; i < workers.count(); ++i) total += workers.images(i);
  CHECK(total == images().train.size());
}

TEST_CASE("a run learns, and is the same again", "[slow]") {
  Settings settings = settings_of("dqsg:levels=5", "mlp");
  settings.steps = 60;
  settings.every = 20;
  const std::vector<Record> records = run_quietly(settings);
  CHECK(records.size() == 4);
  CHECK(records.back().test_accuracy > 0.7);  // of ten classes
  CHECK(records.back().test_loss < records.front().test_loss / 2);
  CHECK(csv(run_quietly(settings)) == csv(records));
  settings.seed = 2;
  CHECK(csv(run_quietly(settings)) != csv(records));
}

TEST_CASE("exact messages change nothing: it is SGD with momentum on the batches of all") {
  Settings settings = settings_of("raw");
  const Network network("softmax");
  Workers workers(settings, network, images().train);
  TensorValues parameters = network.first_values(settings.init, settings.seed), gradient, velocity = parameters;
  for (std::vector<float>& tensor : velocity) std::fill(tensor.begin(), tensor.end(), 0.0F);
  for (uint64_t step = 0; step < settings.steps; ++step) {
    Mean mean(network.tensors());
    for (size_t i = 0; i < 4; ++i) {
      workers.gradient(i, parameters, gradient);
      mean.add(gradient);
    }
    const TensorValues all = mean.get();
    const auto rate = static_cast<float>(0.1 * (1 - 0.95 * static_cast<double>(step) / 5));
    for (size_t t = 0; t < all.size(); ++t) {
      for (size_t i = 0; i < all[t].size(); ++i) {
        velocity[t][i] = 0.9F * velocity[t][i] + all[t][i];
        parameters[t][i] -= rate * velocity[t][i];
      }
    }
  }
  std::vector<float> flat;
  flatten(parameters, flat);
  CHECK(model_after(settings) == flat);
}

TEST_CASE("nested dither that is never overloaded is DQSG, in fewer bits only with fewer classes") {
  Settings settings = settings_of("dqsg:levels=5");
  const std::vector<float> plain = model_after(settings);
  settings.method = "ndqsg:fine=8,coarse=1,range=4";  // rho = 8: nothing is out of its reach
  CHECK(model_after(settings) == plain);
  CHECK(run_quietly(settings).back().traffic.overloads == 0);

  settings.method = "ndqsg:fine=2,coarse=1";  // rho = 2
  const Traffic traffic = run_quietly(settings).back().traffic;
  CHECK(traffic.nested == 5 * 2 * 7850);
  CHECK(traffic.overloads > 0);
  CHECK(traffic.overloads < traffic.nested / 2);
  CHECK(traffic.packed_last < 0.55 * traffic.packed_first);  // 1 bit and log2 5
}

TEST_CASE("local steps of one, exactly sent, are SGD without a server's momentum") {
  Settings settings = settings_of("raw");
  settings.momentum = 0;
  const std::vector<float> plain = model_after(settings);
  settings.method = "local:h=1/raw";
  CHECK(largest_difference(model_after(settings), plain) < 1e-6);
  settings.method = "local:h=3/raw";  // the last message is sent before its turn
  CHECK(run_quietly(settings).back().traffic.up < 0.5 * 5 * 32 * 7850);
}

TEST_CASE("the first step of L-SVRG is one of the full gradient") {
  Settings settings = settings_of("svrg/raw");
  settings.steps = 1;
  settings.lr = 1;
  const Network network("softmax");
  Workers workers(settings, network, images().train);
  std::vector<float> expected, part;
  flatten(network.first_values(settings.init, settings.seed), expected);
  TensorValues full;
  for (size_t i = 0; i < 4; ++i) {
    workers.full_gradient(i, network.first_values(settings.init, settings.seed), full);
    flatten(full, part);
    for (size_t j = 0; j < part.size(); ++j) expected[j] -= part[j] / 4;
  }
  CHECK(largest_difference(model_after(settings), expected) < 1e-6);
}

TEST_CASE("VR-DIANA comes nearer to the optimum than SGD over the same quantizer", "[slow]") {
  Settings settings = settings_of("qsgd:s=1,norm=max,bucket=0");
  settings.steps = settings.every = 1200;
  settings.momentum = 0;
  settings.final_lr = 1;
  settings.lr = 0.2;
  settings.l2 = 0.01;
  const double plain = *run_quietly(settings).back().gradient_norm;
  settings.method = "svrg/diana/qsgd:s=1,norm=max,bucket=0";
  CHECK(*run_quietly(settings).back().gradient_norm < plain / 4);
}

TEST_CASE("models that are not trained stay where they are; those that are stay together") {
  Settings settings = settings_of("gossip:eps=0.9/raw");
  settings.lr = 0;
  std::vector<float> first;
  flatten(Network("softmax").first_values(settings.init, settings.seed), first);
  CHECK(largest_difference(model_after(settings), first) < 1e-6);

  settings.lr = 0.1;
  settings.steps = settings.every = 200;
  settings.method = "gossip:eps=0.5/grid:step=0.002";
  const Record near = run_quietly(settings).back();
  settings.method = "gossip:eps=0.5/grid:step=1e-6";
  CHECK(near.test_accuracy > run_quietly(settings).back().test_accuracy - 0.03);
  CHECK(*near.consensus < 0.2);
  CHECK(*near.consensus > 0);
}

TEST_CASE("Sketched-SGD of all candidates is top-k with momentum and masking; of all elements, SGD") {
  Settings settings = settings_of("dgc:k=100%,m=0");
  const std::vector<float> dense = model_after(settings);
  settings.method = "sketched-sgd:rows=1,cols=10,k=100%,p=1,m=0";
  CHECK(largest_difference(model_after(settings), dense) < 1e-6);

  // The true top-k of the mean: one worker, so that it is dgc's.
  settings.workers = 1;
  const Network network("softmax");
  settings.method = "sketched-sgd:rows=1,cols=10,k=100,p=10000,m=0.9";
  const std::vector<Record> records = run_quietly(settings);
  std::vector<float> first;
  flatten(network.first_values(settings.init, settings.seed), first);
  settings.steps = 1;
  const std::vector<float> after = model_after(settings);
  size_t changed = 0;
  for (size_t i = 0; i < after.size(); ++i) changed += after[i] != first[i] ? 1 : 0;
  CHECK(changed == 100);
  Workers workers(settings, network, images().train);
  TensorValues gradient;
  std::vector<float> flat;
  workers.gradient(0, network.first_values(settings.init, settings.seed), gradient);
  flatten(gradient, flat);
  for (const uint64_t place : heaviest(flat, 100)) {
    CHECK(after[static_cast<size_t>(place)] != first[static_cast<size_t>(place)]);
  }
}

TEST_CASE("a sketch with room finds the heaviest, and all that is sent is counted", "[slow]") {
  Settings settings = settings_of("sketched-sgd:cols=400,k=50,p=4");
  settings.steps = settings.every = 150;
  const Record last = run_quietly(settings).back();
  CHECK(last.test_accuracy > 0.7);
  const double numbers = 5 * 400 + 200;  // up, of 32 bits
  CHECK(last.traffic.up > 0.8 * 150 * 32 * numbers);
  CHECK(last.traffic.up < 1.2 * 150 * 32 * numbers);
  CHECK(last.traffic.down > 150 * 32 * 50);
  settings.workers = 16;
  settings.batch = 2;
  CHECK(run_quietly(settings).back().traffic.up == Approx(last.traffic.up).epsilon(0.05));
}

TEST_CASE("FetchSGD learns, whatever becomes of what was sent") {
  for (const char* method : {"fetch-sgd:cols=2000,k=200,m=0.5", "fetch-sgd:cols=2000,k=200,m=0.5,sent=clear"}) {
    Settings settings = settings_of(method);
    settings.steps = settings.every = 150;
    CHECK(run_quietly(settings).back().test_accuracy > 0.6);
  }
}

TEST_CASE("AdaQuantFL spends more bits as the loss falls") {
  Settings settings = settings_of("adaquant:s0=2");
  settings.steps = 100;
  settings.every = 20;
  const std::vector<Record> records = run_quietly(settings);
  CHECK(records[5].traffic.packed_first > 1.2 * records[1].traffic.packed_first);
  settings.method = "local:h=5/adaquant:s0=2";
  CHECK(run_quietly(settings).back().test_accuracy > 0.5);
}

TEST_CASE("memory makes up for what one bit loses", "[slow]") {
  for (const char* method : {"onebit-ef", "sign-ef", "ef/topk:k=1%", "ec-qsgd:s=1", "diana/qsgd:s=1", "dgc:k=1%"}) {
    Settings settings = settings_of(method);
    settings.steps = settings.every = 100;
    CHECK(run_quietly(settings).back().test_accuracy > 0.7);
  }
}

TEST_CASE("a run that diverges ends, and its record says when") {
  Settings settings = settings_of("raw", "mlp");
  settings.steps = 400;
  settings.lr = 1000;
  const std::vector<Record> records = run_quietly(settings);
  CHECK(records.back().step < 400);
  CHECK(!(records.back().test_loss < 1e3));
  CHECK(draw({{"diverged", records}}).find("nan") == std::string::npos);
}

TEST_CASE("methods that cannot be are refused by name") {
  for (const char* method : {"local:h=0/raw", "local/raw", "local:h=2", "gossip:eps=2/raw", "sketched-sgd:cols=5",
                             "sketched-sgd:cols=5,k=1/raw", "svrg", "fetch-sgd:cols=5,k=5,sent=burnt",
                             "sketched-sgd:cols=5,k=1,k=1", "local:h=2,g=1/raw"}) {
    CHECK_THROWS_AS(parse_method(method), Error);
  }
  for (const char* method : {"ndqsg:fine=3,coarse=1,range=2", "nonsense", "gossip:eps=0.1/nonsense"}) {
    CHECK_THROWS_AS(model_after(settings_of(method)), Error);
  }
}

TEST_CASE("what a run measured can be read back and drawn") {
  const std::vector<Record> records = run_quietly(settings_of("gossip:eps=0.5/grid:step=0.01"));
  const std::string path = "train_test.csv";
  std::ofstream(path) << csv(records);
  CHECK(csv(read_csv(path)) == csv(records));
  const std::string svg = draw({{"a<b", records}, {"other", read_csv(path)}});
  CHECK(svg.find("a&lt;b") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  std::ofstream(path) << "step\n1\n";
  CHECK_THROWS_AS(read_csv(path), Error);
  std::remove(path.c_str());
}
