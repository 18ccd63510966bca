// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/confine.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>

#include "format/dumps/hdf5_protocol.h"

#ifdef GRADCODEC_SECCOMP
#include <seccomp.h>
#endif

// Sanitizers map terabytes, and open files and start processes to report.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRADCODEC_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define GRADCODEC_SANITIZED
#endif
#endif

namespace gradcodec::hdf5 {
namespace {

#ifdef GRADCODEC_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Two rows of chunks of 256 MiB with what unpacking takes, and a listing of some million tensors.
constexpr rlim_t kMemory = rlim_t{2} << 30;

template <typename Resource>
void limit(Resource resource, rlim_t most) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return;
  now.rlim_max = std::min(now.rlim_max, most);
  now.rlim_cur = std::min(now.rlim_cur, most);
  setrlimit(resource, &now);
}

#ifdef GRADCODEC_SECCOMP
void filter_calls(bool writes) {
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (filter == nullptr) return;
  const auto allow = [&](int call) { seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0); };
  const auto allow_on = [&](int call, int fd) {
    seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(fd), 0));
  };
  const auto allow_no_code = [&](int call) {
    seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  };
  allow_on(SCMP_SYS(read), kSocket);
  allow_on(SCMP_SYS(write), kSocket);
  allow_on(SCMP_SYS(pread64), kDump);
  if (writes) {
    allow_on(SCMP_SYS(pwrite64), kDump);
    allow_on(SCMP_SYS(ftruncate), kDump);
  }
  // Memory, without new code.
  allow_no_code(SCMP_SYS(mmap));
  allow_no_code(SCMP_SYS(mprotect));
  for (const int call : {SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(futex)}) {
    allow(call);
  }
  // qsort asks how much memory there is; some machines ask the kernel for the time.
  for (const int call : {SCMP_SYS(sysinfo), SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
                         SCMP_SYS(time), SCMP_SYS(getpid), SCMP_SYS(gettid)}) {
    allow(call);
  }
  // The ends: abort says so on the standard error, which leads nowhere, and sends a signal to itself.
  allow_on(SCMP_SYS(write), STDERR_FILENO);
  allow_on(SCMP_SYS(writev), STDERR_FILENO);
  for (const int call : {SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction),
                         SCMP_SYS(restart_syscall)}) {
    allow(call);
  }
  seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 2,
                   SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid()), 0),
                   SCMP_A2(SCMP_CMP_EQ, static_cast<scmp_datum_t>(SIGABRT), 0));
  seccomp_load(filter);
  seccomp_release(filter);
}
#else
void filter_calls(bool) {}
#endif

}  // namespace

#ifdef GRADCODEC_SECCOMP
const bool kFiltersCalls = !kSanitized;
#else
const bool kFiltersCalls = false;
#endif

void confine(bool writes) {
  limit(RLIMIT_CORE, 0);
  if (!writes) limit(RLIMIT_FSIZE, 0);
  if (kSanitized) return;
  // Of an ordinary user, these stop what seccomp stops, where that is missing.
  limit(RLIMIT_NOFILE, 0);
  limit(RLIMIT_NPROC, 0);
  limit(RLIMIT_AS, kMemory);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  filter_calls(writes);
}

}  // namespace gradcodec::hdf5
