/* SPDX-License-Identifier: Apache-2.0 */
/* child_jail.c: forbids system calls that a child which reads foreign files never needs.
 * In: nothing. Out: Linux answers them with EPERM, for this process and its threads,
 * through a filter that cannot be removed. It is a second line of defence, so it lists
 * what is refused, and a newer C library still works. Elsewhere, and on kernels without
 * filters, nothing happens: the limits of child.c remain. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include "base/child.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) &&               \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* Creating, renaming and removing files; the network; other processes and programs. */
/* clang-format off */
static const int refused[] = {
    __NR_socket, __NR_socketpair, __NR_connect, __NR_bind, __NR_listen, __NR_sendto,
    __NR_sendmsg, __NR_execve, __NR_execveat, __NR_ptrace, __NR_process_vm_readv,
    __NR_process_vm_writev, __NR_unlinkat, __NR_renameat2, __NR_linkat, __NR_symlinkat,
    __NR_mkdirat, __NR_mknodat, __NR_truncate, __NR_fchmodat, __NR_fchownat, __NR_setxattr,
    __NR_mount, __NR_bpf, __NR_memfd_create, __NR_perf_event_open, __NR_userfaultfd,
    __NR_open_by_handle_at, __NR_keyctl, __NR_add_key,
#ifdef __NR_io_uring_setup
    __NR_io_uring_setup,
#endif
#ifdef __NR_openat2
    __NR_openat2, /* its flags lie in memory, which a filter cannot read */
#endif
#ifdef __x86_64__
    __NR_unlink, __NR_rename, __NR_renameat, __NR_link, __NR_symlink, __NR_mkdir,
    __NR_rmdir, __NR_mknod, __NR_creat, __NR_chmod, __NR_chown, __NR_fork, __NR_vfork,
#endif
};
/* clang-format on */
enum { N_REFUSED = sizeof refused / sizeof *refused };

static const uint32_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;

/* Loads one word of the call's data. */
#define LOAD(field)                                                                      \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define UNLESS_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)

/* Opening, with flags in argument k: only reading is allowed. */
static int add_open(struct sock_filter *f, int call, int k)
{
    const struct sock_filter part[] = {
        UNLESS_EQUAL((uint32_t)call, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args) + (size_t)k * sizeof(uint64_t)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, writes, 0, 1),
        REFUSE,
        ALLOW,
    };

    for (int i = 0; i < 5; i++)
        f[i] = part[i];
    return 5;
}

void child_jail(void)
{
    const struct sock_filter begin[] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0), REFUSE, LOAD(nr)};
    struct sock_filter f[2 * N_REFUSED + 24];
    struct sock_fprog program = {.filter = f};
    int n = 0;

    for (int i = 0; i < 4; i++)
        f[n++] = begin[i];
#ifdef __x86_64__
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    f[n++] = (struct sock_filter)REFUSE; /* the calls of x32 */
    n += add_open(f + n, __NR_open, 1);
#endif
    n += add_open(f + n, __NR_openat, 2);
    for (int i = 0; i < N_REFUSED; i++) {
        f[n++] = (struct sock_filter)UNLESS_EQUAL((uint32_t)refused[i], 1);
        f[n++] = (struct sock_filter)REFUSE;
    }
    f[n++] = (struct sock_filter)ALLOW;
    program.len = (unsigned short)n;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    /* avoids slower memory accesses, which filters enable by default: nothing is secret
     * here */
    if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                &program) != 0)
        syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

#else

void child_jail(void)
{
}

#endif
