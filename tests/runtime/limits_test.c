/* SPDX-License-Identifier: Apache-2.0 */
/* limits_test.c: limits, read from folders that look like machines: of control groups of
 * both versions, on the group of the process, above it, and on the mount; the number of
 * mappings. */
#include "../../runtime/job/rt_limits.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static char root[] = "/tmp/fsdpgen-limits.XXXXXX";
static const char unlimited_v1[] = "9223372036854771712\n";

static int begin(void **state)
{
    (void)state;
    return mkdtemp(strcpy(root, "/tmp/fsdpgen-limits.XXXXXX")) != NULL ? 0 : -1;
}

static int end(void **state)
{
    char error[RT_ERROR_BYTES];

    (void)state;
    return rt_file_remove_tree(root, error) ? 0 : -1;
}

/* The file `name` of the folder `at`, both below the root. */
static void put(const char *at, const char *name, const char *text)
{
    char folder[RT_PATH_BYTES], path[2 * RT_PATH_BYTES], error[RT_ERROR_BYTES];

    snprintf(folder, sizeof folder, "%s%s", root, at);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(rt_file_make_folder(folder, error));
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void machine(const char *groups, const char *mounts)
{
    put("/proc/self", "cgroup", groups);
    put("/proc/self", "mountinfo", mounts);
}

static void memory_v2(const char *at, const char *most, const char *used,
                      const char *stat)
{
    put(at, "memory.max", most);
    put(at, "memory.current", used);
    put(at, "memory.stat", stat);
}

static void memory_v1(const char *at, const char *most, const char *used)
{
    put(at, "memory.limit_in_bytes", most);
    put(at, "memory.usage_in_bytes", used);
    put(at, "memory.stat", "inactive_file 9000\ntotal_inactive_file 50\n");
}

#define MOUNT_V2(OF, AT)                                                                 \
    "23 1 0:22 / /proc rw - proc proc rw\n"                                              \
    "30 23 0:26 " OF " " AT " rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

/* As of Slurm: the step has no limit itself, the job has one of memory and CPUs. */
static void above_the_group(void **state)
{
    (void)state;
    machine("0::/system.slice/job_7/step_0\n", MOUNT_V2("/", "/sys/fs/cgroup"));
    memory_v2("/sys/fs/cgroup/system.slice/job_7/step_0", "max\n", "300\n", "");
    memory_v2("/sys/fs/cgroup/system.slice/job_7", "1000\n", "400\n",
              "anon 7\ninactive_file 100\n");
    memory_v2("/sys/fs/cgroup/system.slice", "max\n", "5000\n", "");
    put("/sys/fs/cgroup/system.slice/job_7/step_0", "cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/system.slice/job_7", "cpu.max", "350000 100000\n");
    assert_int_equal(rt_limits_memory_bytes(root), 700);
    assert_int_equal(rt_limits_cpus(root), 4);
    /* the smallest decides, wherever it is set */
    put("/sys/fs/cgroup/system.slice", "cpu.max", "200000 100000\n");
    memory_v2("/sys/fs/cgroup/system.slice/job_7/step_0", "350\n", "300\n",
              "inactive_file 400\n");
    assert_int_equal(rt_limits_cpus(root), 2);
    assert_int_equal(rt_limits_memory_bytes(root), 350);
    memory_v2("/sys/fs/cgroup/system.slice", "5000\n", "5100\n", "");
    assert_int_equal(rt_limits_memory_bytes(root), 0);
}

/* In a container with names of its own, the mount is the group. */
static void on_the_mount(void **state)
{
    (void)state;
    machine("0::/\n", MOUNT_V2("/", "/sys/fs/cgroup"));
    memory_v2("/sys/fs/cgroup", "1000\n", "400\n", "");
    put("/sys/fs/cgroup", "cpu.max", "50000 100000\n");
    assert_int_equal(rt_limits_memory_bytes(root), 600);
    assert_int_equal(rt_limits_cpus(root), 1);
}

/* In one that shares the host's names, the mount is a group in the middle. */
static void below_a_part(void **state)
{
    (void)state;
    machine("0::/docker/c0/worker\n", MOUNT_V2("/docker/c0", "/sys/fs/cgroup"));
    memory_v2("/sys/fs/cgroup", "1000\n", "400\n", "");
    memory_v2("/sys/fs/cgroup/worker", "500\n", "400\n", "");
    assert_int_equal(rt_limits_memory_bytes(root), 100);
    /* a process that was put elsewhere, and a name that only begins like that one */
    machine("0::/../other\n", MOUNT_V2("/", "/sys/fs/cgroup"));
    assert_int_equal(rt_limits_memory_bytes(root), 600);
    machine("0::/docker/c01/worker\n", MOUNT_V2("/docker/c0", "/sys/fs/cgroup"));
    assert_int_equal(rt_limits_memory_bytes(root), 600);
}

static const char mounts_v1[] =
    "31 1 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

static void version_1(void **state)
{
    const char *memory = "/sys/fs/cgroup/memory", *cpu = "/sys/fs/cgroup/cpu,cpuacct";

    (void)state;
    machine("5:cpuset:/set\n4:memory:/a/b\n2:cpuacct,cpu:/c/d\n0::/a\n", mounts_v1);
    memory_v1(memory, unlimited_v1, "90000\n");
    put(cpu, "cpu.cfs_quota_us", "-1\n");
    put(cpu, "cpu.cfs_period_us", "100000\n");
    assert_true(rt_limits_memory_bytes(root) > INT64_MAX / 2);
    assert_int_equal(rt_limits_cpus(root), INT_MAX);
    memory_v1("/sys/fs/cgroup/memory/a", "1000\n", "800\n");
    memory_v1("/sys/fs/cgroup/memory/a/b", unlimited_v1, "700\n");
    put("/sys/fs/cgroup/cpu,cpuacct/c/d", "cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/c/d", "cpu.cfs_period_us", "100000\n");
    assert_int_equal(rt_limits_memory_bytes(root), 250);
    assert_int_equal(rt_limits_cpus(root), 3);
}

static void nothing_known(void **state)
{
    (void)state;
    assert_true(rt_limits_memory_bytes(root) == INT64_MAX);
    assert_int_equal(rt_limits_cpus(root), INT_MAX);
    machine("no colons\n:\n0:\n",
            "1 2\n - cgroup2\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 x y\n");
    assert_true(rt_limits_memory_bytes(root) == INT64_MAX);
    put("/proc/self", "cgroup", "");
    assert_int_equal(rt_limits_cpus(root), INT_MAX);
}

/* ENOMEM of a mapping is about their number only if that is reached. */
static void mappings(void **state)
{
    char maps[4096] = "";

    (void)state;
    assert_string_equal(rt_limits_map_error(root, ENOMEM), strerror(ENOMEM));
    put("/proc/sys/vm", "max_map_count", "60\n");
    for (int i = 0; i < 43; i++)
        strcat(maps, "7f0000000000-7f0000001000 r--s 00000000 fe:00 7 /data/a\n");
    put("/proc/self", "maps", maps);
    assert_string_equal(rt_limits_map_error(root, ENOMEM), strerror(ENOMEM));
    put("/proc/self", "maps",
        strcat(maps, "7fff00000000-7fff00001000 r-xp 0 0:0 0 [vdso]\n"));
    assert_non_null(strstr(rt_limits_map_error(root, ENOMEM),
                           "has the 60 mappings that vm.max_map_count allows"));
    assert_string_equal(rt_limits_map_error(root, EACCES), strerror(EACCES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(above_the_group, begin, end),
        cmocka_unit_test_setup_teardown(on_the_mount, begin, end),
        cmocka_unit_test_setup_teardown(below_a_part, begin, end),
        cmocka_unit_test_setup_teardown(version_1, begin, end),
        cmocka_unit_test_setup_teardown(nothing_known, begin, end),
        cmocka_unit_test_setup_teardown(mappings, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
