// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cfenv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <span>

#include "cli/command.h"
#include "codec/error.h"
#include "codec/kernels/kernels.h"
#include "format/files.h"

namespace gradcodec {
namespace {

int as_int(Exit code) { return static_cast<int>(code); }

int fail(Exit code, const std::string& text) {
  std::fprintf(stderr, "gradcodec: %s\n", text.c_str());
  return as_int(code);
}

constexpr int kClosedPipe = 128 + 13;  // as if SIGPIPE had ended the program

int printing_failed() { return errno == EPIPE ? kClosedPipe : fail(Exit::io, "standard output cannot be written"); }

// Runs the command that was named; every failure is a message and an exit code.
int run(const Command& command) {
  try {
    std::fesetenv(FE_DFL_ENV);  // a library may have made subnormal numbers zero
    const char* kernels = std::getenv("GRADCODEC_KERNELS");
    if (kernels != nullptr && !kernels::use_target(kernels)) {
      return fail(Exit::usage, "GRADCODEC_KERNELS names '" + escaped(kernels) + "', which this machine does not have");
    }
    const int code = command.run();
    // What was printed must have arrived: a full disk shows here, or did when the buffer was full.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return printing_failed();
    return code;
  } catch (const ClosedPipe&) {
    return kClosedPipe;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(Exit::limit, "out of memory");
  } catch (const std::exception& error) {
    return fail(Exit::bug, std::string("this is a bug of gradcodec's: ") + error.what());
  }
}

int printed() {
  std::cout.flush();
  return std::cout ? as_int(Exit::ok) : printing_failed();
}

bool is_command(std::span<const Command> commands, std::string_view word) {
  return std::any_of(commands.begin(), commands.end(), [&](const Command& c) { return c.app->get_name() == word; });
}

std::string names_of(std::span<const Command> commands) {
  std::string names;
  for (const Command& command : commands) names += (names.empty() ? "" : ", ") + command.app->get_name();
  return names;
}

std::string exit_codes() {
  std::string out;
  for (const auto& [code, meaning] : kExits) {
    out += (out.empty() ? "" : ", ") + std::to_string(as_int(code)) + " " + meaning;
  }
  return out;
}

std::string usage_text(const CLI::ParseError& error, int argc, char** argv) {
  std::string text = error.what();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    text = escaped(text) + " (one input at a time: use a loop for several)";
  }
  const std::string command = argc > 1 && argv[1][0] != '-' ? std::string(argv[1]) + " " : "";
  return text + " (gradcodec " + command + "--help)";
}

// A closed standard stream is opened the wrong way round: using it stays an error, and no file of ours takes its
// number, into which messages would be written.
void hold_standard_streams() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

int run_main(int argc, char** argv) {
  hold_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);  // writing says so instead, and what is unfinished is cleaned up
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody learns how a process ended
  CLI::App app("Compresses gradients under a scheme that keeps its promises, into real bytes.", "gradcodec");
  app.set_version_flag("--version", "gradcodec " GRADCODEC_VERSION " (format 1.0)");
  app.require_subcommand(1);
  app.footer("gradcodec COMMAND --help tells more. Exit codes:\n" + exit_codes() + ".");
  const Command commands[] = {add_aggregate(app), add_bench(app),   add_compare(app),    add_completions(app),
                              add_compress(app),  add_conform(app), add_decompress(app), add_forget(app),
                              add_info(app),      add_man(app),     add_replay(app),     add_schemes(app),
                              add_stats(app),     add_verify(app)};
  for (int i = 1; i < argc; ++i) {  // most likely a variable that was not set
    const std::string_view word = argv[i];
    if (word.empty()) return fail(Exit::usage, "argument " + std::to_string(i) + " is empty");
    if (word.size() > 2 && word.substr(0, 2) == "--" && word.back() == '=') {
      return fail(Exit::usage, escaped(word) + " is given no value");
    }
  }
  if (argc > 1) {
    const std::string word = argv[1];
    if (word == "help") {
      std::cout << app.help();
      return printed();
    }
    if (word[0] != '-' && !is_command(commands, word)) {
      return fail(Exit::usage,
                  "'" + escaped(word) + "' is not a command; there are " + names_of(commands) + " (gradcodec --help)");
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);  // prints the help that was asked for
      return printed();
    }
    return fail(Exit::usage, usage_text(error, argc, argv));
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return run(command);
  }
  return as_int(Exit::usage);
}

}  // namespace
}  // namespace gradcodec

int main(int argc, char** argv) {
  try {
    return gradcodec::run_main(argc, argv);
  } catch (const std::exception& error) {  // out of memory before there was a command
    std::fprintf(stderr, "gradcodec: %s\n", error.what());
    return gradcodec::as_int(gradcodec::Exit::bug);
  }
}
