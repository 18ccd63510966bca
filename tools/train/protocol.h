// What workers and server do in a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "tools/train/method.h"
#include "tools/train/workers.h"

namespace gradcodec::train {

class Protocol {
 public:
  virtual ~Protocol() = default;

  // Steps rise by one from 0. Returns the mean of the workers' losses before it.
  virtual double step(uint64_t step) = 0;

  virtual TensorValues model() const = 0;  // the server's; of gossip the mean of all
  virtual Traffic traffic() const = 0;

  // Of gossip: the root of the mean squared distance of the models from their mean.
  virtual std::optional<double> consensus() const { return std::nullopt; }
};

// `workers` outlives it. Throws Error(usage).
std::unique_ptr<Protocol> make_protocol(const Method& method, Workers& workers);

// One each, in a file of its own.
std::unique_ptr<Protocol> make_gradient_protocol(const Method& method, Workers& workers);  // and svrg
std::unique_ptr<Protocol> make_nested_protocol(const Method& method, Workers& workers);
std::unique_ptr<Protocol> make_local_protocol(const Method& method, Workers& workers);
std::unique_ptr<Protocol> make_gossip_protocol(const Method& method, Workers& workers);
std::unique_ptr<Protocol> make_sketched_protocol(const Method& method, Workers& workers);
std::unique_ptr<Protocol> make_fetch_protocol(const Method& method, Workers& workers);

}  // namespace gradcodec::train
