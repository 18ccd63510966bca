// SPDX-License-Identifier: Apache-2.0
#include "tools/train/run.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>

#include "codec/error.h"
#include "codec/number_text.h"

namespace gradcodec::train {
namespace {

constexpr std::string_view kHeader =
    "step,batch_loss,test_loss,test_accuracy,up_bits,down_bits,packed_first,packed_last,nested,overloads,train_loss,"
    "gradient_norm,consensus";
constexpr size_t kColumns = 13;

std::string text_of(const std::optional<double>& value) { return value ? number_text(*value) : ""; }

// Loss and gradient of all images of all workers.
void take_full_gradient(Workers& workers, const TensorValues& model, Record& record) {
  TensorValues part;
  Mean mean(workers.network().tensors());
  double loss = 0;
  for (size_t i = 0; i < workers.count(); ++i) {
    loss += workers.full_gradient(i, model, part) / static_cast<double>(workers.count());
    mean.add(part);
  }
  double squares = 0;
  for (const std::vector<float>& tensor : mean.get()) {
    for (const float x : tensor) squares += static_cast<double>(x) * static_cast<double>(x);
  }
  record.train_loss = loss;
  record.gradient_norm = std::sqrt(squares);
}

}  // namespace

std::unique_ptr<Protocol> make_protocol(const Method& method, Workers& workers) {
  switch (method.kind) {
    case Method::nested:
      return make_nested_protocol(method, workers);
    case Method::local:
      return make_local_protocol(method, workers);
    case Method::gossip:
      return make_gossip_protocol(method, workers);
    case Method::sketched:
      return make_sketched_protocol(method, workers);
    case Method::fetch:
      return make_fetch_protocol(method, workers);
    default:
      return make_gradient_protocol(method, workers);
  }
}

std::vector<Record> run(const Settings& settings, const Data& data, const std::function<void(const Record&)>& seen) {
  const Network network(settings.model, settings.l2);
  Workers workers(settings, network, data.train);
  // What it measures of all images must not move the workers' batches on.
  Workers others(settings, network, data.train);
  const std::unique_ptr<Protocol> protocol = make_protocol(parse_method(settings.method), workers);
  std::vector<Record> records;
  double loss = 0;
  uint64_t since = 0;
  bool diverged = false;
  for (uint64_t step = 0; step <= settings.steps; ++step) {
    if (step % settings.every == 0 || step == settings.steps || diverged) {
      Record record;
      record.step = step;
      record.batch_loss = since == 0 ? 0 : loss / static_cast<double>(since);
      const TensorValues model = protocol->model();
      const Network::Score score = network.score(model, data.test);
      record.test_loss = score.loss;
      record.test_accuracy = score.accuracy;
      record.traffic = protocol->traffic();
      record.consensus = protocol->consensus();
      if (settings.model == "softmax") take_full_gradient(others, model, record);
      seen(record);
      records.push_back(record);
      loss = 0;
      since = 0;
    }
    if (step == settings.steps || diverged) break;
    try {
      loss += protocol->step(step);
      ++since;
    } catch (const Diverged&) {
      diverged = true;
    }
  }
  return records;
}

std::string csv(const std::vector<Record>& records) {
  std::string out(kHeader);
  out += '\n';
  for (const Record& record : records) {
    const Traffic& traffic = record.traffic;
    out += std::to_string(record.step);
    for (const double value : {record.batch_loss, record.test_loss, record.test_accuracy, traffic.up, traffic.down,
                               traffic.packed_first, traffic.packed_last}) {
      out += ',' + number_text(value);
    }
    out += ',' + std::to_string(traffic.nested) + ',' + std::to_string(traffic.overloads);
    for (const std::optional<double>& value : {record.train_loss, record.gradient_norm, record.consensus}) {
      out += ',' + text_of(value);
    }
    out += '\n';
  }
  return out;
}

std::vector<Record> read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(Exit::io, "cannot be opened").in_file(path);
  std::string line;
  const auto fail = [&](const std::string& text) { throw Error(Exit::bad_input, text).in_file(path); };
  if (!std::getline(file, line) || line != kHeader) fail("is no CSV file of train");
  std::vector<Record> records;
  while (std::getline(file, line)) {
    std::array<std::optional<double>, kColumns> values;
    size_t at = 0;
    for (std::optional<double>& value : values) {
      const size_t end = std::min(line.find(',', at), line.size());
      double number = 0;
      const auto [stop, error] = std::from_chars(line.data() + at, line.data() + end, number);
      if (end > at && (error != std::errc() || stop != line.data() + end)) fail("has a line that is none of numbers");
      if (end > at) value = number;
      at = std::min(end + 1, line.size());
    }
    for (size_t i = 0; i < 10; ++i) {
      if (!values[i]) fail("has a line of too few numbers");
    }
    Record record;
    record.step = static_cast<uint64_t>(*values[0]);
    record.batch_loss = *values[1];
    record.test_loss = *values[2];
    record.test_accuracy = *values[3];
    record.traffic = {*values[4],
                      *values[5],
                      *values[6],
                      *values[7],
                      static_cast<uint64_t>(*values[8]),
                      static_cast<uint64_t>(*values[9])};
    record.train_loss = values[10];
    record.gradient_norm = values[11];
    record.consensus = values[12];
    records.push_back(record);
  }
  if (records.empty()) fail("has no line of numbers");
  return records;
}

}  // namespace gradcodec::train
